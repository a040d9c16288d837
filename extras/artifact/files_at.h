// SPDX-License-Identifier: Apache-2.0
// Owns operations on files named below an open directory.
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

// EFBIG: the file is longer.
Result<std::string> ReadFileAt(int directory, const std::string& path, size_t max_bytes);

// Creates a file and syncs it; a failure leaves nothing behind.
Status WriteFileAt(int directory, const std::string& path, std::string_view text, mode_t mode);

// mkdir -p; 0 or errno.
int MakeDirectories(const std::string& path, mode_t mode);

// 0 or errno.
int SyncFileAt(int directory, const std::string& path);
int SyncDirectoryAt(int directory, const std::string& path);

// Whether other machines may write to its file system, with locks that are not visible here: true
// unless the type is known to be on a disk or in memory.
bool MayBeShared(int fd);

// Whether it was neither written nor touched for so long.
bool IsOlderThan(int directory, const std::string& path, int64_t seconds);

// Removes it with everything below, as far as possible.
void RemoveTreeAt(int directory, const std::string& name);

// flock(2), retried for `patience_ms`; 0 or errno, EWOULDBLOCK: another process still has the lock.
// A lock that `fd` already had is released first.
int LockWithin(int fd, int operation, int patience_ms);

// 16 digits that no other process uses, in any pid namespace.
std::string RandomName();

int64_t ModifiedNs(const struct stat& info);

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_FILES_AT_H_
