// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/kept_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "daemon/backend/file_cache.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/proc_info.h"

namespace ppc {
namespace {

UniqueFd OpenAgain(int fd) {
  return UniqueFd(
      open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

// Servers that compare modification times drop at the first open, not at the second.
bool TryOut(int fd) {
  UniqueFd last;
  for (int i = 0; i < 2; ++i) {
    last = OpenAgain(fd);
    char byte = 0;
    if (!last.IsValid() || pread(last.Get(), &byte, 1, 0) != 1) return false;
  }
  const UniqueFd again = OpenAgain(fd);
  const Result<uint64_t> cached = CachedBytes(again.Get(), 0, 1);
  return cached && *cached == 0;
}

}  // namespace

void KeptCache::Begin(const char* dir) {
  struct stat info {};
  if (stat(dir, &info) == 0) type_ = MountType(roots_, info.st_dev);
}

bool KeptCache::DropsAtOpen(int fd) {
  if (!IsFuse()) return false;
  struct stat info {};
  if (fstat(fd, &info) != 0 || info.st_size == 0) return false;
  const std::lock_guard lock(mutex_);
  if (!std::exchange(is_tested_, true)) has_drops_.store(TryOut(fd), std::memory_order_relaxed);
  return HasDrops();
}

void KeptCache::NoteReader(uint64_t file, int tgid, uint64_t start_ns) {
  const std::lock_guard lock(readers_mutex_);
  // A forgotten file is not loaded until its next read.
  if (readers_.size() >= kMaxReaders && !readers_.contains(file)) readers_.erase(readers_.begin());
  readers_[file] = Reader{tgid, start_ns};
}

bool KeptCache::HasReader(uint64_t file) const {
  Reader reader;
  {
    const std::lock_guard lock(readers_mutex_);
    const auto found = readers_.find(file);
    if (found == readers_.end()) return false;
    reader = found->second;
  }
  return IsSameProcess(roots_, reader.tgid, reader.start_ns);
}

}  // namespace ppc
