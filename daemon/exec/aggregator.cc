// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/aggregator.h"

#include <algorithm>

namespace ppc {

Aggregator::Aggregator(size_t max_batch) { out_.reserve(max_batch); }

bool Aggregator::Continues(const Event& before, const Event& next) {
  // A lost event between the two may have been anything.
  return before.tid == next.tid && before.file == next.file && before.open_id == next.open_id &&
         before.kind == next.kind && before.flags == (next.flags & ~kEventLost) &&
         (next.flags & kEventLost) == 0 && before.offset + before.length == next.offset;
}

std::span<const Event> Aggregator::Merge(std::span<Event> batch) {
  // Rings are per CPU; a thread that moved left its events in two of them.
  const auto earlier = [](const Event& a, const Event& b) {
    return a.time_ns != b.time_ns ? a.time_ns < b.time_ns : a.offset < b.offset;
  };
  if (!std::is_sorted(batch.begin(), batch.end(), earlier))
    std::sort(batch.begin(), batch.end(), earlier);
  out_.clear();
  ++batch_;
  for (const Event& event : batch) {
    if (!IsMiss(event.kind)) {
      out_.push_back(event);
      continue;
    }
    const uint64_t key = (event.file * 0x9e3779b97f4a7c15ULL) ^
                         (static_cast<uint64_t>(event.tid) * 0xff51afd7ed558ccdULL);
    Slot& slot = slots_[(key >> 32) % kSlots];
    if (slot.batch == batch_ && Continues(out_[slot.index], event)) {
      out_[slot.index].length += event.length;
      out_[slot.index].time_ns = event.time_ns;
      ++merged_;
      continue;
    }
    slot = Slot{batch_, out_.size()};
    out_.push_back(event);
  }
  return out_;
}

}  // namespace ppc
