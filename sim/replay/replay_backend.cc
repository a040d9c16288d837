// SPDX-License-Identifier: Apache-2.0
#include "sim/replay/replay_backend.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace ppc {
namespace {

uint64_t PagesOf(uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes; }

}  // namespace

ReplayBackend::ReplayBackend(ReplayOptions options)
    : options_(options), memory_other_(options.memory_other) {}

// ------------------------------------------------------------------ the world

void ReplayBackend::AddFile(uint64_t file, const std::string& path, uint64_t size,
                            std::string content) {
  const std::lock_guard lock(mutex_);
  File& f = files_[file];
  f.info.file = file;
  f.info.size = size;
  f.info.ino = file;
  f.path = path;
  f.content = std::move(content);
  f.pages.assign(PagesOf(size), kAbsent);
}

void ReplayBackend::AddLog(const EventLog& log) {
  for (const LoggedFile& file : log.files) AddFile(file.file, file.path, file.size);
  // Recorded times are kept as distances from the first event.
  const uint64_t first = log.events.empty() ? 0 : log.events.front().time_ns;
  for (Event event : log.events) {
    event.time_ns = event.time_ns - first + NowNs();
    Push(event);
  }
}

void ReplayBackend::Push(const Event& event) {
  const std::lock_guard lock(mutex_);
  if (event.time_ns > now_ns_) {
    future_.emplace(event.time_ns, event);
  } else {
    Happen(event);
  }
}

void ReplayBackend::MakeStale(uint64_t file) {
  const std::lock_guard lock(mutex_);
  files_.erase(file);
}

void ReplayBackend::SetIno(uint64_t file, uint64_t ino) {
  const std::lock_guard lock(mutex_);
  if (File* f = Find(file)) f->info.ino = ino;
}

void ReplayBackend::SetMapped(uint64_t file, bool mapped) {
  const std::lock_guard lock(mutex_);
  if (File* f = Find(file)) f->mapped = mapped;
}

void ReplayBackend::SetReadErrors(uint64_t file, bool fail) {
  const std::lock_guard lock(mutex_);
  if (File* f = Find(file)) f->fails = fail;
}

void ReplayBackend::SetMemoryOther(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  memory_other_ = bytes;
  Reclaim();
}

void ReplayBackend::Expire() {
  const std::lock_guard lock(mutex_);
  expired_ = true;
  attached_ = false;
}

void ReplayBackend::Unmount() {
  const std::lock_guard lock(mutex_);
  gone_ = true;
  attached_ = false;
}

void ReplayBackend::OnLoad(std::function<void(const LoadRequest&)> hook) {
  const std::lock_guard lock(mutex_);
  on_load_ = std::move(hook);
}

// -------------------------------------------------------------- what happened

uint64_t ReplayBackend::ResidentBytes(uint64_t file) const {
  const std::lock_guard lock(mutex_);
  const auto it = files_.find(file);
  return it == files_.end() ? 0 : it->second.resident_pages * kPageBytes;
}

uint64_t ReplayBackend::DiskReadBytes() const {
  const std::lock_guard lock(mutex_);
  return disk_read_bytes_;
}

uint64_t ReplayBackend::ReclaimedBytes() const {
  const std::lock_guard lock(mutex_);
  return reclaimed_pages_ * kPageBytes;
}

AttachOptions ReplayBackend::Attached() const {
  const std::lock_guard lock(mutex_);
  return attached_options_;
}

bool ReplayBackend::IsAttached() const {
  const std::lock_guard lock(mutex_);
  return attached_;
}

bool ReplayBackend::IsFileNative(uint64_t file) const {
  const std::lock_guard lock(mutex_);
  const auto it = files_.find(file);
  return it != files_.end() && it->second.native;
}

size_t ReplayBackend::PendingEvents() const {
  const std::lock_guard lock(mutex_);
  return ready_.size() + future_.size();
}

uint64_t ReplayBackend::LeaseRenewals() const {
  const std::lock_guard lock(mutex_);
  return lease_renewals_;
}

void ReplayBackend::AdvanceClock(uint64_t ns) {
  const std::lock_guard lock(mutex_);
  now_ns_ += ns;
  while (!future_.empty() && future_.begin()->first <= now_ns_) {
    const Event event = future_.begin()->second;
    future_.erase(future_.begin());
    Happen(event);
  }
}

// ------------------------------------------------------------ model, mutex_ held

