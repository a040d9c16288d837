// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/file_cache.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/stat.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/base/files.h"

namespace ppc {
namespace {

constexpr long kSysCachestat = 451;  // the same number on every architecture
constexpr uint64_t kProbeBytes = 64 << 10;

std::atomic<bool> has_cachestat{true};

// Older C libraries do not declare the structures of cachestat(2).
struct CachestatRange {
  uint64_t offset;
  uint64_t length;
};
struct Cachestat {
  uint64_t cached;
  uint64_t dirty;
  uint64_t writeback;
  uint64_t evicted;
  uint64_t recently_evicted;
};

// Whole pages of the range within the file; first is a page's start.
struct Range {
  uint64_t first = 0;
  uint64_t bytes = 0;  // up to the end of the last page
  uint64_t size = 0;   // of the file
  dev_t dev = 0;
  uint64_t piece = 0;  // bytes that one readahead takes
};

Result<Range> RangeOf(int fd, uint64_t offset, uint64_t length) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return PosixError("stat", errno);
  Range range;
  range.size = static_cast<uint64_t>(info.st_size);
  range.dev = info.st_dev;
  range.first = offset / kPageBytes * kPageBytes;
  const uint64_t whole = (range.size + kPageBytes - 1) / kPageBytes * kPageBytes;
  const uint64_t wanted = length == 0 ? whole : offset + length;
  const uint64_t end = std::min(whole, (wanted + kPageBytes - 1) / kPageBytes * kPageBytes);
  range.bytes = end > range.first ? end - range.first : 0;
  return range;
}

uint64_t KbOf(const SysRoots& roots, const std::string& path) {
  const Result<std::string> text = ReadLine(roots.Sys(path));
  return text ? std::strtoull(text->c_str(), nullptr, 10) : 0;
}

uint64_t PieceOf(dev_t dev) {
  static std::mutex mutex;
  static std::map<dev_t, uint64_t> pieces;
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = pieces.try_emplace(dev, 0);
  if (is_new) found->second = ReadAheadBytes(RootsFromEnvironment(), major(dev), minor(dev));
  return found->second;
}

// ENOTSUP: it does not tell, here or of this file.
Result<Cachestat> AskCachestat(int fd, uint64_t offset, uint64_t length) {
  if (!has_cachestat.load(std::memory_order_relaxed)) return Error{ENOTSUP, "no cachestat"};
  CachestatRange asked{offset, length};
  Cachestat answer{};
  if (syscall(kSysCachestat, fd, &asked, &answer, 0) == 0) return answer;
  if (errno == ENOSYS) has_cachestat.store(false, std::memory_order_relaxed);
  const bool tells_not = errno == ENOSYS || errno == EPERM || errno == EOPNOTSUPP;
  return tells_not ? Error{ENOTSUP, "no cachestat"} : PosixError("cachestat", errno);
}

// Bytes that are there, told by mincore; `bitmap` may be nullptr.
Result<uint64_t> Mincore(int fd, const Range& range, uint8_t* bitmap, size_t bitmap_bytes) {
  constexpr uint64_t kPart = 64 << 20;
  uint64_t found = 0;
  std::vector<unsigned char> pages;
  for (uint64_t done = 0; done < range.bytes; done += kPart) {
    const uint64_t part = std::min(kPart, range.bytes - done);
    void* const at =
        mmap(nullptr, part, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(range.first + done));
    if (at == MAP_FAILED) return PosixError("map a file to see what is cached", errno);
    pages.assign(part / kPageBytes, 0);
    const int code = mincore(at, part, pages.data()) == 0 ? 0 : errno;
    munmap(at, part);
    if (code != 0) return PosixError("mincore", code);
    for (size_t i = 0; i < pages.size(); ++i) {
      if ((pages[i] & 1) == 0) continue;
      found += kPageBytes;
      const uint64_t page = done / kPageBytes + i;
      if (bitmap != nullptr && page / 8 < bitmap_bytes) {
        bitmap[page / 8] |= static_cast<uint8_t>(1u << (page % 8));
      }
    }
  }
  return found;
}

// Waits for what is being read: one byte of every so many pages.
bool Touch(int fd, uint64_t from, uint64_t to) {
  for (uint64_t at = from; at < to; at += kProbeBytes) {
    const uint64_t last = std::min(at + kProbeBytes, to) - 1;
    char byte = 0;
    ssize_t got = 0;
    do {
      got = pread(fd, &byte, 1, static_cast<off_t>(last));
    } while (got < 0 && errno == EINTR);
    if (got < 0) return false;
  }
  return true;
}

// What read-ahead left out (no memory, a congested device) is read in earnest.
Status ReadAll(int fd, uint64_t from, uint64_t to) {
  std::array<char, 64 << 10> scratch;
  for (uint64_t at = from; at < to;) {
    const ssize_t got = pread(fd, scratch.data(), std::min<uint64_t>(scratch.size(), to - at),
                              static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return PosixError("read", errno);
    if (got == 0) break;
    at += static_cast<uint64_t>(got);
  }
  return Ok();
}

constexpr std::array<uint32_t, 4> kOnDisk = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
                                             F2FS_SUPER_MAGIC};

bool IsOneOf(int fd, std::span<const uint32_t> types) {
  struct statfs fs {};
  return fstatfs(fd, &fs) == 0 &&
         std::ranges::find(types, static_cast<uint32_t>(fs.f_type)) != types.end();
}

// Whether pages that are missing after read-ahead are missing for want of memory: other file
// systems leave out what they like, and have no page cache for some files.
bool ReadsAllAhead(int fd) {
  struct statx file {};
  return IsOneOf(fd, kOnDisk) && statx(fd, "", AT_EMPTY_PATH, 0, &file) == 0 &&
         (file.stx_attributes & STATX_ATTR_DAX) == 0;
}

void ReadAhead(int fd, uint64_t from, uint64_t to, uint64_t piece) {
  for (uint64_t at = from; at < to; at += piece)
    (void)readahead(fd, static_cast<off_t>(at), std::min(piece, to - at));
}

// Bytes of the range, from its start, without a page that read-ahead had no memory for; nothing if
// that cannot be told.
std::optional<uint64_t> ReadAheadOf(int fd, const Range& range) {
  const auto is_whole = [fd](uint64_t from, uint64_t bytes) {
    const Result<Cachestat> counted = AskCachestat(fd, from, bytes);
    return counted && counted->cached * kPageBytes >= bytes;
  };
  if (!ReadsAllAhead(fd) || !AskCachestat(fd, range.first, range.bytes)) return std::nullopt;
  if (is_whole(range.first, range.bytes)) return range.bytes;
  // The device may take less at once than it says.
  ReadAhead(fd, range.first, range.first + range.bytes, kProbeBytes);
  uint64_t at = 0;
  while (at < range.bytes) {
    const uint64_t part = std::min(kProbeBytes, range.bytes - at);
    if (!is_whole(range.first + at, part)) break;
    at += part;
  }
  return at;
}

}  // namespace

