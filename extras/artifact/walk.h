// SPDX-License-Identifier: Apache-2.0
// Owns walking a root: what in it is this user's own and stays inside, directories before what is
// in them, names in order.
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

// Begins the name of what a restore has not finished.
inline constexpr const char* kRestoring = ".ppc-restore.";

// What is not captured, and why, of the first.
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

// Why what is restored, or was captured, must not come from there: it is run; "" = it may, it is
// this user's alone.
std::string OwnProblem(const struct stat& info);

// Opens a root, which a link of this user's may lead to.  EPERM: as OwnProblem(); ENOENT, ENOTDIR.
Result<UniqueFd> OpenRoot(const Root& root);

// `others`: directories that belong to other roots.  Ends with the visitor's first error.
Status Walk(const UniqueFd& root, const std::set<FileId>& others, LeftOut* left_out,
            const Visitor& visit);

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_WALK_H_
