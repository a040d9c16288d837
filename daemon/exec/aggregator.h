// SPDX-License-Identifier: Apache-2.0
// Owns merging contiguous misses of one thread and file within a drained batch, so that a
// policy is called per stretch and not per page or window.
// Threads: the executor's.  No allocation after the first batches.
// Paper: section 3.2 (policy executor aggregates contiguous misses).
#ifndef PPC_DAEMON_EXEC_AGGREGATOR_H_
#define PPC_DAEMON_EXEC_AGGREGATOR_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/backend/backend.h"

namespace ppc {

class Aggregator {
 public:
  explicit Aggregator(size_t max_batch);

  // Sorts `batch` by time and merges.  The result is valid until the next call; a merged miss
  // stands where its first part stood and carries the time of its last.
  std::span<const Event> Merge(std::span<Event> batch);
  uint64_t Merged() const { return merged_; }

 private:
  // Last miss of a (thread, file) in this batch; direct-mapped, a collision only merges less.
  struct Slot {
    uint64_t batch = 0;
    size_t index = 0;
  };
  static constexpr size_t kSlots = 1024;
  static bool Continues(const Event& before, const Event& next);

  std::vector<Event> out_;
  std::array<Slot, kSlots> slots_{};
  uint64_t batch_ = 0;
  uint64_t merged_ = 0;
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_AGGREGATOR_H_
