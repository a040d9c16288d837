// SPDX-License-Identifier: Apache-2.0
#include "extras/poll/event_sink.h"

#include <sys/eventfd.h>

#include <algorithm>

#include "daemon/base/clock.h"

namespace ppc {

void EventSink::Set(const AttachOptions& options) {
  const std::lock_guard lock(mutex_);
  const AttachOptions before = options_;
  options_ = options;
  // 0 = keep.
  if (options.beacon_bytes == 0)
    options_.beacon_bytes = before.beacon_bytes != 0 ? before.beacon_bytes : kBeaconBytes;
  if (options.window_bytes == 0)
    options_.window_bytes = before.window_bytes != 0 ? before.window_bytes : kWindowBytes;
}

AttachOptions EventSink::Get() const {
  const std::lock_guard lock(mutex_);
  return options_;
}

void EventSink::Push(EventKind kind, uint8_t flags, const Origin& who, uint64_t file,
                     uint64_t offset, uint64_t length) {
  Event event;
  event.file = file;
  event.offset = offset;
  event.length = length;
  event.time_ns = MonotonicNs();
  event.start_ns = who.start_ns;
  event.open_id = who.open_id;
  event.tgid = who.tgid;
  event.tid = who.tid;
  event.kind = kind;
  event.flags = flags;
  events_->Push(event);
}

void EventSink::OpenClose(EventKind kind, const Origin& who, uint64_t file) {
  if (Get().open_close) Push(kind, 0, who, file, 0, 0);
}

void EventSink::Pieces(const Origin& who, uint64_t file, uint64_t offset, uint64_t length,
                       bool is_mapped) {
  const AttachOptions options = Get();
  const uint64_t size = files_->SizeOf(file);
  const uint64_t end = std::min((offset + length + kPageBytes - 1) / kPageBytes * kPageBytes,
                                (size + kPageBytes - 1) / kPageBytes * kPageBytes);
  const uint64_t beacon = std::max(options.beacon_bytes, kPageBytes);
  for (uint64_t at = offset / kPageBytes * kPageBytes; at < end;) {
    const uint64_t next = std::min((at / beacon + 1) * beacon, end);
    const uint64_t bytes = next - at;
    const bool hit = files_->PresentBytes(file, at, bytes) >= std::min(next, size) - at;
    const auto flags = static_cast<uint8_t>(is_mapped ? kEventMmap : 0);
    if (is_mapped && !hit) {
      Push(EventKind::kMissFault, flags, who, file, at, bytes);
    } else if (options.progress) {
      Push(EventKind::kProgress, flags, who, file, at, bytes);
    }
    if (options.trace) {
      const auto seen = static_cast<uint8_t>(flags | (hit ? kEventHit : 0));
      Push(EventKind::kAccess, seen, who, file, at, bytes);
    }
    at = next;
  }
  files_->MarkPresent(file, offset, length);
}

void EventSink::Mapped(const Origin& who, uint64_t file, uint64_t offset, uint64_t length) {
  Pieces(who, file, offset, length, /*is_mapped=*/true);
}

void EventSink::HasRead(const Origin& who, uint64_t file, uint64_t offset, uint64_t length) {
  Pieces(who, file, offset, length, /*is_mapped=*/false);
}

// The progress of a large read is unknown: only its beginning is reported.
void EventSink::Blocked(const Origin& who, uint64_t file, uint64_t offset, uint64_t length) {
  const uint64_t size = files_->SizeOf(file);
  if (offset >= size) return;
  const uint64_t first = offset / kPageBytes * kPageBytes;
  uint64_t end = std::min({offset + length, size, offset + Get().window_bytes});
  end = (end + kPageBytes - 1) / kPageBytes * kPageBytes;
  Push(EventKind::kMissRead, 0, who, file, first, std::max(end - first, kPageBytes));
}

EventQueue::EventQueue(size_t max_events)
    : max_events_(max_events), fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void EventQueue::Push(Event event) {
  const std::lock_guard lock(mutex_);
  if (events_.size() >= max_events_) {
    ++counters_.lost;
    has_lost_ = true;
    return;
  }
  if (has_lost_) event.flags |= kEventLost;
  has_lost_ = false;
  ++counters_.queued;
  events_.push_back(event);
  if (events_.size() > 1) return;
  ++counters_.wakeups;
  (void)eventfd_write(fd_.Get(), 1);
}

size_t EventQueue::Drain(std::span<Event> batch) {
  const std::lock_guard lock(mutex_);
  const size_t count = std::min(batch.size(), events_.size());
  std::copy_n(events_.begin(), count, batch.begin());
  events_.erase(events_.begin(), events_.begin() + static_cast<long>(count));
  eventfd_t ignored = 0;
  if (events_.empty()) (void)eventfd_read(fd_.Get(), &ignored);
  return count;
}

EventQueue::Counters EventQueue::Count() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace ppc
