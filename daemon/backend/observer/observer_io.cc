// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/observer_io.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "daemon/backend/file_cache.h"
#include "daemon/backend/observer/evict_range.h"
#include "daemon/backend/root_files.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/machine/cgroup.h"

namespace ppc {
namespace {

constexpr int kLoadsAtOnce = 32;  // in the cgroup: as many as there are loads of small files
constexpr uint64_t kIdlePeriodNs = kNsPerSec;
constexpr uint64_t kOpenPeriodNs = 200 * kNsPerMs;   // while files are open
constexpr uint64_t kLimitPeriodNs = 100 * kNsPerMs;  // while burn groups beside it have pages

constexpr uint64_t kIdleNs = 500 * kNsPerMs;
constexpr uint64_t kKeepNs = 30 * kNsPerSec;    // opening it again would drop, or fetch, its pages
constexpr uint64_t kSampledNs = 5 * kNsPerSec;  // the samples come to a file by turns

}  // namespace

ObserverIo::ObserverIo(const std::string& dir, const SysRoots& roots, Parts parts)
    : roots_(roots),
      parts_(std::move(parts)),
      files_(parts_.index),
      droppable_(parts_.index->discovery()),
      mappers_(roots.Proc("")),
      kept_(roots),
      asks_server_(AsksServer(UniqueFd(open(dir.c_str(), O_PATH | O_CLOEXEC)).Get())) {
  kept_.Begin(dir.c_str());
}

void ObserverIo::Note(const Event& event) {
  if (IsMiss(event.kind)) droppable_.Add(event.file, event.offset, event.length);
  if ((event.flags & kEventMmap) != 0) mappers_.Note(event.tgid, event.time_ns);
  if (kept_.IsFuse()) kept_.NoteReader(event.file, event.tgid, event.start_ns);
}

uint64_t ObserverIo::RunPeriodic(uint64_t now_ns) {
  charged_.Reap();
  uint64_t idle_ns = files_.CloseIdle(now_ns) ? kOpenPeriodNs : kIdlePeriodNs;
  for (const std::shared_ptr<BurnGroups>& groups : AllBurnGroups())
    if (groups->UpdateLimit()) idle_ns = kLimitPeriodNs;
  return idle_ns;
}

LoadStop ObserverIo::MayLoad(uint64_t file, int fd) {
  if (!kept_.DropsAtOpen(fd)) return LoadStop::kDone;
  files_.Keep(file, kKeepNs);
  return kept_.HasReader(file) ? LoadStop::kDone : LoadStop::kLater;
}

Result<LoadResult> ObserverIo::Load(const LoadRequest& request) {
  if (kept_.IsStreamed()) return LoadResult{.stop = LoadStop::kLater};
  // Keeping thousands of small files a second open would use up all descriptors.
  const Result<OpenFiles::Fd> fd = files_.Open(request.file, !request.is_small || kept_.HasDrops());
  if (!fd) return fd.error();
  if (request.IsInterrupted()) return LoadResult{.stop = LoadStop::kCancelled};
  FileDiscovery* const discovery = parts_.index->discovery();
  if (discovery != nullptr && FileDiscovery::IsDiscovered(request.file))
    discovery->Expect(request.file);
  const LoadStop may = MayLoad(request.file, (*fd)->Get());
  if (may != LoadStop::kDone) return LoadResult{.stop = may};
  Result<LoadResult> result = LoadOpen(request, (*fd)->Get());
  if (!result || result->loaded == 0) return result;
  droppable_.Add(request.file, request.offset, result->done);
  if (request.is_populated) MarkAccessed((*fd)->Get(), request.offset, result->done);
  return result;
}

Result<LoadResult> ObserverIo::LoadOpen(const LoadRequest& request, int fd) {
  if (request.charge != 0) {
    ppc_load load{};
    load.offset = request.offset;
    load.length = request.length;
    const std::shared_ptr<BurnGroups> burn =
        request.is_burnt ? BurnGroupsOf(request.charge) : nullptr;
    int code = BurnGroups::kNoGroup;
    if (burn != nullptr) code = burn->LoadFile(fd, request.file, &load, request.node);
    if (code == BurnGroups::kNoGroup)
      code = charged_.LoadFile(request.charge, fd, &load, request.node);
    if (code == 0) {
      return LoadResult{.loaded = load.loaded,
                        .submitted = load.submitted,
                        .resident = load.resident,
                        .failed = 0,
                        .done = load.done,
                        .stop = static_cast<LoadStop>(load.stop)};
    }
    if (code == CgroupLoader::kNoAnswer) return LoadResult{.stop = LoadStop::kLater};
    if (code == EBADF) return Error{EBADF, "load: no such cgroup"};
    if (code != EBUSY) return PosixError("load", code);
  }
  const Result<FileLoad> loaded =
      ppc::LoadFile(fd, request.offset, request.length, [&] { return request.IsInterrupted(); });
  if (!loaded) return loaded.error();
  return LoadResult{.loaded = loaded->loaded,
                    .submitted = loaded->loaded,
                    .resident = loaded->resident,
                    .failed = 0,
                    .done = loaded->done,
                    .stop = loaded->is_interrupted ? LoadStop::kCancelled
                            : loaded->is_eof       ? LoadStop::kEof
                                                   : LoadStop::kDone};
}

Result<EvictResult> ObserverIo::Evict(const EvictRequest& request) {
  const Result<OpenFiles::Fd> fd = files_.Open(request.file);
  if (!fd) return fd.error();
  const std::optional<ObserverFiles::Identity> identity = parts_.index->IdentityOf(request.file);
  if (!identity) return Error{ESTALE, "evict: the file is gone"};
  const Result<uint64_t> all = CachedBytes((*fd)->Get(), request.offset, request.length);
  if (!all) return all.error();
  EvictResult sum;
  sum.dropped = ReleaseGroups(request, (*fd)->Get());
  const Mappers::Visit visit(&mappers_);
  const std::vector<MappedPart> mapped =
      mappers_.Of(visit, *identity, request.offset, request.length, MonotonicNs());
  for (const auto& [offset, length] :
       droppable_.Within(request.file, request.offset, request.length)) {
    std::vector<MappedPart> parts;
    for (const MappedPart& part : mapped) {
      const uint64_t from = std::max(part.offset, offset);
      const uint64_t to = std::min(part.offset + part.bytes, offset + length);
      if (from < to) {
        MappedPart& of_ours = parts.emplace_back(part);
        of_ours.address += from - part.offset;
        of_ours.offset = from;
        of_ours.bytes = to - from;
      }
    }
    const Result<EvictResult> done = EvictRange(
        (*fd)->Get(), offset, length, request.unmap && visit.IsInside(), parts, roots_.Proc(""));
    if (!done) return done.error();
    if (done->dropped == done->asked) ForgetDropped(request.file, (*fd)->Get(), offset, length);
    sum.dropped += done->dropped;
    sum.mapped += done->mapped;
    sum.busy += done->busy;
  }
  // Neither loaded by us nor missed by a reader of ours: another's pages, left alone.
  const uint64_t seen = sum.dropped + sum.mapped + sum.busy;
  sum.busy += *all > seen ? *all - seen : 0;
  sum.asked = sum.dropped + sum.mapped + sum.busy;
  return sum;
}

std::shared_ptr<BurnGroups> ObserverIo::BurnGroupsOf(uint32_t handle) {
  const std::lock_guard lock(payers_mutex_);
  const auto found = burn_groups_.find(handle);
  return found == burn_groups_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<BurnGroups>> ObserverIo::AllBurnGroups() {
  std::vector<std::shared_ptr<BurnGroups>> all;
  const std::lock_guard lock(payers_mutex_);
  for (const auto& [handle, groups] : burn_groups_) all.push_back(groups);
  return all;
}

uint64_t ObserverIo::ReleaseGroups(const EvictRequest& request, int fd) {
  if (!request.unmap) return 0;
  uint64_t gone = 0;
  for (const std::shared_ptr<BurnGroups>& groups : AllBurnGroups())
    gone += groups->Release(request.file, request.offset, request.length);
  if (gone == 0) return 0;
  // Emptying a group may leave some pages.
  const Result<uint64_t> left = CachedBytes(fd, request.offset, request.length);
  return left ? std::min(gone, request.length - std::min(request.length, *left)) : 0;
}

// Pages that come there later are a stranger's.  Also forgets the rest of a partly covered unit if
// none of it is cached.
void ObserverIo::ForgetDropped(uint64_t file, int fd, uint64_t offset, uint64_t length) {
  constexpr uint64_t kUnit = DroppableRanges::kUnit;
  uint64_t from = offset / kUnit * kUnit;
  uint64_t to = (offset + length + kUnit - 1) / kUnit * kUnit;
  const auto is_empty = [&](uint64_t start, uint64_t end) {
    const Result<uint64_t> bytes = start < end ? CachedBytes(fd, start, end - start) : uint64_t{0};
    return bytes && *bytes == 0;
  };
  if (!is_empty(from, offset)) from = offset;
  if (!is_empty(offset + length, to)) to = offset + length;
  droppable_.Remove(file, from, to - from);
}

Result<uint64_t> ObserverIo::Cached(uint64_t file, const OpenFiles::Opened& open, uint64_t offset,
                                    uint64_t length, std::span<uint8_t> bitmap) {
  std::fill(bitmap.begin(), bitmap.end(), uint8_t{0});
  const Result<uint64_t> bytes =
      bitmap.empty()
          ? (open.has_own_pages ? CachedBytesOfOwn : CachedBytes)(open.Get(), offset, length)
          : CachedPages(open.Get(), offset, length, bitmap.data(), bitmap.size());
  // The kernel has reclaimed the range.
  if (bytes && *bytes == 0 && length > 0) droppable_.Remove(file, offset, length);
  return bytes;
}

Result<Residency> ObserverIo::Resident(uint64_t file, uint64_t offset, uint64_t length,
                                       std::span<uint8_t> bitmap) {
  const Result<OpenFiles::Fd> fd = files_.Open(file);
  if (!fd) return fd.error();
  const Result<uint64_t> bytes = Cached(file, **fd, offset, length, bitmap);
  return bytes ? Result<Residency>(Residency{.resident = *bytes}) : bytes.error();
}

Result<uint64_t> ObserverIo::SampleCache(uint64_t file, uint64_t offset, uint64_t length,
                                         bool is_kept) {
  OpenFiles::Fd fd = files_.Find(file, is_kept);
  if (fd == nullptr) {
    if (asks_server_) return Error{EAGAIN, "the file is not open"};
    Result<OpenFiles::Fd> opened = files_.Open(file, is_kept);
    if (!opened) return opened.error();
    fd = std::move(*opened);
  }
  if (is_kept) files_.Keep(file, kSampledNs);
  return Cached(file, *fd, offset, length, {});
}

Result<size_t> ObserverIo::Read(uint64_t file, const std::string& path, uint64_t offset,
                                std::span<uint8_t> buffer) {
  const Result<OpenFiles::Fd> fd = files_.Open(file);
  if (!fd) return fd.error();
  files_.Keep(file, kKeepNs);
  return ReadAt((*fd)->Get(), path, offset, buffer);
}

Result<uint32_t> ObserverIo::Charge(int cgroup_fd) {
  CgroupLoaderOptions options;
  options.lanes = kLoadsAtOnce;
  options.on_process = [programs = parts_.programs](pid_t pid, bool is_there) {
    if (is_there) {
      programs->AddOwn(pid);
    } else {
      programs->RemoveOwn(pid);
    }
  };
  Result<uint32_t> handle = charged_.Open(cgroup_fd, -1, options);
  if (!handle) return handle;
  std::error_code unknown;
  const std::filesystem::path path =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(cgroup_fd), unknown);
  Result<Cgroup> group = Cgroup::Open(path, roots_);
  std::shared_ptr<BurnGroups> burn;
  if (group && group->Read(1.0, /*with_cache=*/false)) {
    Result<std::unique_ptr<BurnGroups>> opened = BurnGroups::Open(std::move(*group), options);
    if (opened) {
      burn = std::move(*opened);
    } else {
      Log(LogLevel::kInfo,
          "pages that several processes map stay cached: " + opened.error().message);
    }
  }
  if (burn == nullptr) return handle;
  const std::lock_guard lock(payers_mutex_);
  burn_groups_[*handle] = std::move(burn);
  return handle;
}

void ObserverIo::Uncharge(uint32_t handle) {
  charged_.Close(handle);
  std::shared_ptr<BurnGroups> gone;  // destroyed after unlocking
  const std::lock_guard lock(payers_mutex_);
  const auto burn = burn_groups_.find(handle);
  if (burn == burn_groups_.end()) return;
  gone = std::move(burn->second);
  burn_groups_.erase(burn);
}

Result<OpenFiles::Fd> OpenFiles::Open(uint64_t file, bool is_kept) {
  if (Fd known = Find(file, is_kept)) return known;
  Result<UniqueFd> fd = index_->Open(file);
  if (!fd) return fd.error();
  const bool has_own_pages = HasOwnPages(fd->Get());
  auto shared = std::make_shared<const Opened>(std::move(*fd), has_own_pages);
  if (!is_kept || FileDiscovery::IsDiscovered(file)) return Fd(std::move(shared));
  const std::lock_guard lock(mutex_);
  files_[file] = OpenFile{shared, MonotonicNs(), kIdleNs};
  return Fd(std::move(shared));
}

OpenFiles::Fd OpenFiles::Find(uint64_t file, bool is_kept) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(file);
  if (found == files_.end()) return nullptr;
  if (is_kept) found->second.used_ns = MonotonicNs();
  return found->second.fd;
}

