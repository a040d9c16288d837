// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/open_files.h"

#include <utility>
#include <vector>

#include "daemon/backend/file_cache.h"
#include "daemon/base/clock.h"

namespace ppc {
namespace {

constexpr uint64_t kIdleNs = 500 * kNsPerMs;
constexpr uint64_t kKeepNs = 30 * kNsPerSec;

}  // namespace

Result<OpenFiles::Fd> OpenFiles::Open(uint64_t file, bool is_kept) {
  const uint64_t now = MonotonicNs();
  {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(file);
    if (found != files_.end()) {
      found->second.used_ns = now;
      return found->second.fd;
    }
  }
  Result<UniqueFd> fd = index_->Open(file);
  if (!fd) return fd.error();
  const bool has_own_pages = HasOwnPages(fd->Get());
  auto shared = std::make_shared<const Opened>(std::move(*fd), has_own_pages);
  if (!is_kept || DiscoveredFiles::IsDiscovered(file)) return Fd(std::move(shared));
  const std::lock_guard lock(mutex_);
  files_[file] = OpenFile{shared, now, kIdleNs};
  return Fd(std::move(shared));
}

void OpenFiles::Keep(uint64_t file) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(file);
  if (found != files_.end()) found->second.keep_ns = kKeepNs;
}

bool OpenFiles::CloseIdle(uint64_t now_ns) {
  std::vector<Fd> closed;  // destroyed after unlocking: close() may wait for a server
  const std::lock_guard lock(mutex_);
  std::erase_if(files_, [&](auto& entry) {
    const bool is_idle = now_ns > entry.second.used_ns + entry.second.keep_ns;
    if (is_idle) closed.push_back(std::move(entry.second.fd));
    return is_idle;
  });
  return !files_.empty();
}

}  // namespace ppc
