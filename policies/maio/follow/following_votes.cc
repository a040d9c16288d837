// SPDX-License-Identifier: Apache-2.0
//
// Which worker a process is, by what it reads.
#include <bit>
#include <string>

#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/following.h"

namespace ppc::maio {
// Nobody else's data: the guess of who the process is was right.
bool Following::IsOwn(const Observation& o) const {
  auto [first, last] = layout_->PiecesOf(o.file, o.first_page, o.end_page);
  return first != last &&
         layout_->ReadersOf(first, last, o.first_page, o.end_page) == uint64_t{1} << o.group;
}

// The process reads what another worker read when the template was recorded: after enough such
// reads, and none of its own between them, it is that worker.  What the kernel read ahead for it
// says nothing: it runs into the neighbours' slices.
void Following::Vote(const miss_io& event, uint32_t from, uint32_t file) {
  auto [first, last] = layout_->PiecesOf(file, event.offset / kPage,
                                         (event.offset + event.size + kPage - 1) / kPage);
  if (first == last) return;
  Votes& votes = votes_[{event.pid, event.start_ns}];
  // Only data of one group says whose it is, or of those that share a list.
  const uint64_t readers = layout_->ReadersOf(first, last, event.offset / kPage,
                                              (event.offset + event.size + kPage - 1) / kPage);
  const auto several = static_cast<uint32_t>(std::popcount(readers));
  if (several != 1 && several != copies_) return;
  const auto slot = static_cast<uint32_t>(std::countr_zero(readers));
  votes.total++;
  uint32_t count = ++votes.per_group[slot];
  if (count < kVotes || count * 4 <= votes.total * 3) return;
  // Of several the next at each vote: the same one again would throw out whom it fits.
  uint64_t rest = readers;
  for (uint32_t i = turn_++ % several; i > 0; i--) rest &= rest - 1;
  uint32_t to = layout_->groups()[static_cast<size_t>(std::countr_zero(rest))].id;
  if (to == kCommonGroup) return;
  swaps_++;
  // One process that reads for several workers is each of them in turn.
  run_->Log(PPC_LOG_DEBUG, "maio: service " + run_->spec.service_id + ": process " +
                               std::to_string(event.pid) + " reads as worker " +
                               std::to_string(static_cast<int32_t>(to)));
  if (from == kCommonGroup || layout_->SlotOf(from) < 0) {
    run_->workers.Move(event, to);
  } else {
    run_->workers.Swap(from, to);
    if (on_swap_ && !run_->workers.told()) on_swap_(from, to);
  }
  votes_.clear();
  BindGroups();
  for (uint32_t g = 0; g < layout_->groups().size(); g++) planner_->Reset(g);
}

}  // namespace ppc::maio
