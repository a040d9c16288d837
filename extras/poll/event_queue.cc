// SPDX-License-Identifier: Apache-2.0
#include "extras/poll/event_queue.h"

#include <sys/eventfd.h>

#include <algorithm>

namespace ppc {

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
