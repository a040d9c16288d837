// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/idle_threads.h"

namespace ppc {

IdleThreads::IdleThreads(const LoadQueue* queue, const LoaderLayout* layout, uint64_t retry_ns)
    : queue_(queue),
      layout_(layout),
      retry_(retry_ns),
      waiters_(static_cast<size_t>(layout->Nodes())) {}

void IdleThreads::Wait(const LoaderThread& loader, bool has_no_room,
                       std::unique_lock<std::mutex>* lock) {
  if (loader.is_for_small) {
    ++small_idle_;
    if (has_no_room) {
      small_wake_.wait_for(*lock, retry_);
    } else {
      small_wake_.wait(*lock);
    }
    --small_idle_;
    return;
  }
  NodeWaiters& waiters = WaitersOf(loader.node);
  ++waiters.idle;
  if (has_no_room && !waiters.has_prober) {
    waiters.has_prober = true;
    waiters.wake.wait_for(*lock, retry_);
    waiters.has_prober = false;
  } else {
    waiters.wake.wait(*lock);
  }
  --waiters.idle;
}

void IdleThreads::WakeFor(int node) {
  if (node < 0 || node >= layout_->Nodes()) {
    // Where most wait, of those that take it.
    node = 0;
    for (int other = 1; other < layout_->Nodes(); ++other) {
      if (!layout_->TakesAny(other)) continue;
      if (!layout_->TakesAny(node) || WaitersOf(other).idle > WaitersOf(node).idle) node = other;
    }
  }
  if (WaitersOf(node).idle > 0) WaitersOf(node).wake.notify_one();
}

void IdleThreads::WakeWhereWorkIs() {
  for (int node = 0; node < layout_->Nodes(); ++node) {
    NodeWaiters& waiters = WaitersOf(node);
    if (waiters.idle > 0 && queue_->HasFor(node, layout_->TakesAny(node)))
      waiters.wake.notify_one();
  }
  if (small_idle_ > 0 && queue_->Items() > 0) small_wake_.notify_one();
}

void IdleThreads::WakeAll() {
  for (NodeWaiters& waiters : waiters_) waiters.wake.notify_all();
  small_wake_.notify_all();
}

}  // namespace ppc
