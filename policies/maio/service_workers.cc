// SPDX-License-Identifier: Apache-2.0
//
// Which groups of the template a worker of this run reads.
#include <algorithm>
#include <bit>

#include "policies/maio/service.h"

namespace ppc::maio {
namespace {

constexpr uint32_t kVotes = 8;

}  // namespace

// Recorded with another number of workers: slices are rows in the order of the workers, so each
// worker reads what several neighbours read then, or a part of what one read.
void Service::Regroup() {
  regrouped_.clear();
  uint32_t recorded = 0;
  for (const LayoutGroup& group : layout_->groups()) recorded += group.id != kCommonGroup ? 1 : 0;
  const uint32_t now = spec_.workers;
  if (now == 0 || recorded == 0 || now == recorded) return;
  if (now % recorded != 0 && recorded % now != 0) return;
  std::vector<uint64_t> slots(now, 0);
  for (uint32_t w = 0; w < now; w++) {
    const uint32_t first = w * recorded / now;
    const uint32_t end = std::max(first + 1, (w + 1) * recorded / now);
    for (uint32_t id = first; id < end; id++) {
      const int32_t slot = SlotOf(id);
      if (slot < 0) return;  // worker numbers with gaps
      slots[w] |= uint64_t{1} << slot;
    }
  }
  regrouped_ = std::move(slots);
}

uint64_t Service::SlotsOf(uint32_t worker) const {
  if (worker < regrouped_.size()) return regrouped_[worker];
  const int32_t slot = SlotOf(worker);
  return slot < 0 ? 0 : uint64_t{1} << slot;
}

// The first one that reads the group.
uint32_t Service::WorkerOf(uint32_t slot) const {
  for (uint32_t w = 0; w < regrouped_.size(); w++) {
    if ((regrouped_[w] >> slot & 1) != 0) return w;
  }
  return layout_->groups()[slot].id;
}

void Service::BindGroups() {
  for (uint32_t g = 0; g < layout_->groups().size(); g++) {
    affinity_->Bind(g, workers_.XpuOf(WorkerOf(g)));
  }
}

// The process reads what another worker read when the template was recorded: after enough such
// reads, it is that worker.
void Service::Vote(const miss_io& event, uint32_t from, uint32_t file) {
  auto [first, last] = layout_->PiecesOf(file, event.offset / kPage,
                                         (event.offset + event.size + kPage - 1) / kPage);
  if (first == last) return;
  Votes& votes = votes_[{event.pid, event.start_ns}];
  // Only data of one group says whose it is.
  const uint64_t readers = layout_->ReadersOf(first, last, event.offset / kPage,
                                              (event.offset + event.size + kPage - 1) / kPage);
  if (!std::has_single_bit(readers)) return;
  const auto slot = static_cast<uint32_t>(std::countr_zero(readers));
  votes.total++;
  uint32_t count = ++votes.per_group[slot];
  if (count < kVotes || count * 4 <= votes.total * 3) return;
  uint32_t to = WorkerOf(slot);
  if (to == from) return;
  Log(PPC_LOG_INFO, "maio: process " + std::to_string(event.pid) + " reads as worker " +
                        std::to_string(static_cast<int32_t>(to)));
  if (from == kCommonGroup || SlotsOf(from) == 0) {
    workers_.Move(event, to);
  } else {
    workers_.Swap(from, to);
  }
  votes_.clear();
  BindGroups();
  for (uint32_t g = 0; g < layout_->groups().size(); g++) planner_->Reset(g);
}

}  // namespace ppc::maio
