// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/load_admission.h"

#include <algorithm>

namespace ppc {

LoadAdmission::LoadAdmission(LoadQueue* queue, const LoaderLayout* layout,
                             const StepTimes* step_times, uint64_t chunk_bytes,
                             uint64_t memory_age_ns)
    : queue_(queue),
      layout_(layout),
      step_times_(step_times),
      chunk_bytes_(chunk_bytes),
      memory_age_ns_(memory_age_ns) {}

LoadAdmission::Choice LoadAdmission::Choose(const LoaderThread& loader, bool has_small,
                                            uint64_t now_ns) {
  Choice choice;
  bool has_work = false;
  // A payer without room must not hold up the others.
  const auto may_be_loaded = [&](const LoadItem* front) {
    if (choice.unknown != nullptr) return false;
    // Each to its own, if there are two kinds.
    const bool is_small = front->is_small && has_small;
    if (is_small != loader.is_for_small) return false;
    has_work = true;
    if (now_ns < queue_->RestUntil(front->slot)) return false;
    if (!step_times_->MayLoad(loader, front->payer.get(), now_ns)) return false;
    // Chunks end at multiples of their size, so that large folios are not cut.
    choice.bytes = std::min(front->size, chunk_bytes_ - front->offset % chunk_bytes_);
    if (front->payer == nullptr) return true;
    Payer* const payer = front->payer.get();
    const bool has_looked = std::ranges::find(loader.looked, payer) != loader.looked.end();
    if ((has_looked || IsKnown(payer, now_ns)) &&
        Grant(payer, now_ns, front->is_waited, &choice.bytes))
      return true;
    // "No room" must be a fresh reading, because the loader sleeps on it.
    if (!has_looked) choice.unknown = front->payer;
    return false;
  };
  for (const int node : {loader.node, -1}) {
    if (node < 0 && !layout_->TakesAny(loader.node)) break;
    choice.item = queue_->Next(node, now_ns, may_be_loaded);
    if (choice.item == nullptr) continue;
    choice.found = Found::kItem;
    return choice;
  }
  choice.found = has_work ? Found::kNoRoom : Found::kNothing;
  return choice;
}

void LoadAdmission::Look(Payer* payer, uint64_t now_ns) {
  if (payer->rate && !payer->rate->IsKnown(now_ns)) payer->rate->Refresh(now_ns);
  if (payer->budget) payer->budget->Refresh(now_ns);
}

// Whether what is known of a payer's memory and read limits will do for a chunk.
bool LoadAdmission::IsKnown(Payer* payer, uint64_t now_ns) const {
  return (!payer->budget || payer->budget->IsKnown(now_ns, memory_age_ns_)) &&
         (!payer->rate || payer->rate->IsKnown(now_ns));
}

// Cuts *bytes to what the payer's memory and its cgroup's read limits allow now.
bool LoadAdmission::Grant(Payer* payer, uint64_t now_ns, bool is_waited, uint64_t* bytes) {
  if (payer->budget) {
    // The reading thread does not come back: nothing may be loaded blindly.
    if (!payer->budget->IsKnown(now_ns, kOldestMemoryNs)) return false;
    *bytes = payer->budget->Reserve(*bytes, is_waited);
  }
  if (*bytes == 0 || !payer->rate) return *bytes > 0;
  const uint64_t rated = payer->rate->Take(now_ns, *bytes);
  if (payer->budget) payer->budget->Release(*bytes - rated);
  *bytes = rated;
  return rated > 0;
}

}  // namespace ppc
