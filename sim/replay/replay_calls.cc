// SPDX-License-Identifier: Apache-2.0
// Owns the Backend and MemorySource side of ReplayBackend: what the runtime calls.
#include <algorithm>
#include <cerrno>

#include "sim/replay/replay_backend.h"

namespace ppc {
namespace {

Error Stale(uint64_t file) { return PosixError("file number " + std::to_string(file), ESTALE); }

}  // namespace

uint64_t ReplayBackend::NowNs() const { return now_ns_.load(std::memory_order_acquire); }

Status ReplayBackend::Attach(const AttachOptions& options) {
  const std::lock_guard lock(mutex_);
  if (gone_) return PosixError("attach", ENODEV);
  attached_ = true;
  expired_ = false;
  attached_options_ = options;
  return Ok();
}

void ReplayBackend::Detach() {
  const std::lock_guard lock(mutex_);
  attached_ = false;
  ready_.clear();
}

void ReplayBackend::RenewLease() {
  const std::lock_guard lock(mutex_);
  ++lease_renewals_;
}

size_t ReplayBackend::Drain(std::span<Event> batch) {
  const std::lock_guard lock(mutex_);
  const size_t count = std::min(batch.size(), ready_.size());
  std::copy_n(ready_.begin(), count, batch.begin());
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

WaitOutcome ReplayBackend::Wait(uint64_t timeout_ns, bool nap, std::span<pollfd> others) {
  if (!others.empty() && poll(others.data(), others.size(), 0) > 0) return WaitOutcome::kOther;
  uint64_t step = timeout_ns;
  {
    const std::lock_guard lock(mutex_);
    if (gone_) return WaitOutcome::kGone;
    if (expired_) return WaitOutcome::kExpired;
    if (!nap && !ready_.empty()) return WaitOutcome::kEvents;
    if (!nap && !future_.empty()) {
      const uint64_t next = future_.begin()->first;
      step = std::min(step, next > now_ns_ ? next - now_ns_ : 0);
    }
  }
  AdvanceClock(step);
  const std::lock_guard lock(mutex_);
  return ready_.empty() ? WaitOutcome::kTimeout : WaitOutcome::kEvents;
}

Result<FileInfo> ReplayBackend::Resolve(uint64_t file, std::string* path) {
  const std::lock_guard lock(mutex_);
  const File* f = Find(file);
  if (f == nullptr) return Stale(file);
  if (path != nullptr) *path = f->path;
  return f->info;
}

Result<FileInfo> ReplayBackend::Lookup(const std::string& path) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, file] : files_) {
    if (file.path == path) return file.info;
  }
  return PosixError("look up " + path, ENOENT);
}

Result<LoadResult> ReplayBackend::Load(const LoadRequest& request) {
  std::function<void(const LoadRequest&)> hook;
  {
    const std::lock_guard lock(mutex_);
    hook = on_load_;
  }
  if (hook) hook(request);
  if (cancels_next_.exchange(false)) return LoadResult{.stop = LoadStop::kCancelled};
  const std::lock_guard lock(mutex_);
  if (gone_) return PosixError("load", ENODEV);
  File* file = Find(request.file);
  if (file == nullptr) return Stale(request.file);
  LoadResult result;
  const uint64_t size = file->pages.size() * kPageBytes;
  const uint64_t end = std::min(request.offset + request.length, size);
  uint64_t at = request.offset;
  while (at < end) {
    if (request.IsInterrupted()) {
      result.stop = LoadStop::kCancelled;
      return result;
    }
    const uint64_t step_end = std::min(end, (at / kStepBytes + 1) * kStepBytes);
    uint64_t absent = 0;
    for (; at < step_end; at += kPageBytes, result.done += kPageBytes) {
      if (file->pages[at / kPageBytes] != kAbsent) {
        result.resident += kPageBytes;
        continue;
      }
      absent += kPageBytes;
      if (!file->fails) AddPage(file, at / kPageBytes, request.node);
    }
    result.submitted += absent;
    (file->fails ? result.failed : result.loaded) += absent;
    if (absent > 0) {
      const uint64_t finished = UseDisk(absent);
      if (options_.loads_take_time) now_ns_ = std::max(now_ns_.load(), finished);
    }
    Reclaim();
  }
  if (request.offset + request.length > size) result.stop = LoadStop::kEof;
  return result;
}

