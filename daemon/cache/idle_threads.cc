// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/idle_threads.h"

namespace ppc {

IdleThreads::IdleThreads(const LoadQueue* queue, const LoaderLayout* layout, uint64_t retry_ns)
    : queue_(queue),
      layout_(layout),
      retry_(retry_ns),
      places_(static_cast<size_t>(layout->Nodes())) {}

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
  Place& place = PlaceOf(loader.node);
  ++place.idle;
  if (has_no_room && !place.has_prober) {
    place.has_prober = true;
    place.wake.wait_for(*lock, retry_);
    place.has_prober = false;
  } else {
    place.wake.wait(*lock);
  }
  --place.idle;
}

void IdleThreads::WakeFor(int node) {
  if (node < 0 || node >= layout_->Nodes()) {
    // Where most wait, of those that take it.
    node = 0;
    for (int other = 1; other < layout_->Nodes(); ++other) {
      if (!layout_->TakesAny(other)) continue;
      if (!layout_->TakesAny(node) || PlaceOf(other).idle > PlaceOf(node).idle) node = other;
    }
  }
  if (PlaceOf(node).idle > 0) PlaceOf(node).wake.notify_one();
}

void IdleThreads::WakeWhereWorkIs() {
  for (int node = 0; node < layout_->Nodes(); ++node) {
    Place& place = PlaceOf(node);
    if (place.idle > 0 && queue_->HasFor(node, layout_->TakesAny(node))) place.wake.notify_one();
  }
  if (small_idle_ > 0 && queue_->Items() > 0) small_wake_.notify_one();
}

void IdleThreads::WakeAll() {
  for (Place& place : places_) place.wake.notify_all();
  small_wake_.notify_all();
}

}  // namespace ppc
