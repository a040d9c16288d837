// SPDX-License-Identifier: Apache-2.0
// Owns the steps: taking a chunk from the queue within the budget, loading it step by step,
// interrupting it, reporting it.
#include <algorithm>
#include <utility>

#include "daemon/cache/loader_pool.h"
#include "daemon/machine/mem_policy.h"

namespace ppc {

// `lock` is of mutex_; it is let go while the kernel is asked, which may take long.
LoaderPool::Found LoaderPool::Take(LoadWorker* worker, std::unique_lock<std::mutex>* lock) {
  worker->looked.clear();
  while (!stopping_) {
    std::shared_ptr<Payer> unknown;
    const Found found = TakeKnown(worker, &unknown);
    if (unknown == nullptr) return found;
    lock->unlock();
    const uint64_t now = backend_->NowNs();
    LoadAdmission::Look(unknown.get(), now);
    lock->lock();
    // Not if there is more room than was seen.
    if (now >= kicked_ns_) worker->looked.push_back(unknown.get());
  }
  return Found::kNothing;
}

// mutex_ held.
LoaderPool::Found LoaderPool::TakeKnown(LoadWorker* worker, std::shared_ptr<Payer>* unknown) {
  if (!queue_.HasFor(worker->node, layout_.TakesAny(worker->node))) return Found::kNothing;
  const uint64_t now = backend_->NowNs();
  const int allowed = governor_.Allowed(now);
  const bool is_beyond = static_cast<int>(worker->index) >= allowed;
  // While the others are held back, who is for small items has as few.
  const bool is_held =
      worker->is_for_small ? allowed < static_cast<int>(workers_.size()) : busy_ >= allowed;
  if (is_beyond && is_held) return Found::kNoRoom;
  LoadAdmission::Choice choice = admission_.Choose(*worker, !small_workers_.empty(), now);
  *unknown = std::move(choice.unknown);
  if (choice.found != Found::kItem) return choice.found;
  worker->chunk.emplace(*choice.item, choice.bytes);
  queue_.Advance(choice.item, choice.bytes);
  inflight_ += choice.bytes;
  ++(worker->is_for_small ? small_busy_ : busy_);
  ++stats_.chunks;
  return Found::kItem;
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
