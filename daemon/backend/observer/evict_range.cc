// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/evict_range.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "daemon/backend/file_cache.h"
#include "daemon/base/unique_fd.h"

namespace ppc {
namespace {

constexpr int kMadvPageout = 21;
constexpr uint64_t kPresent = 1ULL << 63;
constexpr uint64_t kSwapped = 1ULL << 62;
constexpr uint64_t kOfFile = 1ULL << 61;  // page of a file, or shared memory

// The runs of the part whose pages are the file's own, not anonymous; absent pages count as the
// file's.
std::vector<iovec> FileRuns(const MappedPart& part, const std::string& proc) {
  std::vector<iovec> runs;
  const UniqueFd pagemap(
      open((proc + "/" + std::to_string(part.pid) + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  if (!pagemap.IsValid()) return runs;
  std::vector<uint64_t> entries(part.bytes / kPageBytes);
  const ssize_t wanted = static_cast<ssize_t>(entries.size() * sizeof(uint64_t));
  const auto at = static_cast<off_t>(part.address / kPageBytes * sizeof(uint64_t));
  if (pread(pagemap.Get(), entries.data(), static_cast<size_t>(wanted), at) != wanted) return runs;
  bool is_open = false;
  for (size_t i = 0; i < entries.size(); ++i) {
    const bool is_private = (entries[i] & kSwapped) != 0 ||
                            ((entries[i] & kPresent) != 0 && (entries[i] & kOfFile) == 0);
    if (is_private) {
      is_open = false;
      continue;
    }
    if (!is_open) {
      runs.push_back(iovec{reinterpret_cast<void*>(part.address + i * kPageBytes), 0});
      is_open = true;
    }
    runs.back().iov_len += kPageBytes;
  }
  return runs;
}

void PageOut(const MappedPart& part, const std::string& proc) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, part.pid, 0)));
  if (!process.IsValid()) return;
  constexpr size_t kMost = 512;  // of one call; the kernel's limit is 1024
  const std::vector<iovec> runs = FileRuns(part, proc);
  // Another file may have been mapped here since the look-up.
  if (!IsStillMapped(part, proc)) return;
  for (size_t i = 0; i < runs.size(); i += kMost) {
    const size_t count = std::min(kMost, runs.size() - i);
    (void)syscall(SYS_process_madvise, process.Get(), runs.data() + i, count, kMadvPageout, 0);
  }
}

// One round of the steps; returns the bytes of the range still in the page cache.
Result<uint64_t> Drop(int fd, uint64_t offset, uint64_t length,
                      const std::vector<MappedPart>& parts, const std::string& proc) {
  if (posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(length),
                    POSIX_FADV_DONTNEED) != 0) {
    return PosixError("drop pages of a file", errno);
  }
  Result<uint64_t> after = CachedBytes(fd, offset, length);
  // Drops a page through the only process that has touched it, even if others map it: workers map
  // whole shards and read their slices.
  for (auto part = parts.begin(); after && *after > 0 && part != parts.end(); ++part) {
    PageOut(*part, proc);
    after = CachedBytes(fd, offset, length);
  }
  return after;
}

}  // namespace

Result<EvictResult> EvictRange(int fd, uint64_t offset, uint64_t length, bool unmap,
                               const std::vector<MappedPart>& parts, const std::string& proc) {
  const Result<uint64_t> before = CachedBytes(fd, offset, length);
  if (!before) return before.error();
  EvictResult result;
  result.asked = *before;
  if (*before == 0) return result;
  const std::vector<MappedPart> touched = unmap ? parts : std::vector<MappedPart>();
  const int cpu = sched_getcpu();
  Result<uint64_t> after = Drop(fd, offset, length, touched, proc);
  // On a busy machine a folio of 2 MiB sometimes stays, probably because the first call has put it
  // into an LRU batch of a CPU that the thread has left: pages in a batch are not paged out.
  const bool is_left = after && *after > 0 && !touched.empty();
  if (is_left && (touched.size() == 1 || sched_getcpu() != cpu)) {
    after = Drop(fd, offset, length, touched, proc);
  }
  if (!after) return after.error();
  const uint64_t left = std::min(*after, *before);
  result.dropped = *before - left;
  (parts.empty() ? result.busy : result.mapped) = left;
  return result;
}

}  // namespace ppc
