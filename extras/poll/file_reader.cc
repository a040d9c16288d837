// SPDX-License-Identifier: Apache-2.0
#include "extras/poll/file_reader.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "daemon/backend/file_cache.h"
#include "daemon/base/files.h"

namespace ppc {
namespace {

constexpr uint64_t kReadBytes = 64 << 10;  // fits the CPU's cache while it is copied
constexpr size_t kMostIovecs = kStepBytes / kReadBytes;

// Starts reading the absent pages of one piece without waiting; returns the present bytes at its
// beginning.
uint64_t StartPiece(int fd, uint64_t offset, uint64_t length, std::span<char> scratch) {
  // All parts use the same memory, whose content is ignored.
  std::array<iovec, kMostIovecs> parts;
  size_t count = 0;
  for (uint64_t left = length; left > 0 && count < parts.size(); ++count) {
    parts[count] = iovec{scratch.data(), std::min<uint64_t>(scratch.size(), left)};
    left -= parts[count].iov_len;
  }
  const ssize_t got =
      preadv2(fd, parts.data(), static_cast<int>(count), static_cast<off_t>(offset), RWF_NOWAIT);
  const uint64_t there = got < 0 ? 0 : static_cast<uint64_t>(got);
  if (there < length) {
    (void)posix_fadvise(fd, static_cast<off_t>(offset + there), static_cast<off_t>(length - there),
                        POSIX_FADV_WILLNEED);
  }
  return there;
}

// Waits for the reads that were started; returns how far, less if memory is short or the file was
// cut.
uint64_t Await(int fd, uint64_t from, uint64_t to, std::span<char> scratch, LoadResult* result) {
  while (from < to) {
    const uint64_t part = std::min<uint64_t>(scratch.size(), to - from);
    const ssize_t got = pread(fd, scratch.data(), part, static_cast<off_t>(from));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == ENOMEM) result->stop = LoadStop::kNoMemory;
    if (got == 0) result->stop = LoadStop::kEof;
    if (got == 0 || (got < 0 && errno == ENOMEM)) break;
    if (got < 0) result->failed += part;
    from += got < 0 ? part : static_cast<uint64_t>(got);
  }
  return from;
}

}  // namespace

std::optional<CacheCount> CountCached(int fd, const FileStat& stat, uint64_t offset,
                                      uint64_t length, std::span<uint8_t> bitmap) {
  std::fill(bitmap.begin(), bitmap.end(), uint8_t{0});
  if (length == 0) return CacheCount{};
  const Result<uint64_t> dirty = DirtyBytes(fd, offset, length);  // the kernel counts
  const uid_t user = geteuid();
  // To other users mincore reports all pages as present.
  const bool is_told = user == 0 || user == stat.uid;
  if (!is_told && (!dirty || !bitmap.empty())) return std::nullopt;
  const Result<uint64_t> cached =
      bitmap.empty() ? CachedBytes(fd, offset, length)
                     : CachedPages(fd, offset, length, bitmap.data(), bitmap.size());
  if (!cached) return std::nullopt;
  return CacheCount{std::min(*cached, length), dirty ? *dirty : 0};
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
  if (counted && counted->resident >= length) {
    result.resident = result.done = length;
    return result;
  }
  // Our own reads show neither the pages' use nor what comes next.
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_NOREUSE);
  (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
  const uint64_t piece = PieceBytes(stat);
  static thread_local std::vector<char> scratch(kReadBytes);
  uint64_t there = 0;
  for (uint64_t at = request.offset; at < end && result.stop == LoadStop::kDone;) {
    if (request.IsInterrupted()) {
      result.stop = LoadStop::kCancelled;
      break;
    }
    const uint64_t step_end = std::min(end, at + kStepBytes);
    std::vector<std::pair<uint64_t, uint64_t>> absent;  // [from, to)
    for (; at < step_end; at += std::min(piece, step_end - at)) {
      const uint64_t to = std::min(at + piece, step_end);
      const uint64_t cached = StartPiece(fd, at, to - at, scratch);
      there += cached;
      if (at + cached < to) absent.emplace_back(at + cached, to);
    }
    result.done = step_end - request.offset;
    for (const auto& [from, to] : absent) {
      const uint64_t read = Await(fd, from, to, scratch, &result);
      if (read == to) continue;
      result.done = read - request.offset;
      break;
    }
  }
  // The pages counted before may lie anywhere in the range: a part gets its share.
  if (counted) there = counted->resident * result.done / length;
  result.resident = std::min(there, result.done);
  result.submitted = result.done - result.resident;
  result.failed = std::min(result.failed, result.submitted);
  result.loaded = result.submitted - result.failed;
  return result;
}

}  // namespace ppc
