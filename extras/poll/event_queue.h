// SPDX-License-Identifier: Apache-2.0
// Owns the bounded queue of events between the polling thread and the executor.  Events that do not
// fit are counted, and the next event reports the loss.
// Threads: any.
#ifndef PPC_EXTRAS_POLL_EVENT_QUEUE_H_
#define PPC_EXTRAS_POLL_EVENT_QUEUE_H_

#include <cstdint>
#include <deque>
#include <mutex>
#include <span>

#include "daemon/backend/backend.h"
#include "daemon/base/unique_fd.h"

namespace ppc {

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

}  // namespace ppc

#endif  // PPC_EXTRAS_POLL_EVENT_QUEUE_H_
