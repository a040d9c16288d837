// SPDX-License-Identifier: Apache-2.0
// Owns the pool: threads, queue, waking.  What happens to one chunk is in loader_slice.cc.
#include "daemon/cache/loader_pool.h"

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <system_error>
#include <utility>

#include "daemon/base/cpu_set.h"
#include "daemon/base/threads.h"
#include "daemon/machine/mem_policy.h"

namespace ppc {
namespace {

BandwidthGovernor::Options PerNode(BandwidthGovernor::Options options,
                                   const std::vector<NumaNode>& nodes) {
  options.floor *= static_cast<int>(nodes.size());
  return options;
}

// A handler of the process must not run on a thread that is bound elsewhere, and a signal
// would interrupt a load.
void BlockSignals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

LoaderPool::LoaderPool(Backend* backend, const std::vector<NumaNode>& nodes, Options options,
                       Completions* completions)
    : backend_(backend),
      options_(options),
      completions_(completions),
      layout_(nodes, options_.threads_per_node, backend->Caps().least_loads),
      queue_(layout_.Nodes(), options_.max_items),
      // Driven by hand no time passes between two slices, whatever changed.
      admission_(&queue_, &layout_, options_.chunk_bytes,
                 options_.manual ? 0 : LoadAdmission::kMemoryAgeNs),
      idle_(&queue_, &layout_, options_.retry_ns),
      governor_(PerNode(options_.governor, nodes), static_cast<int>(layout_.Threads().size())) {
  for (const LoaderLayout::Thread& thread : layout_.Threads()) {
    auto worker = std::make_unique<Worker>();
    worker->index = workers_.size();
    worker->node = thread.node;
    worker->cpus = thread.cpus;
    workers_.push_back(std::move(worker));
  }
  if (options_.manual) {
    for (int i = 0; i < options_.small_loads; ++i) AddSmall();
    return;
  }
  try {
    for (auto& worker : workers_)
      worker->thread = StartThread("a thread that loads", [this, raw = worker.get()] { Run(raw); });
  } catch (...) {
    Stop();  // a thread that runs outlives nothing that it uses
    throw;
  }
}

LoaderPool::~LoaderPool() { Stop(); }

// mutex_ held.
void LoaderPool::AddSmall() {
  auto worker = std::make_unique<Worker>();
  worker->index = small_workers_.size();
  worker->is_for_small = true;
  worker->node = layout_.NodeInTurn(worker->index);
  small_workers_.push_back(std::move(worker));
}

// mutex_ held.  Where the system has no more threads those that there are will do, or the others.
void LoaderPool::StartSmall() {
  while (static_cast<int>(small_workers_.size()) < options_.small_loads) {
    AddSmall();
    Worker* const worker = small_workers_.back().get();
    try {
      worker->thread = std::thread([this, worker] { Run(worker); });
    } catch (const std::system_error&) {
      small_workers_.pop_back();
      return;
    }
  }
}

void LoaderPool::Stop() {
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
  for (const auto* const workers : {&workers_, &small_workers_}) {
    for (const auto& worker : *workers) {
      if (worker->thread.joinable()) worker->thread.join();
      if (options_.manual && worker->chunk) Finish(worker.get(), Interruption::kShutdown);
    }
  }
}

void LoaderPool::Run(Worker* worker) {
  BlockSignals();
  pthread_setname_np(pthread_self(), "ppc-load");
  // Where binding fails (a cpuset without that core) the thread still loads.
  if (!worker->cpus.empty()) (void)BindThread(worker->cpus);
  (void)PreferNode(worker->node);
  LowerIoPriority();
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (stopping_) return;
      const Found found = Take(worker, &lock);
      if (stopping_) return;
      if (found != Found::kItem) {
        idle_.Wait(*worker, found == Found::kNoRoom, &lock);
        continue;
      }
      // There may be more than this thread can take: pass it on.
      idle_.WakeWhereWorkIs();
    }
    while (Slice(worker)) {
    }
  }
}

// mutex_ held.
void LoaderPool::ReplaceLocked(uint32_t slot) {
  uint64_t items = 0;
  uint64_t bytes = 0;
  queue_.Replace(slot, &items, &bytes);
  stats_.replaced += bytes;
  backend_->Interrupt(slot);
}

