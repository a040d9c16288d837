// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/worker_votes.h"

#include "policies/maio/base/tuning.h"
#include "ppc.h"

namespace ppc::maio {

std::optional<uint32_t> WorkerVotes::Take(const miss_io& event, uint32_t file) {
  const uint64_t first_page = event.offset / kPage;
  const uint64_t end_page = (event.offset + event.size + kPage - 1) / kPage;
  const auto [first, last] = layout_->PiecesOf(file, first_page, end_page);
  if (first == last) return std::nullopt;
  Votes& votes = votes_[{event.pid, event.start_ns}];
  // Only data of one group says whose it is.
  const GroupSet readers = layout_->ReadersOf(first, last, first_page, end_page);
  if (!readers.IsOne()) return std::nullopt;
  const uint32_t slot = readers.First();
  votes.total++;
  const uint32_t count = ++votes.per_group[slot];
  if (count < kVotes || count * 4 <= votes.total * 3) return std::nullopt;
  const uint32_t to = layout_->groups()[slot].id;
  if (to == kCommonGroup) return std::nullopt;
  swaps_++;
  votes_.clear();
  return to;
}

void WorkerVotes::Forget(const miss_io& event) { votes_.erase({event.pid, event.start_ns}); }

}  // namespace ppc::maio
