// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/own_memory.h"

namespace ppc::maio {

// What all of them share nobody may ever read.
ReadingWorkers FindReadingWorkers(const Layout& layout, const std::vector<Cursor>& cursors) {
  bool some = false;
  bool all = true;
  for (size_t g = 0; g < cursors.size(); g++) {
    const bool reads = cursors[g].consumed >= kKnownRateBytes;
    some |= reads;
    all &= reads || cursors[g].dropped || layout.groups()[g].id == kCommonGroup;
  }
  if (!some) return ReadingWorkers::kNone;
  return all ? ReadingWorkers::kAll : ReadingWorkers::kSome;
}

}  // namespace ppc::maio
