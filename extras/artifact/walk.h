// SPDX-License-Identifier: Apache-2.0
// Owns walking a root: entries that are this user's own and stay inside, a directory before its
// contents, names in order.
// Threads: one at a time.
#ifndef PPC_EXTRAS_ARTIFACT_WALK_H_
#define PPC_EXTRAS_ARTIFACT_WALK_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "extras/artifact/manifest.h"

namespace ppc::artifact {

// Prefix of an unfinished restore's names.
inline constexpr const char* kRestoring = ".ppc-restore.";

// Number of files not captured, and the reason for the first.
struct LeftOut {
  uint64_t count = 0;
  std::string first;

  void Add(const std::string& path, const std::string& why) {
    if (count++ == 0) first = path + ": " + why;
  }
};

using FileId = std::pair<dev_t, ino_t>;

// `fd` is open for reading at a file, else invalid.
using Visitor = std::function<Status(Entry&& entry, const UniqueFd& fd)>;

// Why a file must not be restored from or captured: it is run, so it must be this user's alone; ""
// = it may.
std::string OwnProblem(const struct stat& info);

// Opens a root, also through a link of this user.  EPERM: as OwnProblem(); ENOENT, ENOTDIR.
Result<UniqueFd> OpenRoot(const Root& root);

// `others`: directories of other roots.  Ends at the visitor's first error.
Status Walk(const UniqueFd& root, const std::set<FileId>& others, LeftOut* left_out,
            const Visitor& visit);

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_WALK_H_
