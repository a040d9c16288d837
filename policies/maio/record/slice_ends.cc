// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/record/slice_ends.h"

namespace ppc::maio {

Pages SliceEnds::Cut(uint32_t group, uint32_t file, Pages mapped, const std::optional<Pages>& own) {
  Pages kept = own.value_or(mapped);
  Last& last = last_[{group, file}];
  if (last.end == mapped.first && last.end != 0) kept.first = last.kept;
  last = {kept.end, mapped.end};
  return kept;
}

}  // namespace ppc::maio
