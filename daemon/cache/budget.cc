// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/budget.h"

#include <algorithm>

#include "daemon/backend/backend.h"

namespace ppc {

bool Budget::IsKnown(uint64_t now_ns, uint64_t age_ns) const {
  const std::lock_guard lock(mutex_);
  return has_reading_ && now_ns < read_ns_ + age_ns;
}

void Budget::Refresh(uint64_t now_ns) {
  if (is_reading_.exchange(true, std::memory_order_acq_rel)) return;
  uint64_t settled = 0;
  {
    const std::lock_guard lock(mutex_);
    settled = settled_;
  }
  const MemoryReading reading = Look(false);
  {
    const std::lock_guard lock(mutex_);
    reading_ = reading;
    settled_before_ = settled;
    read_ns_ = now_ns;
    has_reading_ = true;
  }
  is_reading_.store(false, std::memory_order_release);
}

uint64_t Budget::Reserve(uint64_t bytes, bool is_waited) {
  constexpr uint64_t kInflightShare = 8;
  const std::lock_guard lock(mutex_);
  const uint64_t taken = inflight_ + settled_ - settled_before_;
  const uint64_t room = reading_.Room() > taken ? reading_.Room() - taken : 0;
  const uint64_t free = is_waited ? bytes : room;
  const uint64_t most = std::max(reading_.threshold / kInflightShare, kStepBytes);
  uint64_t grant = std::min({bytes, free, most > inflight_ ? most - inflight_ : 0});
  if (grant < bytes) grant = grant / kStepBytes * kStepBytes;
  inflight_ += grant;
  return grant;
}

void Budget::Release(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  inflight_ -= bytes;
  settled_ += bytes;
}

bool Budget::IsAbove() {
  const MemoryReading memory = Look(false);
  return memory.used > memory.threshold;
}

void Budget::NoteDropped(uint64_t bytes) { dropped_.fetch_add(bytes, std::memory_order_relaxed); }

Budget::State Budget::Now(const State& look) const {
  State now = look;
  const std::lock_guard lock(mutex_);
  const uint64_t gone = dropped_ - look.dropped;
  now.memory.used -= std::min(now.memory.used, gone);
  now.memory.cache -= std::min(now.memory.cache, gone);
  const uint64_t taken = inflight_ + settled_ - look.settled;
  const uint64_t room = now.memory.Room();
  now.room = room > taken ? room - taken : 0;
  return now;
}

Budget::State Budget::Read(bool with_cache) {
  State state;
  state.settled = settled_.load(std::memory_order_relaxed);
  state.dropped = dropped_.load(std::memory_order_relaxed);
  state.memory = Look(with_cache);
  state.inflight = Inflight();
  const uint64_t room = state.memory.Room();
  state.room = room > state.inflight ? room - state.inflight : 0;
  return state;
}

}  // namespace ppc
