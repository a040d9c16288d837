// SPDX-License-Identifier: Apache-2.0
// Owns what a plain directory is, one without a mount of ours: that it is there, which one it is,
// and whether the page cache holds what lies in it.
// Threads: any.
#ifndef PPC_DAEMON_MACHINE_DIRECTORY_H_
#define PPC_DAEMON_MACHINE_DIRECTORY_H_

#include <cstdint>
#include <string>

#include "daemon/base/result.h"
#include "daemon/machine/roots.h"

namespace ppc {

struct Directory {
  std::string path;  // as NormalPath writes it
  std::string dev;   // "major:minor"; "" where it was not looked at
  uint64_t ino = 0;
};

// How to look a path up: the server of a network file system may be dead.
enum class DirectoryWalk {
  kWait,
  kNever,  // not at all where the answer might take a while: dev and ino stay empty then
};

// Error: one line with the remedy.  Symbolic links are not followed.
Result<Directory> FindDirectory(const std::string& path, const SysRoots& roots, DirectoryWalk walk);

// False once its path leads nowhere, or to another one.  Never waits for a server: where the answer
// might take a while it is taken to be there.
bool IsSameDirectory(const Directory& directory, const SysRoots& roots);

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_DIRECTORY_H_
