// SPDX-License-Identifier: Apache-2.0
// Owns identifying a plain directory, one without a ppc mount: that it exists, its device and
// inode, and whether the page cache holds its files.
// Threads: any.
#ifndef PPC_DAEMON_MACHINE_DIRECTORY_H_
#define PPC_DAEMON_MACHINE_DIRECTORY_H_

#include <cstdint>
#include <string>

#include "daemon/base/result.h"
#include "daemon/machine/roots.h"

namespace ppc {

struct Directory {
  std::string path;  // in the form of NormalPath
  std::string dev;   // "major:minor"; "" if not looked up
  uint64_t ino = 0;
};

// Whether a look-up may wait: the server of a network file system may be dead.
enum class DirectoryWalk {
  kWait,
  kNever,  // skip it if the answer might take long: dev and ino stay empty then
};

// Error: one line with the remedy.  Follows no symbolic links.
Result<Directory> FindDirectory(const std::string& path, const SysRoots& roots, DirectoryWalk walk);

// False if its path leads nowhere, or to another directory.  Never waits for a server: if the
// answer might take long, the directory counts as present.
bool IsSameDirectory(const Directory& directory, const SysRoots& roots);

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_DIRECTORY_H_
