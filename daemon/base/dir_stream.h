// SPDX-License-Identifier: Apache-2.0
// Owns an open directory stream, closed with its owner.
#ifndef PPC_DAEMON_BASE_DIR_STREAM_H_
#define PPC_DAEMON_BASE_DIR_STREAM_H_

#include <dirent.h>

#include <memory>

namespace ppc {

struct CloseDir {
  void operator()(DIR* dir) const { closedir(dir); }
};
using DirStream = std::unique_ptr<DIR, CloseDir>;

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_DIR_STREAM_H_