void OpenFiles::Keep(uint64_t file, uint64_t keep_ns) {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(file);
  if (found != files_.end()) found->second.keep_ns = std::max(found->second.keep_ns, keep_ns);
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

void DroppableRanges::Mark(uint64_t file, uint64_t first, uint64_t end, bool is_ours) {
  const std::lock_guard lock(mutex_);
  if (IsDiscovered(file)) {
    uint16_t marks = discovery_->Units(file);
    for (; first < std::min<uint64_t>(end, FileDiscovery::kUnits); ++first) {
      const auto bit = static_cast<uint16_t>(1u << first);
      marks = static_cast<uint16_t>(is_ours ? marks | bit : marks & ~bit);
    }
    discovery_->SetUnits(file, marks);
  }
  if (first < end && is_ours && files_.size() >= kMaxFiles && !files_.contains(file))
    files_.erase(files_.begin());  // its pages count as strangers' from now on
  const auto found = first < end && is_ours ? files_.try_emplace(file).first : files_.find(file);
  if (found == files_.end()) return;
  std::vector<bool>& units = found->second;
  if (is_ours && units.size() < end) units.resize(end, false);
  for (end = std::min<uint64_t>(end, units.size()); first < end; ++first) units[first] = is_ours;
  if (!is_ours && std::ranges::find(units, true) == units.end()) files_.erase(found);
}

size_t DroppableRanges::Size() const {
  const std::lock_guard lock(mutex_);
  return files_.size();
}

void DroppableRanges::Add(uint64_t file, uint64_t offset, uint64_t length) {
  if (length == 0) return;
  Mark(file, offset / kUnit, (offset + length - 1) / kUnit + 1, true);
}

void DroppableRanges::Remove(uint64_t file, uint64_t offset, uint64_t length) {
  Mark(file, (offset + kUnit - 1) / kUnit, (offset + length) / kUnit, false);
}

std::vector<std::pair<uint64_t, uint64_t>> DroppableRanges::Within(uint64_t file, uint64_t offset,
                                                                   uint64_t length) const {
  std::vector<std::pair<uint64_t, uint64_t>> parts;
  const std::lock_guard lock(mutex_);
  const uint16_t marks = IsDiscovered(file) ? discovery_->Units(file) : uint16_t{0};
  const auto found = files_.find(file);
  if (length == 0 || (marks == 0 && found == files_.end())) return parts;
  static const std::vector<bool> kNone;
  const std::vector<bool>& units = found == files_.end() ? kNone : found->second;
  const uint64_t last = std::max<uint64_t>(units.size(), marks == 0 ? 0 : FileDiscovery::kUnits);
  const uint64_t end = offset + length;
  for (uint64_t unit = offset / kUnit; unit * kUnit < end && unit < last; ++unit) {
    const bool is_marked = unit < FileDiscovery::kUnits && (marks >> unit & 1) != 0;
    if (!is_marked && (unit >= units.size() || !units[unit])) continue;
    const uint64_t from = std::max(offset, unit * kUnit);
    const uint64_t to = std::min(end, (unit + 1) * kUnit);
    if (!parts.empty() && parts.back().first + parts.back().second == from) {
      parts.back().second += to - from;
    } else {
      parts.emplace_back(from, to - from);
    }
  }
  return parts;
}

}  // namespace ppc
