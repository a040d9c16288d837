// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/loader_pool.h"

#include <pthread.h>

#include <csignal>
#include <system_error>
#include <utility>

#include "daemon/base/cpu_set.h"
#include "daemon/base/threads.h"
#include "daemon/machine/mem_policy.h"

namespace ppc {
namespace {

LoaderOptions PerNode(LoaderOptions options, const std::vector<NumaNode>& nodes) {
  options.governor.floor *= static_cast<int>(nodes.size());
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
      options_(PerNode(std::move(options), nodes)),
      layout_(nodes, options_.threads_per_node, backend->Caps().least_loads),
      scheduler_(backend, &layout_, options_, completions, [this] { return StartSmall(); }) {
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

void LoaderPool::AddSmall() {
  auto worker = std::make_unique<Worker>();
  worker->index = small_workers_.size();
  worker->is_for_small = true;
  worker->node = layout_.NodeInTurn(worker->index);
  small_workers_.push_back(std::move(worker));
}

// From Submit.  Where the system has no more threads those that there are will do, or the others.
int LoaderPool::StartSmall() {
  while (static_cast<int>(small_workers_.size()) < options_.small_loads) {
    AddSmall();
    Worker* const worker = small_workers_.back().get();
    try {
      worker->thread = std::thread([this, worker] { Run(worker); });
    } catch (const std::system_error&) {
      small_workers_.pop_back();
      break;
    }
  }
  return static_cast<int>(small_workers_.size());
}

void LoaderPool::Stop() {
  scheduler_.Stop();
  for (const auto* const workers : {&workers_, &small_workers_}) {
    for (const auto& worker : *workers) {
      if (worker->thread.joinable()) worker->thread.join();
      if (options_.manual && worker->chunk)
        scheduler_.Finish(worker.get(), Interruption::kShutdown);
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
  while (scheduler_.Await(worker)) {
    while (Slice(worker)) {
    }
  }
}

// One step; false: the worker has no chunk any more.
bool LoaderPool::Slice(Worker* worker) {
  Interruption reason = scheduler_.Check(*worker);
  if (reason == Interruption::kNone) reason = LoadStep(worker);
  if (reason == Interruption::kNone && !worker->chunk->IsOver()) return true;
  scheduler_.Finish(worker, reason);
  return false;
}

Interruption LoaderPool::LoadStep(Worker* worker) {
  LoadChunk* const chunk = &*worker->chunk;
  const LoadItem& item = chunk->Rest();
  const uint64_t step = chunk->NextStep();
  const uint64_t start = backend_->NowNs();
  const LoadScheduler::Standing standing = scheduler_.StandingOf(item, start);
  // Before writers, and before loads for services without a waiting reader.
  if (!options_.manual)
    SetIoPriority(standing.is_waited ? IoPriority::kWaited : IoPriority::kAhead);
  const LoadRequest request{.file = item.file,
                            .offset = item.offset,
                            .length = step,
                            .charge = ChargeOf(item.payer),
                            .group = item.slot,
                            .generation = item.generation,
                            .newest = standing.newest,
                            .is_small = item.is_small,
                            .is_populated = item.is_populated,
                            .is_burnt = item.is_burnt,
                            .node = worker->node};
  scheduler_.BeginStep(item, start);
  const Result<LoadResult> loaded = backend_->Load(request);
  const uint64_t now = backend_->NowNs();
  scheduler_.EndStep(item, now, loaded ? loaded->loaded : 0, now - start);
  MindNeighbours(now);
  if (!loaded) {
    const uint64_t left = item.size;
    const Interruption reason = chunk->Fail(loaded.error());
    if (reason == Interruption::kNone) scheduler_.NoteFailed(left);
    return reason;
  }
  // Before the budget gets it back: between the two it would not be counted.
  if (loaded->loaded > 0 && options_.on_loaded) options_.on_loaded(loaded->loaded);
  scheduler_.Account(item, now, *loaded, now - start);
  return chunk->EndStep(*loaded, step);
}

void LoaderPool::MindNeighbours(uint64_t now) {
  if (!options_.neighbours_wait || is_looking_.exchange(true, std::memory_order_acq_rel)) return;
  const bool wait = options_.neighbours_wait(now);
  is_looking_.store(false, std::memory_order_release);
  scheduler_.NoteNeighbours(wait);
}

bool LoaderPool::RunSlice(size_t index) {
  Worker* const worker = index < workers_.size() ? workers_[index].get()
                                                 : small_workers_[index - workers_.size()].get();
  if (!worker->chunk && !scheduler_.Take(worker)) return false;
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
