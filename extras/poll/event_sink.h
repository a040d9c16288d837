// SPDX-License-Identifier: Apache-2.0
// Owns turning the polling thread's observations into events of suitable size.
// Owns the bounded queue of these events to the executor, too.
// Threads: Set by any, the rest by the polling thread.
#ifndef PPC_EXTRAS_POLL_EVENT_SINK_H_
#define PPC_EXTRAS_POLL_EVENT_SINK_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <span>

#include "daemon/backend/backend.h"
#include "daemon/base/unique_fd.h"
#include "extras/poll/polled_files.h"

namespace ppc {

// Owns the bounded queue of events between the polling thread and the executor.  Events that do not
// fit are counted, and the next event reports the loss.
// Threads: any.
class EventQueue {
 public:
  explicit EventQueue(size_t max_events);

  void Push(Event event);
  size_t Drain(std::span<Event> batch);
  // Readable while there are events.
  int fd() const { return fd_.Get(); }

  struct Counters {
    uint64_t queued = 0;
    uint64_t lost = 0;
    uint64_t wakeups = 0;
  };
  Counters Count() const;

 private:
  const size_t max_events_;
  const UniqueFd fd_;
  mutable std::mutex mutex_;
  std::deque<Event> events_;
  Counters counters_;
  bool has_lost_ = false;
};

// The acting task.
struct Origin {
  int tgid = 0;
  int tid = 0;
  uint64_t start_ns = 0;
  uint32_t open_id = 0;
};

class EventSink {
 public:
  EventSink(PolledFiles* files, EventQueue* events) : files_(files), events_(events) {}

  void Set(const AttachOptions& options);
  AttachOptions Get() const;

  // Pages that are now in the process's page table.  Those that we did not load are reported as
  // misses: whether another process had cached them is unknown.
  void Mapped(const Origin& who, uint64_t file, uint64_t offset, uint64_t length);
  // A read that has returned.
  void HasRead(const Origin& who, uint64_t file, uint64_t offset, uint64_t length);
  // A read that waits for the disk.
  void Blocked(const Origin& who, uint64_t file, uint64_t offset, uint64_t length);
  void Opened(const Origin& who, uint64_t file) { OpenClose(EventKind::kOpen, who, file); }
  void Closed(const Origin& who, uint64_t file) { OpenClose(EventKind::kClose, who, file); }

  static constexpr uint64_t kBeaconBytes = 4 << 20;
  static constexpr uint64_t kWindowBytes = 1 << 20;

 private:
  void OpenClose(EventKind kind, const Origin& who, uint64_t file);
  void Pieces(const Origin& who, uint64_t file, uint64_t offset, uint64_t length, bool is_mapped);
  void Push(EventKind kind, uint8_t flags, const Origin& who, uint64_t file, uint64_t offset,
            uint64_t length);

  PolledFiles* const files_;
  EventQueue* const events_;
  mutable std::mutex mutex_;
  AttachOptions options_;
};

}  // namespace ppc

#endif  // PPC_EXTRAS_POLL_EVENT_SINK_H_
