// SPDX-License-Identifier: Apache-2.0
// Owns the steps: taking a chunk from the queue within the budget, loading it step by step,
// interrupting it, reporting it.
#include <algorithm>
#include <utility>

#include "daemon/cache/loader_pool.h"
#include "daemon/machine/mem_policy.h"

namespace ppc {

// mutex_ held.  Whether what is known of a payer's memory and read limits will do for a chunk.
bool LoaderPool::IsKnown(Payer* payer, uint64_t now) const {
  // Driven by hand no time passes between two slices, whatever changed.
  const uint64_t age_ns = options_.manual ? 0 : kMemoryAgeNs;
  return (!payer->budget || payer->budget->IsKnown(now, age_ns)) &&
         (!payer->rate || payer->rate->IsKnown(now));
}

// mutex_ held.  Cuts *bytes to what the payer's memory and its cgroup's read limits allow now.
bool LoaderPool::Grant(Payer* payer, uint64_t now, uint64_t* bytes) {
  if (payer->budget) {
    // Whoever reads it does not come back: nothing may be loaded blindly.
    if (!payer->budget->IsKnown(now, kOldestMemoryNs)) return false;
    *bytes = payer->budget->Reserve(*bytes);
  }
  if (*bytes == 0 || !payer->rate) return *bytes > 0;
  const uint64_t rated = payer->rate->Take(now, *bytes);
  if (payer->budget) payer->budget->Release(*bytes - rated);
  *bytes = rated;
  return rated > 0;
}

// mutex_ held.  The next range that may be loaded now, the node's own first; *bytes of it are
// granted by its budget.  *unknown: the payer that must be looked at before anything is chosen.
LoaderPool::Took LoaderPool::Choose(Worker* worker, uint64_t now, LoadItem** chosen,
                                    uint64_t* bytes, std::shared_ptr<Payer>* unknown) {
  bool has_work = false;
  // A payer without room must not hold up the others.
  const auto may_be_loaded = [&](const LoadItem* front) {
    if (*unknown != nullptr) return false;
    // Each to its own, if there are two kinds.
    const bool is_small = front->is_small && !small_workers_.empty();
    if (is_small != worker->is_for_small) return false;
    has_work = true;
    if (now < queue_.RestUntil(front->slot)) return false;
    *bytes = std::min(front->size, options_.chunk_bytes);
    // Chunks end at multiples of their size, so that large folios are not cut.
    *bytes = std::min(*bytes, options_.chunk_bytes - front->offset % options_.chunk_bytes);
    if (front->payer == nullptr) return true;
    Payer* const payer = front->payer.get();
    const bool has_looked = std::ranges::find(worker->looked, payer) != worker->looked.end();
    if ((has_looked || IsKnown(payer, now)) && Grant(payer, now, bytes)) return true;
    // That there is no room must not be old: who believes it sleeps.
    if (!has_looked) *unknown = front->payer;
    return false;
  };
  for (const int node : {worker->node, -1}) {
    if (node < 0 && !layout_.TakesAny(worker->node)) break;
    *chosen = queue_.Next(node, now, may_be_loaded);
    if (*chosen != nullptr) return Took::kChunk;
  }
  return has_work ? Took::kNoRoom : Took::kNothing;
}

// `lock` is of mutex_; it is let go while the kernel is asked, which may take long.
LoaderPool::Took LoaderPool::Take(Worker* worker, std::unique_lock<std::mutex>* lock) {
  worker->looked.clear();
  while (!stopping_) {
    std::shared_ptr<Payer> unknown;
    const Took took = TakeKnown(worker, &unknown);
    if (unknown == nullptr) return took;
    lock->unlock();
    const uint64_t now = backend_->NowNs();
    if (unknown->rate && !unknown->rate->IsKnown(now)) unknown->rate->Refresh(now);
    if (unknown->budget) unknown->budget->Refresh(now);
    lock->lock();
    // Not if there is more room than was seen.
    if (now >= kicked_ns_) worker->looked.push_back(unknown.get());
  }
  return Took::kNothing;
}

// mutex_ held.
LoaderPool::Took LoaderPool::TakeKnown(Worker* worker, std::shared_ptr<Payer>* unknown) {
  if (!HasWorkFor(worker->node)) return Took::kNothing;
  const uint64_t now = backend_->NowNs();
  const int allowed = governor_.Allowed(now);
  const bool is_beyond = static_cast<int>(worker->index) >= allowed;
  // While the others are held back, who is for small items has as few.
  const bool is_held =
      worker->is_for_small ? allowed < static_cast<int>(workers_.size()) : busy_ >= allowed;
  if (is_beyond && is_held) return Took::kNoRoom;
  LoadItem* front = nullptr;
  uint64_t bytes = 0;
  const Took took = Choose(worker, now, &front, &bytes, unknown);
  if (took != Took::kChunk) return took;
  worker->chunk.emplace(*front, bytes);
  queue_.Advance(front, bytes);
  inflight_ += bytes;
  ++(worker->is_for_small ? small_busy_ : busy_);
  ++stats_.chunks;
  return Took::kChunk;
}

Interruption LoaderPool::Check(const Worker& worker, const LoadItem& rest) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return Interruption::kShutdown;
    if (queue_.Generation(rest.slot) != rest.generation) return Interruption::kGeneration;
    const int allowed = governor_.Allowed(backend_->NowNs());
    if (!worker.is_for_small && busy_ > allowed && static_cast<int>(worker.index) >= allowed) {
      return Interruption::kBandwidth;
    }
  }
  // Outside the lock: this asks the kernel.
  if (rest.payer && rest.payer->budget && rest.payer->budget->IsAbove()) {
    return Interruption::kMemory;
  }
  return Interruption::kNone;
}

