// SPDX-License-Identifier: Apache-2.0
// Owns loads, evictions and residency of the observer.
#include <algorithm>
#include <cerrno>
#include <vector>

#include "daemon/backend/file_cache.h"
#include "daemon/backend/observer/evict_ladder.h"
#include "daemon/backend/observer/observer_backend.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"

namespace ppc {
namespace {

constexpr int kLoadsAtOnce = 32;              // in the cgroup: as many as there are of small ones
constexpr uint64_t kIdleNs = 500 * kNsPerMs;  // an open file holds the file system below
// Where opening again would drop what the service has read.
constexpr uint64_t kKeepNs = 30 * kNsPerSec;

}  // namespace

Result<std::shared_ptr<const UniqueFd>> ObserverBackend::OpenFor(uint64_t file, bool is_kept) {
  const uint64_t now = MonotonicNs();
  {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(file);
    if (found != open_.end()) {
      found->second.used_ns = now;
      return found->second.fd;
    }
  }
  Result<UniqueFd> fd = index_->Open(file);
  if (!fd) return fd.error();
  auto shared = std::make_shared<const UniqueFd>(std::move(*fd));
  if (!is_kept || MetFiles::IsMet(file)) return shared;
  const std::lock_guard lock(mutex_);
  open_[file] = OpenFile{shared, now, kIdleNs};
  return shared;
}

// False: none is open.
bool ObserverBackend::CloseIdle(uint64_t now_ns) {
  std::vector<std::shared_ptr<const UniqueFd>> closed;  // without the lock: a server may be asked
  const std::lock_guard lock(mutex_);
  std::erase_if(open_, [&](auto& entry) {
    const bool is_idle = now_ns > entry.second.used_ns + entry.second.keep_ns;
    if (is_idle) closed.push_back(std::move(entry.second.fd));
    return is_idle;
  });
  return !open_.empty();
}

void ObserverBackend::KeepOpen(uint64_t file) {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(file);
  if (found != open_.end()) found->second.keep_ns = kKeepNs;
}

LoadStop ObserverBackend::MayLoad(uint64_t file, int fd) {
  const std::optional<uint32_t> folder = index_->FolderOf(file);
  if (folder && direct_.NoteLoad(file, *folder)) worker_->Hurry();
  const DirectReaders::State direct = folder ? direct_.Of(*folder) : DirectReaders::State::kNone;
  if (direct == DirectReaders::State::kSeen) return LoadStop::kUnsupported;
  if (direct == DirectReaders::State::kRemember) return LoadStop::kLater;
  if (!kept_.DropsAtOpen(fd)) return LoadStop::kDone;
  KeepOpen(file);
  return kept_.HasReader(file) ? LoadStop::kDone : LoadStop::kLater;
}

std::shared_ptr<CgroupLoader> ObserverBackend::LoaderOf(uint32_t handle) {
  const std::lock_guard lock(mutex_);
  const auto found = loaders_.find(handle);
  return found == loaders_.end() ? nullptr : found->second;
}

Result<LoadResult> ObserverBackend::Load(const LoadRequest& request) {
  // Thousands of small files a second would take all descriptors.
  const Result<std::shared_ptr<const UniqueFd>> fd =
      OpenFor(request.file, !request.is_small || kept_.HasDrops());
  if (!fd) return fd.error();
  if (request.IsInterrupted()) return LoadResult{.stop = LoadStop::kCancelled};
  index_->Expect(request.file);
  const LoadStop may = MayLoad(request.file, (*fd)->Get());
  if (may != LoadStop::kDone) return LoadResult{.stop = may};
  ppc_load load{};
  load.offset = request.offset;
  load.length = request.length;
  int code = EBUSY;
  if (request.charge != 0) {
    const std::shared_ptr<CgroupLoader> loader = LoaderOf(request.charge);
    if (loader == nullptr) return Error{EBADF, "load: no such cgroup"};
    code = loader->LoadFile((*fd)->Get(), &load, request.node);
    if (code == EBUSY && !told_uncharged_.exchange(true)) {
      Log(LogLevel::kWarning,
          "a service's cgroup takes no process, since it has children with controllers; its loads "
          "are charged to the runner's cgroup");
    }
    if (code != 0 && code != EBUSY) return PosixError("load", code);
  }
  LoadResult result{.loaded = load.loaded,
                    .submitted = load.submitted,
                    .resident = load.resident,
                    .failed = 0,
                    .done = load.done,
                    .stop = static_cast<LoadStop>(load.stop)};
  if (code == EBUSY) {
    const Result<FileLoad> loaded = ppc::LoadFile((*fd)->Get(), request.offset, request.length,
                                                  [&] { return request.IsInterrupted(); });
    if (!loaded) return loaded.error();
    result = LoadResult{.loaded = loaded->loaded,
                        .submitted = loaded->loaded,
                        .resident = loaded->resident,
                        .failed = 0,
                        .done = loaded->done,
                        .stop = loaded->is_interrupted ? LoadStop::kCancelled
                                : loaded->is_eof       ? LoadStop::kEof
                                                       : LoadStop::kDone};
  }
  if (result.loaded > 0) own_pages_.Add(request.file, request.offset, result.done);
  return result;
}

Result<EvictResult> ObserverBackend::Evict(const EvictRequest& request) {
  const Result<std::shared_ptr<const UniqueFd>> fd = OpenFor(request.file);
  if (!fd) return fd.error();
  const std::optional<InodeIndex::Identity> identity = index_->IdentityOf(request.file);
  if (!identity) return Error{ESTALE, "evict: the file is gone"};
  const Result<uint64_t> all = CachedBytes((*fd)->Get(), request.offset, request.length);
  if (!all) return all.error();
  EvictResult sum;
  const std::vector<MappedPart> mapped =
      mappers_.Of(*identity, request.offset, request.length, MonotonicNs());
  for (const auto& [offset, length] :
       own_pages_.Within(request.file, request.offset, request.length)) {
    std::vector<MappedPart> parts;
    for (const MappedPart& part : mapped) {
      const uint64_t from = std::max(part.offset, offset);
      const uint64_t to = std::min(part.offset + part.bytes, offset + length);
      if (from < to) {
        parts.push_back(MappedPart{part.pid, part.address + (from - part.offset), from, to - from});
      }
    }
    const Result<EvictResult> done =
        EvictRange((*fd)->Get(), offset, length, request.unmap, parts, roots_.Proc(""));
    if (!done) return done.error();
    if (done->dropped == done->asked) ForgetDropped(request.file, (*fd)->Get(), offset, length);
    sum.dropped += done->dropped;
    sum.mapped += done->mapped;
    sum.busy += done->busy;
  }
  // Neither loaded by us nor missed by whom we serve: somebody else's, and left alone.
  const uint64_t seen = sum.dropped + sum.mapped + sum.busy;
  sum.busy += *all > seen ? *all - seen : 0;
  sum.asked = sum.dropped + sum.mapped + sum.busy;
  return sum;
}

// Later pages there are a stranger's.  What lies beside them in the same unit goes with another
// part, or went with one before.
void ObserverBackend::ForgetDropped(uint64_t file, int fd, uint64_t offset, uint64_t length) {
  constexpr uint64_t kUnit = OwnPages::kUnit;
  uint64_t from = offset / kUnit * kUnit;
  uint64_t to = (offset + length + kUnit - 1) / kUnit * kUnit;
  const auto is_empty = [&](uint64_t start, uint64_t end) {
    const Result<uint64_t> bytes = start < end ? CachedBytes(fd, start, end - start) : uint64_t{0};
    return bytes && *bytes == 0;
  };
  if (!is_empty(from, offset)) from = offset;
  if (!is_empty(offset + length, to)) to = offset + length;
  own_pages_.Remove(file, from, to - from);
}

Result<Residency> ObserverBackend::Resident(uint64_t file, uint64_t offset, uint64_t length,
                                            std::span<uint8_t> bitmap) {
  const Result<std::shared_ptr<const UniqueFd>> fd = OpenFor(file);
  if (!fd) return fd.error();
  std::fill(bitmap.begin(), bitmap.end(), uint8_t{0});
  const Result<uint64_t> bytes =
      bitmap.empty() ? CachedBytes((*fd)->Get(), offset, length)
                     : CachedPages((*fd)->Get(), offset, length, bitmap.data(), bitmap.size());
  if (!bytes) return bytes.error();
  // The kernel has reclaimed it.
  if (*bytes == 0 && length > 0) own_pages_.Remove(file, offset, length);
  return Residency{.resident = *bytes};
}

Result<uint32_t> ObserverBackend::Charge(int cgroup_fd) {
  CgroupLoaderOptions options;
  options.lanes = kLoadsAtOnce;
  options.on_process = [this](pid_t pid, bool is_there) {
    if (is_there) {
      programs_->AddOwn(pid);
    } else {
      programs_->RemoveOwn(pid);
    }
  };
  Result<std::unique_ptr<CgroupLoader>> loader =
      CgroupLoader::Open(cgroup_fd, -1, std::move(options));
  if (!loader) return loader.error();
  const std::lock_guard lock(mutex_);
  loaders_[++last_handle_] = std::move(*loader);
  return last_handle_;
}

void ObserverBackend::Uncharge(uint32_t handle) {
  std::shared_ptr<CgroupLoader> gone;  // destroyed without the lock
  const std::lock_guard lock(mutex_);
  const auto found = loaders_.find(handle);
  if (found == loaders_.end()) return;
  gone = std::move(found->second);
  loaders_.erase(found);
}

}  // namespace ppc
