// SPDX-License-Identifier: Apache-2.0
//
// A template cut into what is loaded and dropped.  Of the largest models that takes a second, so it
// is made where no event waits for it.
#ifndef POLICIES_MAIO_FOLLOW_TABLES_H_
#define POLICIES_MAIO_FOLLOW_TABLES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "policies/maio/follow/layout.h"
#include "policies/maio/follow/small_files.h"

namespace ppc::maio {

// Of packages, what is looked for while the first of them are loaded already.
struct DeferredFiles {
  std::vector<std::string> files;        // the small ones without a number, in their order
  std::vector<std::string> directories;  // to be read ahead, after that
};

struct Tables {
  std::unique_ptr<SmallFiles> small;
  std::unique_ptr<Layout> layout;
  DeferredFiles deferred;
  std::vector<uint32_t> cached;  // pieces that an earlier run has left
  uint64_t own_bytes = 0;        // see own_memory.h
  bool waits = false;            // until a reader is seen, see cache_use.h
  uint64_t nonce = 0;            // tells its cookies from those of what was followed before
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_TABLES_H_
