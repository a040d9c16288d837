// SPDX-License-Identifier: Apache-2.0
//
// A service that follows a template: what of it is small files, and what of the model is over.
#include <algorithm>

#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/following.h"

namespace ppc::maio {

// False: it is none of the template's.
bool Following::SmallFile(const miss_io& event) {
  if (!small_->Knows(event.file)) return false;
  (void)run_->workers.Resolve(event, false);
  const bool is_miss = event.kind == PPC_MISS_READ || event.kind == PPC_MISS_FAULT;
  small_->Touch(event.file, event.offset, event.size, is_miss);
  return true;
}

// Of a file that is not known: it may be one that is yet to be looked up.
bool Following::MayBeSmall(const miss_io& event) {
  const FileKind kind = event.path != nullptr ? KindOfPath(event.path) : FileKind::kOther;
  return kind == FileKind::kSmall || (kind == FileKind::kOther && event.file_bytes <= kSmallBytes);
}

// What programs read before the model comes before it, until the model is being read; then, and of
// what they read later, a quarter: it is little, and a reader of it waits for each file by itself.
uint64_t Following::PlanSmall(uint64_t max_bytes, IoList* out) {
  constexpr uint64_t kShare = 4;
  if (small_->finished()) return 0;
  const bool has_begun = std::ranges::any_of(
      matcher_->cursors(), [](const Cursor& cursor) { return cursor.consumed >= kKnownRateBytes; });
  if (!small_->IsEarly() || has_begun) return small_->Plan(max_bytes / kShare, run_->Now(), out);
  const uint64_t asked = small_->Plan(max_bytes, run_->Now(), out);
  // What is being looked up comes first, too, unless that takes too long.
  const bool is_awaited = small_->IsLearning() && run_->Now() < learnt_ns_ + kLookUpsNs;
  return small_->IsEarly() && is_awaited ? max_bytes : asked;
}

void Following::EndWeights() {
  for (uint32_t g = 0; g < layout_->groups().size(); g++) matcher_->Rest(g);
  evictor_->HoldNothing();
}

}  // namespace ppc::maio
