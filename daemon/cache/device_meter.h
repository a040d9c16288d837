// SPDX-License-Identifier: Apache-2.0
// Owns the estimate of the device below, by what our own loads get from it: their rate together,
// and the time that one load of a step (2 MiB) takes, which is what a reader would wait.  What the
// loading costs the CPU is in both.  An estimate is of windows of 100 ms in which something was
// loaded, the newest counts as much as all before it; times are averaged and not rates, so that a
// device that becomes slow shows within two of them.  Where all loads end before the first window
// does, they are the estimate.
// Threads: none of its own; the caller locks.
#ifndef PPC_DAEMON_CACHE_DEVICE_METER_H_
#define PPC_DAEMON_CACHE_DEVICE_METER_H_

#include <cstdint>

namespace ppc {

struct DeviceSpeed {
  uint64_t bytes_per_s = 0;  // 0 = not known
  uint64_t step_ns = 0;      // 0 = not known
};

class DeviceMeter {
 public:
  // Around each load; `bytes` came from the device.
  void Begin(uint64_t now_ns);
  void End(uint64_t now_ns, uint64_t bytes, uint64_t duration_ns);
  DeviceSpeed Speed() const;

 private:
  void Account(uint64_t now_ns);
  void CloseAt(uint64_t now_ns);  // if the window is over by then

  static constexpr uint64_t kWindowNs = 100 * 1000 * 1000;
  static constexpr uint64_t kWholeBytes = 512 << 10;  // less says little about a step's time

  int under_way_ = 0;
  uint64_t accounted_ns_ = 0;  // up to here busy_ns_ is complete
  uint64_t window_ns_ = 0;     // start of the window
  // In the window.
  uint64_t busy_ns_ = 0;  // at least one load was under way
  uint64_t bytes_ = 0;
  uint64_t whole_bytes_ = 0;
  uint64_t whole_ns_ = 0;
  // Estimates, 0 = not known.
  double ns_per_byte_ = 0;
  double step_ns_per_byte_ = 0;
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_DEVICE_METER_H_