ReplayBackend::File* ReplayBackend::Find(uint64_t file) {
  const auto it = files_.find(file);
  return it == files_.end() ? nullptr : &it->second;
}

void ReplayBackend::AddPage(File* file, uint64_t page, int node) {
  if (file->pages[page] != kAbsent) return;
  file->pages[page] = static_cast<int8_t>(std::max(node, 0));
  ++file->resident_pages;
  ++resident_pages_;
  loaded_order_.push_back(PageRef{file->info.file, page});
}

void ReplayBackend::DropPage(File* file, uint64_t page) {
  if (file->pages[page] == kAbsent) return;
  file->pages[page] = kAbsent;
  --file->resident_pages;
  --resident_pages_;
}

void ReplayBackend::Reclaim() {
  while (memory_other_ + resident_pages_ * kPageBytes > options_.memory_limit &&
         !loaded_order_.empty()) {
    const PageRef oldest = loaded_order_.front();
    loaded_order_.pop_front();
    File* file = Find(oldest.file);
    if (file == nullptr || file->pages[oldest.page] == kAbsent) continue;
    DropPage(file, oldest.page);
    ++reclaimed_pages_;
  }
}

uint64_t ReplayBackend::UseDisk(uint64_t bytes) {
  const double seconds =
      static_cast<double>(bytes) / static_cast<double>(options_.disk_bytes_per_sec);
  disk_free_ns_ = std::max(now_ns_.load(), disk_free_ns_) + options_.disk_latency_ns +
                  static_cast<uint64_t>(seconds * 1e9);
  disk_read_bytes_ += bytes;
  return disk_free_ns_;
}

void ReplayBackend::ReadOnDemand(File* file, uint64_t offset, uint64_t length) {
  const uint64_t window = attached_options_.managed_readahead ? options_.window_bytes : kPageBytes;
  const uint64_t first = offset / window * window / kPageBytes;
  const uint64_t end = std::min<uint64_t>((offset + length + window - 1) / window * window,
                                          file->pages.size() * kPageBytes);
  uint64_t absent = 0;
  for (uint64_t page = first; page < end / kPageBytes; ++page) {
    if (file->pages[page] != kAbsent) continue;
    AddPage(file, page, 0);
    ++absent;
  }
  if (absent > 0) UseDisk(absent * kPageBytes);
  Reclaim();
}

void ReplayBackend::Happen(const Event& event) {
  if (options_.derive_events && event.kind == EventKind::kAccess) {
    Derive(event);
    return;
  }
  File* file = Find(event.file);
  if (file != nullptr && IsMiss(event.kind)) ReadOnDemand(file, event.offset, event.length);
  if (!attached_) return;
  ready_.push_back(event);
  ++events_queued_;
}

void ReplayBackend::Derive(const Event& access) {
  File* file = Find(access.file);
  if (file == nullptr) return;
  const auto emit = [&](EventKind kind, uint64_t offset, uint64_t length, uint8_t flags) {
    Event event = access;
    event.kind = kind;
    event.offset = offset;
    event.length = length;
    event.flags = static_cast<uint8_t>((access.flags & kEventMmap) | flags);
    if (attached_) ready_.push_back(event);
    ++events_queued_;
  };
  const bool faults = (access.flags & kEventMmap) != 0;
  const uint64_t end =
      std::min<uint64_t>(PagesOf(access.offset + access.length), file->pages.size());
  bool hit = true;
  for (uint64_t page = access.offset / kPageBytes; page < end;) {
    const uint64_t start = page;
    while (page < end && file->pages[page] == kAbsent) ++page;
    if (page > start) {
      hit = false;
      emit(faults ? EventKind::kMissFault : EventKind::kMissRead, start * kPageBytes,
           (page - start) * kPageBytes, 0);
      ReadOnDemand(file, start * kPageBytes, (page - start) * kPageBytes);
    }
    while (page < end && file->pages[page] != kAbsent) ++page;
  }
  if (attached_options_.trace) {
    emit(EventKind::kAccess, access.offset, access.length, hit ? kEventHit : 0);
  }
  const uint64_t beacon =
      attached_options_.beacon_bytes != 0 ? attached_options_.beacon_bytes : options_.beacon_bytes;
  const uint64_t position = access.offset + access.length;
  if (attached_options_.progress && position / beacon != file->next_beacon) {
    file->next_beacon = position / beacon;
    emit(EventKind::kProgress, access.offset, access.length, hit ? kEventHit : 0);
  }
}

}  // namespace ppc
