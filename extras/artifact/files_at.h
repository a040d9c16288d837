// SPDX-License-Identifier: Apache-2.0
// Owns files by name below an open directory.
// Threads: any.
#ifndef PPC_EXTRAS_ARTIFACT_FILES_AT_H_
#define PPC_EXTRAS_ARTIFACT_FILES_AT_H_

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/result.h"

namespace ppc::artifact {

// Sorted, without "." and "..".
Result<std::vector<std::string>> NamesAt(int directory, const std::string& path);

// EFBIG: it has more.
Result<std::string> ReadFileAt(int directory, const std::string& path, size_t max_bytes);

// A new file, the disk's when this returns; nothing is left of one that fails.
Status WriteFileAt(int directory, const std::string& path, std::string_view text, mode_t mode);

// mkdir -p; 0 or errno.
int MakeDirectories(const std::string& path, mode_t mode);

// 0 or errno.
int SyncFileAt(int directory, const std::string& path);
int SyncDirectoryAt(int directory, const std::string& path);

// Whether other machines may write to its file system, whose locks may not be seen here: all but
// those that are known to lie on a disk or in memory.
bool MayBeShared(int fd);

// Whether it has not been written to, or touched, for so long.
bool IsOlderThan(int directory, const std::string& path, int64_t seconds);

// With all below it, as far as it can be.
void RemoveTreeAt(int directory, const std::string& name);

// flock(2), tried for `patience_ms`; 0 or errno, of which EWOULDBLOCK: another still has it.
// Whatever `fd` had before is given up first.
int LockWithin(int fd, int operation, int patience_ms);

// 16 digits that no other process takes, in whatever pid namespace.
std::string RandomName();

int64_t ModifiedNs(const struct stat& info);

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_FILES_AT_H_
