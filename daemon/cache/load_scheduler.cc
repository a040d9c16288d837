// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/load_scheduler.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace ppc {
namespace {

// The result of an item that leaves the queue untried.
IoResult InterruptedOf(const LoadItem& item) {
  IoResult result = ResultOf(item);
  result.size = item.size;
  result.interrupted = true;
  return result;
}

}  // namespace

LoadScheduler::LoadScheduler(Backend* backend, const LoaderLayout* layout,
                             const LoaderOptions& options, Completions* completions,
                             std::function<int()> start_small)
    : backend_(backend),
      layout_(layout),
      options_(options),
      completions_(completions),
      start_small_(std::move(start_small)),
      queue_(layout->Nodes(), options_.max_items),
      step_times_(&queue_, *layout_, options_.small_loads),
      // Driven by hand no time passes between two slices, whatever changed.
      admission_(&queue_, layout_, &step_times_, options_.chunk_bytes,
                 options_.manual ? 0 : LoadAdmission::kMemoryAgeNs),
      idle_(&queue_, layout_, options_.retry_ns),
      governor_(options_.governor, Loaders()),
      small_loaders_(options_.manual ? options_.small_loads : 0) {}

// mutex_ held.
void LoadScheduler::ReplaceLocked(uint32_t slot) {
  uint64_t items = 0;
  uint64_t bytes = 0;
  queue_.Replace(slot, &items, &bytes);
  stats_.replaced += bytes;
  backend_->Interrupt(slot);
}

void LoadScheduler::Submit(std::span<LoadItem> items, bool replaces) {
  std::vector<IoResult> pushed_out;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    if (replaces) {
      std::set<uint32_t> slots;
      for (const LoadItem& item : items)
        slots.insert(queue_.SlotOf(ServiceOf(item.payer), item.group));
      for (const uint32_t slot : slots) ReplaceLocked(slot);
    }
    const bool has_small =
        options_.small_loads > 0 && std::ranges::any_of(items, &LoadItem::is_small);
    if (has_small && !options_.manual) small_loaders_ = start_small_();
    const uint64_t list = queue_.NewList();
    for (LoadItem& item : items) {
      std::optional<LoadItem> dropped;
      const bool has_node = item.node >= 0 && item.node < layout_->Nodes();
      if (has_node && !layout_->HasThreads(item.node)) item.node = -1;
      const uint64_t bytes = item.size;
      const int node = item.node;
      if (!queue_.Append(std::move(item), list, &dropped)) {
        stats_.refused += bytes;
        continue;
      }
      stats_.asked += bytes;
      if (dropped) {
        ++stats_.interrupted[static_cast<size_t>(Interruption::kQueue)];
        pushed_out.push_back(InterruptedOf(*dropped));
      }
      idle_.WakeFor(node);
    }
    if (has_small) idle_.WakeSmall();
  }
  for (const IoResult& result : pushed_out) completions_->Push(result);
}

void LoadScheduler::Interrupt(uint32_t service, uint32_t group) {
  const std::lock_guard lock(mutex_);
  ReplaceLocked(queue_.SlotOf(service, group));
}

void LoadScheduler::InterruptAll(uint32_t group) {
  const std::lock_guard lock(mutex_);
  for (const uint32_t slot : queue_.SlotsOfGroup(group)) ReplaceLocked(slot);
}

void LoadScheduler::Withdraw(uint32_t service) {
  std::vector<LoadItem> withdrawn;
  {
    const std::lock_guard lock(mutex_);
    for (const uint32_t slot : queue_.SlotsOfService(service)) queue_.Withdraw(slot, &withdrawn);
    stats_.interrupted[static_cast<size_t>(Interruption::kQueue)] += withdrawn.size();
  }
  for (const LoadItem& item : withdrawn) completions_->Push(InterruptedOf(item));
}

void LoadScheduler::EndService(uint32_t service) {
  const std::lock_guard lock(mutex_);
  for (const uint32_t slot : queue_.SlotsOfService(service)) ReplaceLocked(slot);
  queue_.Free(service);
}

void LoadScheduler::NoteDemand(uint64_t bytes) {
  const uint64_t now = backend_->NowNs();
  const std::lock_guard lock(mutex_);
  governor_.OnDemand(now, bytes);
}

