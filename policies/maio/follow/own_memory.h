// SPDX-License-Identifier: Apache-2.0
//
// What a service takes for itself before it reads the model: Python, libraries, a device's context.
// Where its memory is limited, room that was filled with the model meanwhile has to be made again,
// by dropping what was loaded and not read.
#ifndef POLICIES_MAIO_FOLLOW_OWN_MEMORY_H_
#define POLICIES_MAIO_FOLLOW_OWN_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/layout.h"
#include "policies/maio/follow/matcher.h"
#include "ppc.h"

namespace ppc::maio {

// Of a service's workers.
enum class ReadingWorkers { kNone, kSome, kAll };
ReadingWorkers FindReadingWorkers(const Layout& layout, const std::vector<Cursor>& cursors);

class OwnMemory {
 public:
  // expected: what it had taken when it was recorded; 0: not known.
  explicit OwnMemory(uint64_t expected) : expected_(expected) {}

  // Nothing is left any more.
  bool has_ended() const { return has_ended_; }
  // Bytes of room that are not to be filled now.  model: bytes of the model that are there;
  // group_used: by the service's cgroup, which says it where no limit does, 0: not known.
  uint64_t RoomToLeave(const ppc_memory& memory, uint64_t group_used, uint64_t model,
                       ReadingWorkers reads, uint64_t now_ns) {
    if (has_ended_) return 0;
    const uint64_t used = memory.is_cgroup != 0 ? memory.used : group_used;
    const uint64_t own = used - std::min(used, model + memory.inflight);
    taken_ = std::max(taken_, own);
    if (reads != ReadingWorkers::kNone && begun_ns_ == 0) begun_ns_ = now_ns;
    // Others begin a little later, or never.
    const bool is_late = begun_ns_ != 0 && now_ns >= begun_ns_ + kOwnSettleNs;
    has_ended_ = reads == ReadingWorkers::kAll || is_late;
    if (has_ended_ || memory.is_cgroup == 0) return 0;
    return std::min(expected_ - std::min(expected_, own), memory.threshold / kMostOwnShare);
  }
  // The most that was seen until it had begun to read; 0: not known.
  uint64_t taken() const { return begun_ns_ != 0 ? taken_ : 0; }

 private:
  const uint64_t expected_;
  uint64_t taken_ = 0;
  uint64_t begun_ns_ = 0;
  bool has_ended_ = false;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_OWN_MEMORY_H_