uint64_t ReadAheadBytes(const SysRoots& roots, unsigned dev_major, unsigned dev_minor) {
  constexpr uint64_t kLeast = 128;
  constexpr uint64_t kMost = kStepBytes >> 10;
  const std::string number = std::to_string(dev_major) + ":" + std::to_string(dev_minor);
  uint64_t kb = KbOf(roots, "/class/bdi/" + number + "/read_ahead_kb");
  for (const char* const queue : {"/queue/", "/../queue/"}) {
    for (const char* const name : {"read_ahead_kb", "max_sectors_kb"}) {
      kb = std::max(kb, KbOf(roots, "/dev/block/" + number + queue + name));
    }
  }
  return std::clamp(kb, kLeast, kMost) << 10;
}

bool AsksServer(int fd) {
  constexpr std::array<uint32_t, 2> kLocal = {OVERLAYFS_SUPER_MAGIC, TMPFS_MAGIC};
  return !IsOneOf(fd, kOnDisk) && !IsOneOf(fd, kLocal);
}

bool HasOwnPages(int fd) {
  struct statfs fs {};
  return fstatfs(fd, &fs) != 0 || fs.f_type != OVERLAYFS_SUPER_MAGIC;
}

Result<uint64_t> CachedBytesOfOwn(int fd, uint64_t offset, uint64_t length) {
  const Result<Cachestat> counted = AskCachestat(fd, offset, length);
  if (counted) return counted->cached * kPageBytes;
  if (counted.error().code != ENOTSUP) return counted.error();
  const Result<Range> range = RangeOf(fd, offset, length);
  return range ? Mincore(fd, *range, nullptr, 0) : range.error();
}

