// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/worker_votes.h"

#include <bit>

#include "policies/maio/base/tuning.h"
#include "ppc.h"

namespace ppc::maio {

std::optional<uint32_t> WorkerVotes::Take(const miss_io& event, uint32_t file) {
  const uint64_t first_page = event.offset / kPage;
  const uint64_t end_page = (event.offset + event.size + kPage - 1) / kPage;
  const auto [first, last] = layout_->PiecesOf(file, first_page, end_page);
  if (first == last) return std::nullopt;
  Votes& votes = votes_[{event.pid, event.start_ns}];
  // Only data of one group says whose it is, or of those that share a list.
  const uint64_t readers = layout_->ReadersOf(first, last, first_page, end_page);
  const auto several = static_cast<uint32_t>(std::popcount(readers));
  if (several != 1 && several != copies_) return std::nullopt;
  const auto slot = static_cast<uint32_t>(std::countr_zero(readers));
  votes.total++;
  const uint32_t count = ++votes.per_group[slot];
  if (count < kVotes || count * 4 <= votes.total * 3) return std::nullopt;
  // Of several the next at each vote: the same one again would throw out whom it fits.
  uint64_t rest = readers;
  for (uint32_t i = turn_++ % several; i > 0; i--) rest &= rest - 1;
  const uint32_t to = layout_->groups()[static_cast<size_t>(std::countr_zero(rest))].id;
  if (to == kCommonGroup) return std::nullopt;
  swaps_++;
  votes_.clear();
  return to;
}

void WorkerVotes::Forget(const miss_io& event) { votes_.erase({event.pid, event.start_ns}); }

}  // namespace ppc::maio
