// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/cache_look.h"

#include <algorithm>

namespace ppc {

bool CacheLook::IsBound() const {
  const auto& services = parts_.services->Active();
  return std::any_of(services.begin(), services.end(), [this](Service* service) {
    const MemoryReading& memory = parts_.services->Memory(service, 0).memory;
    return memory.is_estimate && memory.Room() < chunk_bytes_;
  });
}

void CacheLook::RefreshIfBound() {
  if (IsBound()) Begin();
}

bool CacheLook::IsKnown() {
  constexpr uint64_t kLookedNs = 10'000'000'000;
  constexpr uint64_t kReadNs = 10'000'000;
  const uint64_t now = parts_.backend->NowNs();
  const uint64_t looked = state_->ended_ns.load(std::memory_order_acquire);
  if (now < known_until_ns_ || (looked != 0 && now < looked + kLookedNs)) return true;
  if (IsBound()) {
    Begin();
    return false;
  }
  known_until_ns_ = now + kReadNs;
  return true;
}

void CacheLook::Begin() {
  if (state_->runs.exchange(true, std::memory_order_acq_rel)) return;
  // On the evictor's thread: walking the page cache of a large model takes a while.
  parts_.evictor->Post([state = state_, parts = parts_] {
    uint64_t resident = 0;
    for (const uint64_t file : parts.files->Files()) {
      const Result<Residency> found = parts.backend->Resident(file, 0, 0, {});
      if (found) resident += found->resident;
    }
    parts.own_cache->store(resident, std::memory_order_relaxed);
    state->ended_ns.store(parts.backend->NowNs(), std::memory_order_release);
    state->runs.store(false, std::memory_order_release);
  });
}

}  // namespace ppc