void LoaderPool::Submit(std::span<LoadItem> items, bool replaces) {
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
    if (has_small && !options_.manual) StartSmall();
    const uint64_t list = queue_.NewList();
    for (LoadItem& item : items) {
      std::optional<LoadItem> dropped;
      const bool has_node = item.node >= 0 && item.node < layout_.Nodes();
      if (has_node && !layout_.HasThreads(item.node)) item.node = -1;
      const uint64_t bytes = item.size;
      const int node = item.node;
      if (!queue_.Append(std::move(item), list, &dropped)) {
        stats_.refused += bytes;
        continue;
      }
      stats_.asked += bytes;
      if (dropped) {
        ++stats_.interrupted[static_cast<size_t>(Interruption::kQueue)];
        IoResult& result = pushed_out.emplace_back(ResultOf(*dropped));
        result.size = dropped->size;
        result.interrupted = true;
      }
      idle_.WakeFor(node);
    }
    if (has_small) idle_.WakeSmall();
  }
  for (const IoResult& result : pushed_out) completions_->Push(result);
}

void LoaderPool::Interrupt(uint32_t service, uint32_t group) {
  const std::lock_guard lock(mutex_);
  ReplaceLocked(queue_.SlotOf(service, group));
}

void LoaderPool::InterruptAll(uint32_t group) {
  const std::lock_guard lock(mutex_);
  for (const uint32_t slot : queue_.SlotsOfGroup(group)) ReplaceLocked(slot);
}

void LoaderPool::EndService(uint32_t service) {
  const std::lock_guard lock(mutex_);
  for (const uint32_t slot : queue_.SlotsOfService(service)) ReplaceLocked(slot);
  queue_.Free(service);
}

void LoaderPool::NoteDemand(uint64_t bytes) {
  const uint64_t now = backend_->NowNs();
  const std::lock_guard lock(mutex_);
  governor_.OnDemand(now, bytes);
}

void LoaderPool::NoteMiss(uint32_t service) {
  const uint64_t now = backend_->NowNs();
  const std::lock_guard lock(mutex_);
  queue_.Press(service, now + kMissedNs);
}

void LoaderPool::Kick() {
  const uint64_t now = backend_->NowNs();
  const std::lock_guard lock(mutex_);
  kicked_ns_ = std::max(kicked_ns_, now);
  idle_.WakeWhereWorkIs();
}

LoaderStats LoaderPool::Stats() const {
  const std::lock_guard lock(mutex_);
  LoaderStats stats = stats_;
  stats.queued = queue_.Bytes();
  stats.inflight = inflight_;
  stats.threads = static_cast<int>(workers_.size());
  stats.threads_allowed = governor_.LastAllowed();
  return stats;
}

DeviceSpeed LoaderPool::Device() const {
  const std::lock_guard lock(mutex_);
  return meter_.Speed();
}

uint64_t LoaderPool::Queued() const {
  const std::lock_guard lock(mutex_);
  return queue_.Bytes();
}

uint64_t LoaderPool::QueuedOf(uint32_t service) const {
  const std::lock_guard lock(mutex_);
  return queue_.BytesOf(service);
}

bool LoaderPool::IsIdle() const {
  const std::lock_guard lock(mutex_);
  return queue_.Items() == 0 && busy_ + small_busy_ == 0;
}

int LoaderPool::SmallThreads() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(small_workers_.size());
}

bool LoaderPool::RunSlice(size_t index) {
  Worker* const worker = index < workers_.size() ? workers_[index].get()
                                                 : small_workers_[index - workers_.size()].get();
  if (!worker->chunk) {
    std::unique_lock lock(mutex_);
    if (stopping_ || Take(worker, &lock) != Found::kItem) return false;
  }
  Slice(worker);
  return true;
}

void LoaderPool::RunUntilIdle() {
  bool progress = true;
  while (progress) {
    progress = false;
    for (size_t i = 0; i < workers_.size() + small_workers_.size(); ++i) progress |= RunSlice(i);
  }
}

}  // namespace ppc
