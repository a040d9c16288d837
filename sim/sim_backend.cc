// SPDX-License-Identifier: Apache-2.0
#include "sim/sim_backend.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "daemon/base/unique_fd.h"

namespace ppc::sim {
namespace {

Error Stale(uint64_t file) { return PosixError("file number " + std::to_string(file), ESTALE); }

FileInfo InfoOf(const CacheFile& file) {
  return FileInfo{
      .file = file.number, .size = file.bytes, .ino = file.number, .mtime_ns = file.mtime_ns};
}

}  // namespace

// ---------------------------------------------------------------------- waiting

void SimBackend::WakeForEvent() {
  if (waiter_ != nullptr && !naps_) kernel_->scheduler().Wake(waiter_);
}

void SimBackend::EndWait() {
  wait_ends_ = true;
  if (waiter_ != nullptr) kernel_->scheduler().Wake(waiter_);
}

WaitOutcome SimBackend::Wait(uint64_t timeout_ns, bool nap, std::span<pollfd> others) {
  if (turn_ends_) turn_ends_();
  const uint64_t end = NowNs() + timeout_ns;
  while (true) {
    if (Device().is_expired) return WaitOutcome::kExpired;
    if (std::exchange(wait_ends_, false)) {
      if (poll(others.data(), others.size(), 0) > 0) return WaitOutcome::kOther;
      return Device().events.empty() ? WaitOutcome::kTimeout : WaitOutcome::kEvents;
    }
    if (!nap && !Device().events.empty()) return WaitOutcome::kEvents;
    if (NowNs() >= end) break;
    waiter_ = kernel_->scheduler().Current();
    naps_ = nap;
    kernel_->scheduler().SleepUntil(end);
    waiter_ = nullptr;
  }
  return Device().events.empty() ? WaitOutcome::kTimeout : WaitOutcome::kEvents;
}

Status SimBackend::Attach(const AttachOptions& options) {
  kernel_->Attach(mount_, options);
  return Ok();
}

size_t SimBackend::Drain(std::span<Event> batch) {
  std::deque<Event>& events = Device().events;
  const size_t count = std::min(batch.size(), events.size());
  std::copy_n(events.begin(), count, batch.begin());
  events.erase(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

// ------------------------------------------------------------------------ files

CacheFile* SimBackend::Find(uint64_t number) {
  CacheFile* file = kernel_->cache().Find(number);
  return file != nullptr && file->mount == mount_ ? file : nullptr;
}

CacheFile* SimBackend::FindPath(const std::string& path) {
  CacheFile* file = kernel_->cache().FindPath(path);
  return file != nullptr && file->mount == mount_ ? file : nullptr;
}

Result<FileInfo> SimBackend::Resolve(uint64_t number, std::string* path) {
  const CacheFile* file = Find(number);
  if (file == nullptr) return Stale(number);
  if (path != nullptr) *path = file->path;
  return InfoOf(*file);
}

Result<FileInfo> SimBackend::Lookup(const std::string& path) {
  const CacheFile* file = FindPath(path);
  if (file == nullptr) return PosixError("look up " + path, ENOENT);
  return InfoOf(*file);
}

Result<size_t> SimBackend::Read(const std::string& path, uint64_t offset,
                                std::span<uint8_t> buffer) {
  CacheFile* file = FindPath(path);
  if (file == nullptr) return PosixError("open " + path, ENOENT);
  if (offset >= file->bytes) return size_t{0};
  // A helper's result is dropped; the thread that needs it reads again.
  if (!kernel_->scheduler().IsOwnThread()) return Error{EAGAIN, "read: not by a helper thread"};
  const size_t bytes = std::min<size_t>(buffer.size(), file->bytes - offset);
  if (kernel_->scheduler().Current() != nullptr) kernel_->ReadQuietly(file, offset, bytes);
  std::fill_n(buffer.begin(), bytes, uint8_t{0});
  if (offset < file->head.size()) {
    const size_t known = std::min<size_t>(bytes, file->head.size() - offset);
    std::copy_n(file->head.begin() + static_cast<std::ptrdiff_t>(offset), known, buffer.begin());
  }
  return bytes;
}

Status SimBackend::List(const std::string& path, const DirEntry& entry) {
  const std::string prefix = path.empty() ? "" : path + "/";
  std::set<std::string> folders;  // listed already
  for (const CacheFile& file : kernel_->cache().files()) {
    if (file.is_gone || file.mount != mount_ || !file.path.starts_with(prefix)) continue;
    std::string name = file.path.substr(prefix.size());
    const size_t slash = name.find('/');
    if (slash != std::string::npos) {
      name.resize(slash);
      if (!folders.insert(name).second) continue;
    }
    if (!entry(name.c_str(), slash == std::string::npos ? 'f' : 'd')) break;
  }
  return Ok();
}

// ------------------------------------------------------------------------- work

Result<LoadResult> SimBackend::Load(const LoadRequest& request) {
  if (Find(request.file) == nullptr) return Stale(request.file);
  return kernel_->Load(request, [&request] { return request.IsInterrupted(); });
}

Result<EvictResult> SimBackend::Evict(const EvictRequest& request) {
  if (Find(request.file) == nullptr) return Stale(request.file);
  return kernel_->Evict(request);
}

Result<Residency> SimBackend::Resident(uint64_t number, uint64_t offset, uint64_t length,
                                       std::span<uint8_t> bitmap) {
  CacheFile* file = Find(number);
  if (file == nullptr) return Stale(number);
  const auto first = static_cast<uint32_t>(offset / kPage);
  const uint32_t end = length == 0 ? file->pages
                                   : static_cast<uint32_t>(std::min<uint64_t>(
                                         (offset + length + kPage - 1) / kPage, file->pages));
  Residency out;
  std::fill(bitmap.begin(), bitmap.end(), uint8_t{0});
  for (uint32_t i = first; i < end; ++i) {
    const Page& page = kernel_->cache().page(file->first + i);
    if (page.state != PageState::kUptodate) continue;
    out.resident += kPage;
    out.node[page.node] += kPage;
    if (page.mapped != 0) out.mapped += kPage;
    const uint32_t bit = i - first;
    if (bit / 8 < bitmap.size()) bitmap[bit / 8] |= static_cast<uint8_t>(1u << (bit % 8));
  }
  return out;
}

std::string ControlGroupOf(const std::string& root, PayerId payer) {
  return root + "/sys/fs/cgroup/payer-" + std::to_string(payer);
}

Result<uint32_t> SimBackend::Charge(int cgroup_fd) {
  std::error_code error;
  const std::string path =
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(cgroup_fd), error).string();
  uint32_t payer = 0;
  const size_t number = path.rfind('-') + 1;
  const auto read = std::from_chars(path.data() + number, path.data() + path.size(), payer);
  if (error || read.ec != std::errc() || payer >= kPayers)
    return Error{EINVAL, "charge to " + path + ": not a payer's control group"};
  return payer;
}

Status SimBackend::SetFileNative(uint64_t number, bool native) {
  CacheFile* file = Find(number);
  if (file == nullptr) return Stale(number);
  file->is_native = native;
  return Ok();
}

Result<BackendCounters> SimBackend::Counters() {
  return BackendCounters{.events_queued = Device().queued,
                         .attached = Device().is_attached,
                         .window_bytes = kernel_->observes() ? 0 : kernel_->window_bytes(),
                         .beacon_bytes = kernel_->beacon_bytes()};
}

// Written in place: replacing the content costs some file systems a disk write.
void WriteMemInfo(const PageCache& cache, const std::string& root) {
  const MemoryOptions& options = cache.options();
  const uint64_t room = options.node_bytes * std::max<uint32_t>(options.nodes, 1);
  char text[256];
  const int bytes =
      std::snprintf(text, sizeof(text),
                    "MemTotal: %12zu kB\nMemAvailable: %12zu kB\n"
                    "Active(file): %12zu kB\nInactive(file): 0 kB\n",
                    (room + options.other_bytes) >> 10, room >> 10, cache.resident_bytes() >> 10);
  mkdir((root + "/proc").c_str(), 0700);
  const UniqueFd file(open((root + "/proc/meminfo").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (pwrite(file.Get(), text, static_cast<size_t>(bytes), 0) != bytes) std::abort();
}

MemoryReading SimMemory::Read(bool) {
  const MemoryOptions& options = cache_->options();
  const auto share = [this](uint64_t limit) {
    return static_cast<uint64_t>(static_cast<double>(limit) * share_);
  };
  MemoryReading host;
  host.limit = options.node_bytes * std::max<uint32_t>(options.nodes, 1) + options.other_bytes;
  host.cache = cache_->resident_bytes();
  host.used = cache_->used_bytes();
  host.threshold = share(host.limit);
  if (limit_bytes_ != 0) {
    MemoryReading own = host;
    own.limit = limit_bytes_;
    own.used = own.cache;
    own.threshold = share(own.limit);
    if (own.Slack() < host.Slack()) host = own;
  }
  if (options.limit_bytes == 0) return host;
  MemoryReading group = host;
  group.limit = options.limit_bytes;
  group.threshold = share(group.limit);
  group.is_cgroup = true;
  return group.Slack() < host.Slack() ? group : host;
}

}  // namespace ppc::sim
