// SPDX-License-Identifier: Apache-2.0
// Owns reading small text files (/proc, /sys, configuration), writing whole buffers, and opening
// paths that must not lead outside.
// Owns directory streams, too.
#ifndef PPC_DAEMON_BASE_FILES_H_
#define PPC_DAEMON_BASE_FILES_H_

#include <dirent.h>
#include <linux/openat2.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc {

// Owns an open directory stream, closed with its owner.
struct CloseDir {
  void operator()(DIR* dir) const { closedir(dir); }
};
using DirStream = std::unique_ptr<DIR, CloseDir>;

// At most max_bytes; the rest is cut off.
Result<std::string> ReadFile(const std::string& path, size_t max_bytes = 1 << 20);

// First line without its newline, trimmed.
Result<std::string> ReadLine(const std::string& path);

// A symbolic link's target; "" if it cannot be read.
std::string LinkTarget(const std::string& path);

// Names in a directory that do not begin with a dot, sorted; none if it cannot be read.
std::vector<std::string> EntriesOf(const std::string& directory);

// Writes everything or fails; EINTR is handled.
Status WriteAll(int fd, const void* data, size_t bytes);

// openat2(2) below the directory `dir` (AT_FDCWD: the current one); invalid with errno set.  If a
// seccomp filter hides the call, an error is logged once.
UniqueFd OpenAt2(int dir, const std::string& path, const open_how& how);

// Closes all descriptors from `first` on, also without close_range(2).  Safe between fork and exec:
// it allocates nothing.
void CloseFrom(int first);

// Drops white space at both ends.
std::string Trim(const std::string& text);

// Whether an absolute path is `directory` or lies below it, by their text.
bool IsBelow(const std::string& path, const std::string& directory);

// Joins an injected root ("" or "/" for none) and an absolute path.
std::string UnderRoot(const std::string& root, const std::string& path);

}  // namespace ppc

#endif  // PPC_DAEMON_BASE_FILES_H_
