// SPDX-License-Identifier: Apache-2.0
// The device in front of which a worker copies: it takes bytes at a fixed rate, from a staging
// buffer of a few pieces.  Time it needs is slept, never spun.
//
// The host may be ahead of the device by the staging buffer and no more: a piece may be filled once
// the device has finished the piece that lay there before.  Completion times follow an absolute
// schedule, so that late wake-ups do not add up, while a stall of the host is never made good by a
// device faster than it is.
// Threads: one.
#ifndef PPC_TOOLS_MODEL_LOADMODEL_DEVICE_CLOCK_H_
#define PPC_TOOLS_MODEL_LOADMODEL_DEVICE_CLOCK_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ppc::bench {

class DeviceClock {
 public:
  // bytes_per_second 0: a device that takes no time.
  DeviceClock(double bytes_per_second, uint32_t pieces)
      : ns_per_byte_(bytes_per_second > 0 ? 1e9 / bytes_per_second : 0), done_ns_(pieces, 0) {}

  // When the next piece of the staging buffer may be filled.
  uint64_t FreeAt() const { return done_ns_[next_]; }

  // A piece of bytes was filled at now_ns; the device takes it when it has done all before it.
  void Submit(uint64_t now_ns, uint64_t bytes) {
    const double start = std::max(last_ns_, static_cast<double>(now_ns));
    last_ns_ = start + ns_per_byte_ * static_cast<double>(bytes);
    done_ns_[next_] = static_cast<uint64_t>(last_ns_);
    next_ = (next_ + 1) % done_ns_.size();
  }

  // When everything submitted is done.
  uint64_t IdleAt() const { return static_cast<uint64_t>(last_ns_); }

 private:
  double ns_per_byte_;
  std::vector<uint64_t> done_ns_;
  size_t next_ = 0;
  double last_ns_ = 0;
};

}  // namespace ppc::bench

#endif  // PPC_TOOLS_MODEL_LOADMODEL_DEVICE_CLOCK_H_
