// SPDX-License-Identifier: Apache-2.0
#include "extras/poll/watched_process.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <set>
#include <utility>
#include <vector>

#include "daemon/backend/backend.h"

namespace ppc {
namespace {

constexpr uint64_t kChunkPages = MapScan::kChunkBytes / kPageBytes;
constexpr uint64_t kUnitPages = MapScan::kUnitBytes / kPageBytes;

}  // namespace

WatchedProcess::WatchedProcess(const SysRoots& roots, int pid, uint64_t start_ns,
                               PolledFiles* files, EventSink* sink, uint32_t* next_open_id)
    : view_(roots, pid),
      start_ns_(start_ns),
      files_(files),
      sink_(sink),
      next_open_id_(next_open_id) {}

// ----------------------------------------------------------------------- files

bool WatchedProcess::LookAtFiles() {
  const bool fds = LookAtFds();
  return LookAtMaps() || fds;
}

bool WatchedProcess::LookAtFds() {
  bool changed = false;
  std::map<int, Open> now;
  for (ProcFd& found : view_.Files()) {
    const auto known = open_.find(found.fd);
    if (known != open_.end() && known->second.path == found.path) {
      now.insert(open_.extract(known));
      continue;
    }
    const Result<FileStat> stat = StatFile(AT_FDCWD, view_.FdPath(found.fd));
    const uint64_t file = stat ? files_->Find(*stat, found.path) : 0;
    if (file == 0) continue;
    changed = true;
    const Open open{file, ++*next_open_id_, std::move(found.path), 0};
    sink_->Opened(Who(view_.pid(), open.id), file);
    now.emplace(found.fd, open);
  }
  for (const auto& [fd, gone] : open_) {
    changed = true;
    sink_->Closed(Who(view_.pid(), gone.id), gone.file);
    std::erase_if(threads_, [fd = fd](const auto& entry) { return entry.second.fd == fd; });
  }
  open_ = std::move(now);
  return changed;
}

bool WatchedProcess::LookAtMaps() {
  const std::optional<ProcView::Size> size = view_.MappedSize();
  // Reading the list costs time by its length: only if the address space has changed.
  if (!size || size->total == size_at_maps_.total) return false;
  size_at_maps_ = *size;
  bool changed = false;
  std::map<std::pair<uint64_t, uint64_t>, Map> now;
  const auto below = [this](const std::string& path) { return files_->IsBelowRoot(path); };
  for (const ProcMap& found : view_.Maps(below)) {
    if (now.size() >= kMaxMaps) break;
    const Result<FileStat> stat = StatFile(AT_FDCWD, found.path);
    const uint64_t file = stat ? files_->Find(*stat, found.path) : 0;
    if (file == 0) continue;
    const std::pair<uint64_t, uint64_t> key{found.start, found.offset};
    const auto known = maps_.find(key);
    if (known != maps_.end() && known->second.file == file &&
        known->second.scan.end() == found.end) {
      now.insert(maps_.extract(known));
      continue;
    }
    changed = true;
    const Map map{file, ++*next_open_id_,
                  MapScan(found.start, found.offset, found.end - found.start)};
    sink_->Opened(Who(view_.pid(), map.id), file);
    now.emplace(key, map);
  }
  for (const auto& [key, gone] : maps_) {
    changed = true;
    sink_->Closed(Who(view_.pid(), gone.id), gone.file);
  }
  maps_ = std::move(now);
  return changed;
}

void WatchedProcess::End() {
  for (const auto& [fd, open] : open_) sink_->Closed(Who(view_.pid(), open.id), open.file);
  for (const auto& [key, map] : maps_) sink_->Closed(Who(view_.pid(), map.id), map.file);
  open_.clear();
  maps_.clear();
}

// ------------------------------------------------------------------------- use

bool WatchedProcess::LookAtUse(uint64_t chunks) {
  bool any = false;
  if (!open_.empty()) {
    any |= LookAtPositions();
    const std::vector<int> tids = view_.Threads();
    const std::set<int> alive(tids.begin(), tids.end());
    std::erase_if(threads_, [&alive](const auto& entry) { return !alive.contains(entry.first); });
    for (size_t i = 0; i < std::min(tids.size(), kMaxThreads); ++i)
      any |= LookAtThread(tids[(next_thread_ + i) % tids.size()]);
    next_thread_ += kMaxThreads;
  } else {
    has_looked_ = false;
  }
  if (maps_.empty()) return any;
  const std::optional<ProcView::Size> size = view_.MappedSize();
  if (!size) return any;
  if (*size != size_at_scan_) {
    // Until all of the largest mapping has been probed: the change may lie anywhere.
    uint64_t chunks_of_largest = 0;
    for (const auto& [key, map] : maps_)
      chunks_of_largest = std::max(chunks_of_largest, map.scan.Chunks());
    scans_due_ = std::min(chunks_of_largest / MapScan::kProbes + 2, kMostScans);
    size_at_scan_ = *size;
  }
  // The count is exact only at times, so look every few times even without a change.
  if (scans_due_ == 0 && ++idle_scans_ < kBlindScans) return any;
  idle_scans_ = 0;
  if (scans_due_ > 0) --scans_due_;
  any |= scans_due_ > 0;
  const UniqueFd pagemap = view_.OpenPagemap();
  if (!pagemap.IsValid()) return any;
  next_map_ %= maps_.size();
  auto at = std::next(maps_.begin(), static_cast<long>(next_map_));
  for (size_t i = 0; i < maps_.size() && chunks > 0; ++i) {
    Map& map = at->second;
    any |= map.scan.Scan(pagemap.Get(), &chunks, [&](uint64_t offset, uint64_t length) {
      sink_->Mapped(Who(view_.pid(), map.id), map.file, offset, length);
    });
    ++next_map_;
    if (++at == maps_.end()) at = maps_.begin();
  }
  return any;
}

// read(2) moves a descriptor's position; so does lseek(2), which returns no bytes.  A read is
// counted before it moves the position (readv(2) after), so the count is read last, and counted
// bytes without a position may get one at the next look.
bool WatchedProcess::LookAtPositions() {
  // Bytes read before the first look may belong to any open file.
  if (!has_looked_) counted_ = unshown_ = view_.ReadBytes().value_or(0);
  std::vector<std::pair<Open*, uint64_t>> moved;  // and its old position
  for (auto& [fd, open] : open_) {
    const std::optional<uint64_t> position = view_.Position(fd);
    if (!position || *position == open.position) continue;
    moved.emplace_back(&open, std::exchange(open.position, *position));
    std::erase_if(threads_, [fd = fd](const auto& entry) { return entry.second.fd == fd; });
  }
  const std::optional<uint64_t> count = view_.ReadBytes();
  const uint64_t now = count ? *count - std::min(counted_, *count) : 0;
  uint64_t returned = count ? now + unshown_ : ~uint64_t{0};
  bool has_sought = false;
  for (const auto& [open, before] : moved) {
    if (open->position <= before || open->position - before > returned) {
      has_sought = true;
      continue;
    }
    returned -= open->position - before;
    sink_->HasRead(Who(view_.pid(), open->id), open->file, before, open->position - before);
  }
  // A reader that seeks and reads has moved by the remaining bytes, which are thus reported.
  unshown_ = has_sought ? 0 : std::min(returned, now);
  if (count) counted_ = *count;
  has_looked_ = count.has_value();
  return !moved.empty();
}

bool WatchedProcess::LookAtThread(int tid) {
  Thread* thread = &threads_[tid];
  bool any = Follow(tid, thread);
  const std::optional<ProcRead> read = view_.WaitingRead(tid, &is_denied_);
  if (read && open_.contains(read->fd)) any |= Wait(tid, thread, *read);
  return any;
}

// Bytes that the thread's reads have returned since the last look.
bool WatchedProcess::Follow(int tid, Thread* thread) {
  const std::optional<uint64_t> count = view_.ReadBytes(tid);
  if (!count) return false;
  const uint64_t before = std::exchange(thread->read_bytes, *count);
  if (!thread->is_pread || *count <= before) return false;
  const auto open = open_.find(thread->fd);
  if (open == open_.end()) return false;
  const uint64_t size = files_->SizeOf(open->second.file);
  const uint64_t length = std::min(*count - before, size - std::min(size, thread->next));
  if (length == 0) return false;
  sink_->HasRead(Who(tid, open->second.id), open->second.file, thread->next, length);
  thread->next += length;
  thread->is_told = false;
  return true;
}

bool WatchedProcess::Wait(int tid, Thread* thread, const ProcRead& read) {
  const Open& open = open_[read.fd];
  const uint64_t offset = read.has_offset ? read.offset : open.position;
  if (thread->fd == read.fd && thread->next == offset && thread->is_told) return false;
  thread->fd = read.fd;
  thread->next = offset;
  thread->is_told = true;
  // For read(2) the descriptor's position tells where it continues.
  thread->is_pread = read.has_offset;
  const uint64_t length = read.length != 0 ? read.length : EventSink::kWindowBytes;
  sink_->Blocked(Who(tid, open.id), open.file, offset, length);
  return true;
}

void WatchedProcess::AddMapped(uint64_t file, uint64_t offset, uint64_t length,
                               std::vector<bool>* bits) const {
  UniqueFd pagemap;
  for (const auto& [key, map] : maps_) {
    if (map.file != file) continue;
    if (!pagemap.IsValid()) pagemap = view_.OpenPagemap();
    if (!pagemap.IsValid()) return;
    map.scan.AddMapped(pagemap.Get(), offset, length, bits);
  }
}

MapScan::MapScan(uint64_t start, uint64_t offset, uint64_t length)
    : start_(start),
      offset_(offset),
      length_(length),
      seen_((length + kChunkBytes - 1) / kChunkBytes, 0),
      fronts_{0} {
  // Units beyond the mapping's end count as seen, so that the last chunk can be full.
  const uint64_t rest = length % kChunkBytes;
  if (rest != 0) {
    const uint64_t units = (rest + kUnitBytes - 1) / kUnitBytes;
    if (units < 64) seen_.back() = ~uint64_t{0} << units;
  }
}

// Reports new pages of a chunk; returns their units.
uint64_t MapScan::Look(int pagemap, uint64_t chunk, const Found& found) {
  const uint64_t at = chunk * kChunkBytes;
  const uint64_t pages = std::min(kChunkPages, (length_ - at + kPageBytes - 1) / kPageBytes);
  std::array<uint64_t, kChunkPages> entries;
  const size_t got = ReadPagemap(pagemap, start_ + at, std::span(entries.data(), pages));
  uint64_t units = 0;
  for (size_t page = 0; page < got; ++page) {
    if (IsPagePresent(entries[page])) units |= uint64_t{1} << (page / kUnitPages);
  }
  const uint64_t fresh = units & ~seen_[chunk];
  seen_[chunk] |= units;
  for (uint64_t left = fresh; left != 0;) {
    const auto first = static_cast<uint64_t>(std::countr_zero(left));
    const auto count = static_cast<uint64_t>(std::countr_one(left >> first));
    const uint64_t from = at + first * kUnitBytes;
    found(offset_ + from, std::min(count * kUnitBytes, length_ - from));
    left = first + count >= 64 ? 0 : left >> (first + count) << (first + count);
  }
  return fresh;
}

// Continues from a front while new pages come within kAhead chunks.
bool MapScan::Follow(int pagemap, uint64_t* front, uint64_t* chunks, const Found& found) {
  bool any = false;
  uint64_t empty = 0;
  for (uint64_t chunk = *front; chunk < seen_.size() && empty <= kAhead && *chunks > 0; ++chunk) {
    if (IsFull(chunk)) {
      if (chunk == *front && chunk + 1 < seen_.size()) ++*front;
      continue;
    }
    --*chunks;
    if (Look(pagemap, chunk, found) == 0) {
      ++empty;
      continue;
    }
    any = true;
    empty = 0;
    *front = chunk;
  }
  return any;
}

bool MapScan::Probe(int pagemap, uint64_t* chunks, const Found& found) {
  bool any = false;
  // Probes in strides from a moving start: neighbours mostly look alike.
  const uint64_t stride = seen_.size() / 8 + 1;
  for (uint64_t i = 0, probed = 0; i < seen_.size() && probed<kProbes&& * chunks> 0; ++i) {
    probe_ += stride;
    if (probe_ >= seen_.size()) probe_ = std::min(++phase_ % stride, seen_.size() - 1);
    if (IsFull(probe_)) continue;
    ++probed;
    --*chunks;
    if (Look(pagemap, probe_, found) == 0) continue;
    any = true;
    const bool is_known = std::any_of(fronts_.begin(), fronts_.end(), [this](uint64_t front) {
      return probe_ + kAhead >= front && probe_ <= front + kAhead;
    });
    if (is_known) continue;
    if (fronts_.size() < kMaxFronts) {
      fronts_.push_back(probe_);
    } else {
      fronts_[next_front_++ % kMaxFronts] = probe_;
    }
  }
  return any;
}

bool MapScan::Scan(int pagemap, uint64_t* chunks, const Found& found) {
  bool any = false;
  for (uint64_t& front : fronts_) any |= Follow(pagemap, &front, chunks, found);
  any |= Probe(pagemap, chunks, found);
  return any;
}

void MapScan::AddMapped(int pagemap, uint64_t offset, uint64_t length,
                        std::vector<bool>* bits) const {
  const uint64_t first = std::max(offset, offset_);
  const uint64_t last = std::min(offset + length, offset_ + length_);
  std::array<uint64_t, kChunkPages> entries;
  for (uint64_t at = first; at < last;) {
    const uint64_t pages = std::min((last - at + kPageBytes - 1) / kPageBytes, kChunkPages);
    const size_t got =
        ReadPagemap(pagemap, start_ + (at - offset_), std::span(entries.data(), pages));
    for (size_t page = 0; page < got; ++page) {
      const size_t bit = (at - offset) / kPageBytes + page;
      if (IsFilePage(entries[page]) && bit < bits->size()) (*bits)[bit] = true;
    }
    at += pages * kPageBytes;
  }
}

}  // namespace ppc