void LoadScheduler::NoteMiss(uint32_t service) {
  const uint64_t now = backend_->NowNs();
  const std::lock_guard lock(mutex_);
  queue_.Boost(service, now + kMissedNs);
}

void LoadScheduler::WakeThreads() {
  const uint64_t now = backend_->NowNs();
  const std::lock_guard lock(mutex_);
  kicked_ns_ = std::max(kicked_ns_, now);
  idle_.WakeWhereWorkIs();
}

LoaderStats LoadScheduler::Stats() const {
  const std::lock_guard lock(mutex_);
  LoaderStats stats = stats_;
  stats.queued = queue_.Bytes();
  stats.inflight = inflight_;
  stats.threads = Loaders();
  stats.threads_allowed = governor_.LastAllowed();
  return stats;
}

DeviceSpeed LoadScheduler::Device() const {
  const std::lock_guard lock(mutex_);
  return meter_.Speed();
}

uint64_t LoadScheduler::Queued() const {
  const std::lock_guard lock(mutex_);
  return queue_.Bytes();
}

uint64_t LoadScheduler::QueuedOf(uint32_t service) const {
  const std::lock_guard lock(mutex_);
  return queue_.BytesOf(service);
}

bool LoadScheduler::IsIdle() const {
  const std::lock_guard lock(mutex_);
  return queue_.Items() == 0 && busy_ + small_busy_ == 0;
}

int LoadScheduler::SmallLoaders() const {
  const std::lock_guard lock(mutex_);
  return small_loaders_;
}

void LoadScheduler::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    // Also stops what the backend is working on.
    for (uint32_t slot = 0; slot < queue_.Slots(); ++slot) {
      queue_.Age(slot);
      backend_->Interrupt(slot);
    }
  }
  idle_.WakeAll();
}

bool LoadScheduler::Await(LoaderThread* loader) {
  while (true) {
    std::unique_lock lock(mutex_);
    if (stopping_) return false;
    const Found found = TakeLocked(loader, &lock);
    if (stopping_) return false;
    if (found == Found::kItem) {
      // There may be more than this loader can take: pass it on.
      idle_.WakeWhereWorkIs();
      return true;
    }
    idle_.Wait(*loader, found == Found::kNoRoom, &lock);
  }
}

bool LoadScheduler::Take(LoaderThread* loader) {
  std::unique_lock lock(mutex_);
  return !stopping_ && TakeLocked(loader, &lock) == Found::kItem;
}

// `lock` is of mutex_; it is let go while the kernel is asked, which may take long.
LoadScheduler::Found LoadScheduler::TakeLocked(LoaderThread* loader,
                                               std::unique_lock<std::mutex>* lock) {
  loader->looked.clear();
  while (!stopping_) {
    std::shared_ptr<Payer> unknown;
    const Found found = TakeKnown(loader, &unknown);
    if (unknown == nullptr) return found;
    lock->unlock();
    const uint64_t now = backend_->NowNs();
    LoadAdmission::Look(unknown.get(), now);
    lock->lock();
    // Not if there is more room than was seen.
    if (now >= kicked_ns_) loader->looked.push_back(unknown.get());
  }
  return Found::kNothing;
}

// mutex_ held.
LoadScheduler::Found LoadScheduler::TakeKnown(LoaderThread* loader,
                                              std::shared_ptr<Payer>* unknown) {
  if (!queue_.HasFor(loader->node, layout_->TakesAny(loader->node))) return Found::kNothing;
  const uint64_t now = backend_->NowNs();
  const int allowed = governor_.Allowed(now);
  const bool is_beyond = static_cast<int>(loader->index) >= allowed;
  // While the others are held back, who is for small items has as few.
  const bool is_held = loader->is_for_small ? allowed < Loaders() : busy_ >= allowed;
  if (is_beyond && is_held) return Found::kNoRoom;
  LoadAdmission::Choice choice = admission_.Choose(*loader, small_loaders_ > 0, now);
  *unknown = std::move(choice.unknown);
  if (choice.found != Found::kItem) return choice.found;
  loader->chunk.emplace(*choice.item, choice.bytes);
  step_times_.Begin(*loader, loader->chunk->Rest().payer.get());
  queue_.Advance(choice.item, choice.bytes);
  inflight_ += choice.bytes;
  ++(loader->is_for_small ? small_busy_ : busy_);
  ++stats_.chunks;
  return Found::kItem;
}

