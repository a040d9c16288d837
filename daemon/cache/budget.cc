// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/budget.h"

#include <algorithm>

#include "daemon/backend/backend.h"

namespace ppc {

uint64_t Budget::Reserve(uint64_t bytes) {
  constexpr uint64_t kInflightShare = 8;
  const MemoryReading memory = source_->Read(false);
  uint64_t inflight = inflight_.load(std::memory_order_relaxed);
  while (true) {
    const uint64_t free = memory.Room() > inflight ? memory.Room() - inflight : 0;
    const uint64_t most = std::max(memory.threshold / kInflightShare, kStepBytes);
    uint64_t grant = std::min({bytes, free, most > inflight ? most - inflight : 0});
    if (grant < bytes) grant = grant / kStepBytes * kStepBytes;
    if (grant == 0) return 0;
    if (inflight_.compare_exchange_weak(inflight, inflight + grant, std::memory_order_relaxed)) {
      return grant;
    }
  }
}

void Budget::Release(uint64_t bytes) { inflight_.fetch_sub(bytes, std::memory_order_relaxed); }

bool Budget::IsAbove() {
  const MemoryReading memory = source_->Read(false);
  return memory.used > memory.threshold;
}

Budget::State Budget::Read(bool with_cache) {
  State state;
  state.memory = source_->Read(with_cache);
  state.inflight = inflight_.load(std::memory_order_relaxed);
  const uint64_t room = state.memory.Room();
  state.room = room > state.inflight ? room - state.inflight : 0;
  return state;
}

}  // namespace ppc
