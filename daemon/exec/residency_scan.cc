// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/residency_scan.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace ppc {

bool ResidencyScan::IsBound() const {
  const auto& services = parts_.services->Active();
  return std::any_of(services.begin(), services.end(), [this](Service* service) {
    const MemoryReading& memory = parts_.services->Memory(service, 0).memory;
    return memory.is_estimate && memory.Room() < chunk_bytes_;
  });
}

void ResidencyScan::RefreshIfBound() {
  if (IsBound()) Begin();
}

bool ResidencyScan::IsKnown() {
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

void ResidencyScan::Begin() {
  if (state_->runs.exchange(true, std::memory_order_acq_rel)) return;
  // On the evictor's thread: walking the page cache of a large model takes a while.
  parts_.evictor->Post([state = state_, parts = parts_] {
    const auto resident_of = [&parts](uint64_t file) {
      const Result<Residency> found = parts.backend->Resident(file, 0, 0, {});
      return found ? found->resident : 0;
    };
    // First: what is forgotten from here on is looked at the next time.
    std::vector<uint64_t> forgotten = parts.files->TakeForgotten();
    std::vector<uint64_t> known = parts.files->Files();
    uint64_t resident = 0;
    for (const uint64_t file : known) resident += resident_of(file);
    std::ranges::sort(known);
    // A file without pages is known again before it has some.
    std::erase_if(forgotten, [&](uint64_t file) {
      const uint64_t bytes = std::ranges::binary_search(known, file) ? 0 : resident_of(file);
      resident += bytes;
      return bytes == 0;
    });
    parts.files->KeepForgotten(forgotten);
    parts.own_cache->store(resident, std::memory_order_relaxed);
    state->ended_ns.store(parts.backend->NowNs(), std::memory_order_release);
    state->runs.store(false, std::memory_order_release);
  });
}

}  // namespace ppc