Result<EvictResult> ReplayBackend::Evict(const EvictRequest& request) {
  const std::lock_guard lock(mutex_);
  if (gone_) return PosixError("evict", ENODEV);
  File* file = Find(request.file);
  if (file == nullptr) return Stale(request.file);
  EvictResult result;
  const uint64_t end =
      std::min<uint64_t>((request.offset + request.length) / kPageBytes, file->pages.size());
  for (uint64_t page = (request.offset + kPageBytes - 1) / kPageBytes; page < end; ++page) {
    if (file->pages[page] == kAbsent) continue;
    result.asked += kPageBytes;
    if (file->mapped && !request.unmap) {
      result.mapped += kPageBytes;
    } else {
      DropPage(file, page);
      result.dropped += kPageBytes;
    }
  }
  return result;
}

Result<Residency> ReplayBackend::Resident(uint64_t file_id, uint64_t offset, uint64_t length,
                                          std::span<uint8_t> bitmap) {
  const std::lock_guard lock(mutex_);
  File* file = Find(file_id);
  if (file == nullptr) return Stale(file_id);
  const uint64_t first = offset / kPageBytes;
  const uint64_t end =
      length == 0
          ? file->pages.size()
          : std::min<uint64_t>((offset + length + kPageBytes - 1) / kPageBytes, file->pages.size());
  Residency out;
  std::fill(bitmap.begin(), bitmap.end(), uint8_t{0});
  for (uint64_t page = first; page < end; ++page) {
    if (file->pages[page] == kAbsent) continue;
    out.resident += kPageBytes;
    out.node[file->pages[page]] += kPageBytes;
    if (file->mapped) out.mapped += kPageBytes;
    const uint64_t bit = page - first;
    if (bit / 8 < bitmap.size()) bitmap[bit / 8] |= static_cast<uint8_t>(1u << (bit % 8));
  }
  return out;
}

Result<uint32_t> ReplayBackend::Charge(int) {
  const std::lock_guard lock(mutex_);
  if (!options_.caps.charge) return PosixError("charge a cgroup", EOPNOTSUPP);
  return ++next_charge_;
}

Status ReplayBackend::SetFileNative(uint64_t file_id, bool native) {
  const std::lock_guard lock(mutex_);
  File* file = Find(file_id);
  if (file == nullptr) return Stale(file_id);
  file->native = native;
  return Ok();
}

Result<size_t> ReplayBackend::Read(const std::string& path, uint64_t offset,
                                   std::span<uint8_t> buffer) {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, file] : files_) {
    if (file.path != path) continue;
    if (offset >= file.content.size()) return size_t{0};
    const size_t count = std::min<size_t>(buffer.size(), file.content.size() - offset);
    std::copy_n(file.content.begin() + static_cast<std::ptrdiff_t>(offset), count, buffer.begin());
    return count;
  }
  return PosixError("open " + path, ENOENT);
}

Result<BackendCounters> ReplayBackend::Counters() {
  const std::lock_guard lock(mutex_);
  if (gone_) return PosixError("counters", ENODEV);
  return BackendCounters{.events_queued = events_queued_,
                         .attached = attached_,
                         .expired = expired_,
                         .window_bytes = options_.window_bytes,
                         .beacon_bytes = options_.beacon_bytes};
}

MemoryReading ReplayBackend::Read(bool) {
  const std::lock_guard lock(mutex_);
  MemoryReading reading;
  reading.limit = options_.memory_limit;
  reading.cache = resident_pages_ * kPageBytes;
  reading.used = memory_other_ + reading.cache;
  reading.threshold =
      static_cast<uint64_t>(static_cast<double>(reading.limit) * options_.memory_share);
  reading.is_cgroup = true;
  return reading;
}

}  // namespace ppc