Result<uint64_t> CachedBytes(int fd, uint64_t offset, uint64_t length) {
  const Result<Range> range = RangeOf(fd, offset, length);
  if (!range) return range.error();
  if (range->bytes == 0) return uint64_t{0};
  if (HasOwnPages(fd)) return CachedBytesOfOwn(fd, range->first, range->bytes);
  return Mincore(fd, *range, nullptr, 0);
}

Result<uint64_t> DirtyBytes(int fd, uint64_t offset, uint64_t length) {
  const Result<Range> range = RangeOf(fd, offset, length);
  if (!range) return range.error();
  if (range->bytes == 0) return uint64_t{0};
  if (!HasOwnPages(fd)) return Error{ENOTSUP, "no cachestat"};
  const Result<Cachestat> counted = AskCachestat(fd, range->first, range->bytes);
  if (!counted) return counted.error();
  return (counted->dirty + counted->writeback) * kPageBytes;
}

Result<uint64_t> CachedPages(int fd, uint64_t offset, uint64_t length, uint8_t* bitmap,
                             size_t bitmap_bytes) {
  const Result<Range> range = RangeOf(fd, offset, length);
  if (!range) return range.error();
  return Mincore(fd, *range, bitmap, bitmap_bytes);
}

Result<FileLoad> LoadFile(int fd, uint64_t offset, uint64_t length,
                          const std::function<bool()>& is_interrupted, LoadMode mode) {
  Result<Range> range = RangeOf(fd, offset, length);
  if (!range) return range.error();
  range->piece = PieceOf(range->dev);
  FileLoad load;
  load.is_eof = offset + length >= range->size;
  const uint64_t end = std::min(offset + length, range->size);
  if (range->bytes == 0 || end <= offset) return load;
  const Result<uint64_t> before = CachedBytes(fd, offset, length);
  if (!before) return before.error();
  load.resident = std::min(*before, length);
  load.done = end - offset;
  if (*before >= range->bytes) return load;
  // Only what is asked for, neither more by the kernel's own guess nor by our looking at it.
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
  for (uint64_t at = range->first; at < end; at += range->piece) {
    if (is_interrupted && is_interrupted()) {
      load.is_interrupted = true;
      load.done = at > offset ? at - offset : 0;
      load.is_eof = false;
      break;
    }
    (void)readahead(fd, static_cast<off_t>(at),
                    std::min(range->piece, range->first + range->bytes - at));
  }
  std::optional<uint64_t> ahead;
  if (mode == LoadMode::kLeaveSkipped && !load.is_interrupted) ahead = ReadAheadOf(fd, *range);
  if (ahead && *ahead < range->bytes) {
    load.is_refused = true;
    load.is_eof = false;
    load.done = std::max(range->first + *ahead, offset) - offset;
    load.resident = std::min(load.resident, load.done);
    if (load.done == 0) return load;
    length = load.done;
  }
  const uint64_t until = offset + load.done;
  if (!Touch(fd, range->first, until)) {
    const Error failed = PosixError("read", errno);
    // A request that failed leaves its pages in the cache without content, and the kernel reads
    // each of them alone for its reader.  Without them the reader reads ahead as it does natively.
    // A page that is being read stays: the end of each request is waited for.
    for (uint64_t at = range->first; at < until; at += range->piece)
      (void)Touch(fd, std::min(at + range->piece, until) - 1, std::min(at + range->piece, until));
    (void)posix_fadvise(fd, static_cast<off_t>(range->first),
                        static_cast<off_t>(until - range->first), POSIX_FADV_DONTNEED);
    return failed;
  }
  Result<uint64_t> after = CachedBytes(fd, offset, length);
  if (!after) return after.error();
  if (!load.is_interrupted && !ahead && *after < range->bytes) {
    const Status read = ReadAll(fd, range->first, end);
    if (!read) return read.error();
    after = CachedBytes(fd, offset, length);
    if (!after) return after.error();
  }
  load.loaded = *after > *before ? *after - *before : 0;
  return load;
}

void MarkAccessed(int fd, uint64_t offset, uint64_t length) {
  char byte = 0;
  iovec one{.iov_base = &byte, .iov_len = 1};
  for (uint64_t at = offset; at < offset + length; at += kPageBytes)
    (void)preadv2(fd, &one, 1, static_cast<off_t>(at), RWF_NOWAIT);
}

}  // namespace ppc
