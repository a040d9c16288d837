// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/poll/file_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <vector>

#include "daemon/backend/cachestat.h"
#include "daemon/backend/file_cache.h"
#include "daemon/base/files.h"

namespace ppc {
namespace {

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif

constexpr uint64_t kReadBytes = 64 << 10;    // stays in the CPU's cache while it is copied
constexpr uint64_t kCheckBytes = 512 << 10;  // between looks whether anybody still wants it

std::optional<CacheCount> CountByMincore(int fd, uint64_t offset, uint64_t length,
                                         std::span<uint8_t> bitmap) {
  void* const map = mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (map == MAP_FAILED) return std::nullopt;
  std::vector<unsigned char> pages((length + kPageBytes - 1) / kPageBytes);
  const int code = mincore(map, length, pages.data());
  munmap(map, length);
  if (code != 0) return std::nullopt;
  CacheCount count;
  for (size_t page = 0; page < pages.size(); ++page) {
    if ((pages[page] & 1) == 0) continue;
    count.resident += std::min(kPageBytes, length - page * kPageBytes);
    if (page / 8 < bitmap.size())
      bitmap[page / 8] = static_cast<uint8_t>(bitmap[page / 8] | 1 << page % 8);
  }
  return count;
}

// Cached bytes by a look at one page in each piece.  The look starts read-ahead where there is
// nothing, so only for who wants the range loaded.
uint64_t ProbeCached(int fd, uint64_t offset, uint64_t length) {
  uint64_t cached = 0;
  for (uint64_t at = offset; at < offset + length; at += kReadBytes) {
    char byte = 0;
    iovec piece{&byte, 1};
    if (preadv2(fd, &piece, 1, static_cast<off_t>(at), RWF_NOWAIT) == 1)
      cached += std::min(kReadBytes, offset + length - at);
  }
  return cached;
}

}  // namespace

std::optional<CacheCount> CountCached(int fd, const FileStat& stat, uint64_t offset,
                                      uint64_t length, std::span<uint8_t> bitmap) {
  std::fill(bitmap.begin(), bitmap.end(), uint8_t{0});
  if (length == 0) return CacheCount{};
  CachestatRange range{offset, length};
  Cachestat counted{};
  const bool is_counted = syscall(SYS_cachestat, fd, &range, &counted, 0) == 0;
  std::optional<CacheCount> count;
  if (is_counted) {
    count = CacheCount{std::min(counted.cached * kPageBytes, length),
                       (counted.dirty + counted.writeback) * kPageBytes};
  }
  if (is_counted && bitmap.empty()) return count;
  // To anybody else mincore says that all is there.
  const uid_t user = geteuid();
  if (user != 0 && user != stat.uid) return std::nullopt;
  const uint64_t first = offset / kPageBytes * kPageBytes;
  const std::optional<CacheCount> pages =
      CountByMincore(fd, first, offset + length - first, bitmap);
  return is_counted && pages ? count : pages;
}

uint64_t FileReader::PieceBytes(const FileStat& stat) {
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = pieces_.try_emplace({stat.id.dev_major, stat.id.dev_minor}, 0);
  if (is_new) found->second = ReadAheadBytes(roots_, stat.id.dev_major, stat.id.dev_minor);
  return found->second;
}

LoadResult FileReader::Load(int fd, const FileStat& stat, const LoadRequest& request) {
  LoadResult result;
  if (request.offset >= stat.size) {
    result.stop = LoadStop::kEof;
    return result;
  }
  const uint64_t length = std::min(request.length, stat.size - request.offset);
  const uint64_t end = request.offset + length;
  const std::optional<CacheCount> counted = CountCached(fd, stat, request.offset, length, {});
  result.resident = counted ? counted->resident : ProbeCached(fd, request.offset, length);
  const uint64_t absent = length - std::min(result.resident, length);
  if (absent == 0) {
    result.done = length;
    return result;
  }
  // Our own reading says nothing of how often the pages are used.
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_NOREUSE);
  const uint64_t piece = PieceBytes(stat);
  static thread_local std::vector<char> scratch(kReadBytes);
  uint64_t asked = request.offset;
  uint64_t at = request.offset;
  while (at < end) {
    if ((at - request.offset) % kCheckBytes == 0 && request.IsInterrupted()) {
      result.stop = LoadStop::kCancelled;
      break;
    }
    for (; asked < std::min(at + kStepBytes, end); asked += piece) {
      const uint64_t part = std::min(piece, end - asked);
      (void)posix_fadvise(fd, static_cast<off_t>(asked), static_cast<off_t>(part),
                          POSIX_FADV_WILLNEED);
    }
    const uint64_t part = std::min(kReadBytes, end - at);
    const ssize_t got = pread(fd, scratch.data(), part, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == ENOMEM) {
      result.stop = LoadStop::kNoMemory;
      break;
    }
    if (got == 0) break;  // cut meanwhile
    if (got < 0) result.failed += part;
    at += got < 0 ? part : static_cast<uint64_t>(got);
  }
  result.done = at - request.offset;
  // What was there before lies anywhere in the range: of a part, its share.
  const uint64_t read = absent * result.done / length;
  result.submitted = read;
  result.resident = result.done - read;
  result.failed = std::min(result.failed, read);
  result.loaded = read - result.failed;
  return result;
}

}  // namespace ppc