Interruption LoadScheduler::Check(const LoaderThread& loader) {
  const LoadItem& rest = loader.chunk->Rest();
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return Interruption::kShutdown;
    if (queue_.Generation(rest.slot) != rest.generation) return Interruption::kGeneration;
    const uint64_t now = backend_->NowNs();
    if (!step_times_.MayLoad(loader, rest.payer.get(), now)) return Interruption::kLater;
    const int allowed = governor_.Allowed(now);
    if (!loader.is_for_small && busy_ > allowed && static_cast<int>(loader.index) >= allowed) {
      return Interruption::kBandwidth;
    }
  }
  // Outside the lock: this asks the kernel.
  const bool is_above =
      !rest.is_waited && rest.payer && rest.payer->budget && rest.payer->budget->IsAbove();
  return is_above ? Interruption::kMemory : Interruption::kNone;
}

LoadScheduler::ItemStatus LoadScheduler::StatusOf(const LoadItem& item, uint64_t now) {
  const std::lock_guard lock(mutex_);
  return ItemStatus{.newest = queue_.Newest(item.slot),
                    .is_waited = queue_.IsBoosted(item.slot, now)};
}

bool LoadScheduler::BeginStep(const LoadItem& item, uint64_t now) {
  if (item.is_small) return false;
  const std::lock_guard lock(mutex_);
  // The time of one whose cgroup is throttled is not the device's.
  if (step_times_.IsLate(item.payer.get(), now)) return false;
  meter_.Begin(now);
  return true;
}

void LoadScheduler::EndStep(uint64_t now, uint64_t loaded, uint64_t took_ns) {
  const std::lock_guard lock(mutex_);
  meter_.End(now, loaded, took_ns);
  if (loaded > 0) governor_.OnLoaded(now, loaded, took_ns);
}

void LoadScheduler::NoteNeighbours(bool wait) {
  const std::lock_guard lock(mutex_);
  stats_.neighbours_wait = wait;
  governor_.OnNeighbours(wait);
}

void LoadScheduler::Account(const LoadItem& item, uint64_t now, const LoadResult& result,
                            uint64_t took_ns) {
  const std::lock_guard lock(mutex_);
  step_times_.Note(item.payer.get(), now, took_ns, result);
  stats_.loaded += result.loaded;
  stats_.resident += result.resident;
  stats_.failed += result.failed;
  if (item.node >= 0 && item.node < kMaxNodes) {
    stats_.node_loaded[static_cast<size_t>(item.node)] += result.loaded;
  } else {
    stats_.node_unknown += result.loaded;
  }
  // Whatever the budget says: at once it would be the same again, unless some of it was loaded.
  const bool is_refused = result.stop == LoadStop::kNoMemory || result.stop == LoadStop::kLater;
  if (is_refused && result.loaded == 0) {
    queue_.RestUntil(item.slot) = now + options_.retry_ns;
  }
}

void LoadScheduler::NoteFailed(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  stats_.failed += bytes;
}

void LoadScheduler::Finish(LoaderThread* loader, Interruption reason) {
  LoadChunk chunk = std::move(*loader->chunk);
  loader->chunk.reset();
  chunk.GiveBack();
  const LoadItem& rest = chunk.Rest();
  {
    const std::lock_guard lock(mutex_);
    --(loader->is_for_small ? small_busy_ : busy_);
    step_times_.End(*loader);
    if (reason != Interruption::kNone) ++stats_.interrupted[static_cast<size_t>(reason)];
    inflight_ -= chunk.Taken();
    queue_.GiveBack(rest, chunk.NotLoaded());
    // Replaced meanwhile: the rest is not wanted.
    if (IsPutBack(reason) && queue_.Generation(rest.slot) == rest.generation) queue_.PutBack(rest);
  }
  const std::optional<IoResult> report = chunk.Report(reason);
  if (report) completions_->Push(*report);
}

}  // namespace ppc
