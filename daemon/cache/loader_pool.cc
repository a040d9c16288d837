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
      layout_(nodes, options_.threads_per_node, backend->Caps().least_loads,
              backend->Caps().most_loads),
      scheduler_(backend, &layout_, options_, completions, [this] { return StartSmall(); }) {
  for (const LoaderLayout::Thread& thread : layout_.Threads()) {
    auto loader = std::make_unique<Loader>();
    loader->index = loaders_.size();
    loader->node = thread.node;
    loader->cpus = thread.cpus;
    loaders_.push_back(std::move(loader));
  }
  if (options_.manual) {
    for (int i = 0; i < options_.small_loads; ++i) AddSmall();
    return;
  }
  try {
    for (auto& loader : loaders_)
      loader->thread = StartThread("a thread that loads", [this, raw = loader.get()] { Run(raw); });
  } catch (...) {
    Stop();  // a thread that runs outlives nothing that it uses
    throw;
  }
}

LoaderPool::~LoaderPool() { Stop(); }

void LoaderPool::AddSmall() {
  auto loader = std::make_unique<Loader>();
  loader->index = small_loaders_.size();
  loader->is_for_small = true;
  loader->node = layout_.NodeInTurn(loader->index);
  small_loaders_.push_back(std::move(loader));
}

// From Submit.  Where the system has no more threads those that there are will do, or the others.
int LoaderPool::StartSmall() {
  while (static_cast<int>(small_loaders_.size()) < options_.small_loads) {
    AddSmall();
    Loader* const loader = small_loaders_.back().get();
    try {
      loader->thread = std::thread([this, loader] { Run(loader); });
    } catch (const std::system_error&) {
      small_loaders_.pop_back();
      break;
    }
  }
  return static_cast<int>(small_loaders_.size());
}

void LoaderPool::Stop() {
  scheduler_.Stop();
  for (const auto* const loaders : {&loaders_, &small_loaders_}) {
    for (const auto& loader : *loaders) {
      if (loader->thread.joinable()) loader->thread.join();
      if (options_.manual && loader->chunk)
        scheduler_.Finish(loader.get(), Interruption::kShutdown);
    }
  }
}

void LoaderPool::Run(Loader* loader) {
  BlockSignals();
  pthread_setname_np(pthread_self(), "ppc-load");
  // Where binding fails (a cpuset without that core) the thread still loads.
  if (!loader->cpus.empty()) (void)BindThread(loader->cpus);
  (void)PreferNode(loader->node);
  LowerIoPriority();
  while (scheduler_.Await(loader)) {
    while (Slice(loader)) {
    }
  }
}

// One step; false: the loader has no chunk any more.
bool LoaderPool::Slice(Loader* loader) {
  Interruption reason = scheduler_.Check(*loader);
  if (reason == Interruption::kNone) reason = LoadStep(loader);
  if (reason == Interruption::kNone && !loader->chunk->IsOver()) return true;
  scheduler_.Finish(loader, reason);
  return false;
}

Interruption LoaderPool::LoadStep(Loader* loader) {
  LoadChunk* const chunk = &*loader->chunk;
  const LoadItem& item = chunk->Rest();
  const uint64_t step = chunk->NextStep();
  const uint64_t start = backend_->NowNs();
  const LoadScheduler::ItemStatus status = scheduler_.StatusOf(item, start);
  // Before writers, and before loads for services without a waiting reader.
  if (!options_.manual) SetIoPriority(status.is_waited ? IoPriority::kWaited : IoPriority::kAhead);
  const LoadRequest request{.file = item.file,
                            .offset = item.offset,
                            .length = step,
                            .charge = ChargeOf(item.payer),
                            .group = item.slot,
                            .generation = item.generation,
                            .newest = status.newest,
                            .is_small = item.is_small,
                            .is_populated = item.is_populated,
                            .is_burnt = item.is_burnt,
                            .node = loader->node};
  const bool tells_device = scheduler_.BeginStep(item, start);
  const Result<LoadResult> loaded = backend_->Load(request);
  const uint64_t now = backend_->NowNs();
  if (tells_device) scheduler_.EndStep(now, loaded ? loaded->loaded : 0, now - start);
  CheckNeighbours(now);
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

void LoaderPool::CheckNeighbours(uint64_t now) {
  if (!options_.neighbours_wait || is_looking_.exchange(true, std::memory_order_acq_rel)) return;
  const bool wait = options_.neighbours_wait(now);
  is_looking_.store(false, std::memory_order_release);
  scheduler_.NoteNeighbours(wait);
}

bool LoaderPool::RunSlice(size_t index) {
  Loader* const loader = index < loaders_.size() ? loaders_[index].get()
                                                 : small_loaders_[index - loaders_.size()].get();
  if (!loader->chunk && !scheduler_.Take(loader)) return false;
  Slice(loader);
  return true;
}

void LoaderPool::RunUntilIdle() {
  bool progress = true;
  while (progress) {
    progress = false;
    for (size_t i = 0; i < loaders_.size() + small_loaders_.size(); ++i) progress |= RunSlice(i);
  }
}

}  // namespace ppc
