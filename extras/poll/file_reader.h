// SPDX-License-Identifier: Apache-2.0
// Owns what an ordinary user can do with the page cache of an open file: read it in, drop
// unmapped pages, and count where the kernel allows it.
// Threads: any.
#ifndef PPC_EXTRAS_POLL_FILE_READER_H_
#define PPC_EXTRAS_POLL_FILE_READER_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "daemon/backend/backend.h"
#include "daemon/machine/roots.h"
#include "extras/poll/polled_files.h"

namespace ppc {

struct CacheCount {
  uint64_t resident = 0;  // bytes
  uint64_t dirty = 0;
};

// Residency of the range; nullopt: the kernel shows it only to the file's owner or users that may
// write the file.  The bitmap, one bit a page, needs the owner.
std::optional<CacheCount> CountCached(int fd, const FileStat& stat, uint64_t offset,
                                      uint64_t length, std::span<uint8_t> bitmap);

class FileReader {
 public:
  explicit FileReader(SysRoots roots) : roots_(std::move(roots)) {}

  // Loads [request.offset, +request.length), cut to the file, and waits for it.
  LoadResult Load(int fd, const FileStat& stat, const LoadRequest& request);

 private:
  uint64_t PieceBytes(const FileStat& stat);

  const SysRoots roots_;
  std::mutex mutex_;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> pieces_;  // by device
};

}  // namespace ppc

#endif  // PPC_EXTRAS_POLL_FILE_READER_H_