// One step; false: the worker has no chunk any more.
bool LoaderPool::Slice(Worker* worker) {
  LoadChunk* const chunk = &*worker->chunk;
  Interruption reason = Check(*worker, chunk->Rest());
  if (reason == Interruption::kNone) reason = LoadStep(*worker, chunk);
  if (reason == Interruption::kNone && !chunk->IsOver()) return true;
  Finish(worker, reason);
  return false;
}

Interruption LoaderPool::LoadStep(const Worker& worker, LoadChunk* chunk) {
  const LoadItem& item = chunk->Rest();
  const uint64_t step = chunk->NextStep();
  const std::atomic<uint64_t>* newest = nullptr;
  const uint64_t start = backend_->NowNs();
  bool is_waited = false;
  {
    const std::lock_guard lock(mutex_);
    newest = queue_.Newest(item.slot);
    is_waited = queue_.IsPressed(item.slot, start);
  }
  // Before writers and what is loaded for services of which nobody waits.
  if (!options_.manual) SetIoPriority(is_waited ? IoPriority::kWaited : IoPriority::kAhead);
  const LoadRequest request{.file = item.file,
                            .offset = item.offset,
                            .length = step,
                            .charge = ChargeOf(item.payer),
                            .group = item.slot,
                            .generation = item.generation,
                            .newest = newest,
                            .is_small = item.is_small,
                            .node = worker.node};
  if (!item.is_small) {
    const std::lock_guard lock(mutex_);
    meter_.Begin(start);
  }
  const Result<LoadResult> loaded = backend_->Load(request);
  const uint64_t now = backend_->NowNs();
  if (!item.is_small) {
    const std::lock_guard lock(mutex_);
    meter_.End(now, loaded ? loaded->loaded : 0, now - start);
  }
  MindNeighbours(now);
  if (!loaded) return HandleError(chunk, loaded.error());
  // Before the budget gets it back: between the two nobody would count it.
  if (loaded->loaded > 0 && options_.on_loaded) options_.on_loaded(loaded->loaded);
  {
    const std::lock_guard lock(mutex_);
    const bool tells = loaded->loaded > 0 && !item.is_small;
    if (tells) governor_.OnLoaded(now, loaded->loaded, now - start);
    Account(item, *loaded);
    // Whatever the budget says: at once it would be the same again.
    if (loaded->stop == LoadStop::kNoMemory || loaded->stop == LoadStop::kLater) {
      queue_.RestUntil(item.slot) = now + options_.retry_ns;
    }
  }
  return chunk->EndStep(*loaded, step);
}

void LoaderPool::MindNeighbours(uint64_t now) {
  if (!options_.neighbours_wait || is_looking_.exchange(true, std::memory_order_acq_rel)) return;
  const bool wait = options_.neighbours_wait(now);
  is_looking_.store(false, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  stats_.neighbours_wait = wait;
  governor_.OnNeighbours(wait);
}

// mutex_ held.
void LoaderPool::Account(const LoadItem& item, const LoadResult& result) {
  stats_.loaded += result.loaded;
  stats_.resident += result.resident;
  stats_.failed += result.failed;
  if (item.node >= 0 && item.node < kMaxNodes) {
    stats_.node_loaded[static_cast<size_t>(item.node)] += result.loaded;
  } else {
    stats_.node_unknown += result.loaded;
  }
}

Interruption LoaderPool::HandleError(LoadChunk* chunk, const Error& error) {
  const uint64_t left = chunk->Rest().size;
  const Interruption reason = chunk->Fail(error);
  if (reason == Interruption::kNone) {
    const std::lock_guard lock(mutex_);
    stats_.failed += left;
  }
  return reason;
}

void LoaderPool::Finish(Worker* worker, Interruption reason) {
  LoadChunk chunk = std::move(*worker->chunk);
  worker->chunk.reset();
  chunk.GiveBack();
  const LoadItem& rest = chunk.Rest();
  {
    const std::lock_guard lock(mutex_);
    --(worker->is_for_small ? small_busy_ : busy_);
    if (reason != Interruption::kNone) ++stats_.interrupted[static_cast<size_t>(reason)];
    inflight_ -= chunk.Taken();
    queue_.GiveBack(rest, chunk.NotLoaded());
    // Replaced meanwhile: nobody wants the rest.
    if (IsPutBack(reason) && queue_.Generation(rest.slot) == rest.generation) queue_.PutBack(rest);
  }
  const std::optional<IoResult> report = chunk.Report(reason);
  if (report) completions_->Push(*report);
}

}  // namespace ppc
