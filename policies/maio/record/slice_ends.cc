// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/record/slice_ends.h"

#include "policies/maio/base/tuning.h"

namespace ppc::maio {
namespace {

constexpr uint64_t kFolioPages = kHugeBytes / kPage;
constexpr size_t kMostPlaces = 4096;

}  // namespace

Pages SliceEnds::Cut(int32_t thread, uint32_t file, Pages mapped, const std::optional<Pages>& own) {
  Pages kept = mapped;
  if (own && own->first - mapped.first < kFolioPages) kept.first = own->first;
  if (own && mapped.end - own->end < kFolioPages) kept.end = own->end;
  if (last_.size() >= kMostPlaces) last_.clear();
  Last& last = last_[{thread, file}];
  // Folios and what is mapped around a fault overlap.
  if (last.kept < mapped.first && mapped.first <= last.end) kept.first = last.kept;
  last = {kept.end, mapped.end};
  return kept;
}

}  // namespace ppc::maio
