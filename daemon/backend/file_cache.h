// SPDX-License-Identifier: Apache-2.0
// Owns what a stock kernel lets one do with the page cache of an open file: load a range, ask what
// of it is resident, drop it.  Pages come to lie and are charged as the calling thread's would.
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_FILE_CACHE_H_
#define PPC_DAEMON_BACKEND_FILE_CACHE_H_

#include <cstdint>
#include <functional>

#include "daemon/base/result.h"
#include "daemon/machine/roots.h"

namespace ppc {

// Bytes of [offset, offset + length) in whole pages, cut at the end of the file.  By cachestat(2)
// (6.5), else by mincore(2) on a mapping of ours.  EPERM: neither tells of files of others.
Result<uint64_t> CachedBytes(int fd, uint64_t offset, uint64_t length);
// The same of a file that HasOwnPages.  cachestat(2) asks no server of the file's; mincore(2) does.
// `length` 0: to the end.
Result<uint64_t> CachedBytesOfOwn(int fd, uint64_t offset, uint64_t length);
// False on overlay: the pages are those of a file below, which cachestat(2) does not look at, but a
// mapping shows.
bool HasOwnPages(int fd);
// Whether open() may ask a server, and drop the file's pages: all but ext4, XFS, btrfs, F2FS,
// overlay and tmpfs.
bool AsksServer(int fd);
// Bytes of the range that are not on the disk yet.  By cachestat(2) alone; ENOTSUP where that is
// missing (before 6.5) or does not see the file's pages (overlay).
Result<uint64_t> DirtyBytes(int fd, uint64_t offset, uint64_t length);
// One bit per page of the range, by mincore(2); the bytes resident.
Result<uint64_t> CachedPages(int fd, uint64_t offset, uint64_t length, uint8_t* bitmap,
                             size_t bitmap_bytes);

// How much one readahead(2) or WILLNEED takes from this device: the kernel cuts it to the device's
// read-ahead or largest request, silently.  128 KiB to 2 MiB.
uint64_t ReadAheadBytes(const SysRoots& roots, unsigned dev_major, unsigned dev_minor);

struct FileLoad {
  uint64_t loaded = 0;    // absent before, there now; an estimate where others load as well
  uint64_t resident = 0;  // there before
  uint64_t done = 0;      // of the range, from its start
  bool is_eof = false;
  bool is_interrupted = false;
  bool is_refused = false;  // kLeaveSkipped: there was no memory for more than `done`
};

// What becomes of pages that read-ahead left out.
enum class LoadMode {
  kReadSkipped,   // they are read: the kernel reclaims for them, and may kill for them
  kLeaveSkipped,  // they are the reader's, where it can be seen that memory was short
};

// Reads ahead and waits until the pages are there.  `is_interrupted` is asked between pieces.
Result<FileLoad> LoadFile(int fd, uint64_t offset, uint64_t length,
                          const std::function<bool()>& is_interrupted,
                          LoadMode mode = LoadMode::kReadSkipped);

// Marks the pages of the range accessed that are cached.  Reads nothing.
void MarkAccessed(int fd, uint64_t offset, uint64_t length);

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_FILE_CACHE_H_
