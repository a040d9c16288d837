// SPDX-License-Identifier: Apache-2.0
// Owns loading: core-bound threads per NUMA node that load the chunks that LoadScheduler gives them
// in steps of 2 MiB, and stop between two of them when it says so.
//
// Small items (LoadItem::is_small), of which many are under way at once, have threads of their own,
// which are started with the first of them: a disk takes as long for one page as for a hundred at
// a time.  They are not what the device's speed is told by.
// Threads: Submit, Interrupt, NoteDemand by the executor; Stats by any.
// Paper: section 3.2 (loader: core-bound pool, XPU affinity, interruptible).
#ifndef PPC_DAEMON_CACHE_LOADER_POOL_H_
#define PPC_DAEMON_CACHE_LOADER_POOL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/cache/completions.h"
#include "daemon/cache/device_meter.h"
#include "daemon/cache/load_queue.h"
#include "daemon/cache/load_scheduler.h"
#include "daemon/cache/loader_layout.h"
#include "daemon/machine/topology.h"

namespace ppc {

class LoaderPool {
 public:
  using Options = LoaderOptions;

  // backend and completions must outlive this.
  LoaderPool(Backend* backend, const std::vector<NumaNode>& nodes, Options options,
             Completions* completions);
  ~LoaderPool();
  LoaderPool(const LoaderPool&) = delete;
  LoaderPool& operator=(const LoaderPool&) = delete;

  // Appends to the queues, after interrupting the items' groups where they are to be replaced.
  // What is for a node without threads (offline, or not ours) is for any.
  void Submit(std::span<LoadItem> items, bool replaces) { scheduler_.Submit(items, replaces); }
  void Interrupt(uint32_t service, uint32_t group) { scheduler_.Interrupt(service, group); }
  // The groups with this number of all services.
  void InterruptAll(uint32_t group) { scheduler_.InterruptAll(group); }
  // Reports what a service has queued as interrupted; what is in flight goes on.
  void Withdraw(uint32_t service) { scheduler_.Withdraw(service); }
  // Interrupts all groups of a service, which has ended.
  void EndService(uint32_t service) { scheduler_.EndService(service); }
  void NoteDemand(uint64_t bytes) { scheduler_.NoteDemand(bytes); }
  // A service's reader has just missed something: nothing of it can wait for a while.
  void NoteMiss(uint32_t service) { scheduler_.NoteMiss(service); }
  // Memory was freed: threads that wait for room look again.
  void WakeThreads() { scheduler_.WakeThreads(); }
  // Interrupts everything and joins the threads.
  void Stop();

  LoaderStats Stats() const { return scheduler_.Stats(); }
  DeviceSpeed Device() const { return scheduler_.Device(); }
  // Bytes that threads could take before more must be submitted, at most.
  uint64_t Queued() const { return scheduler_.Queued(); }
  uint64_t QueuedOf(uint32_t service) const { return scheduler_.QueuedOf(service); }
  int Threads() const { return static_cast<int>(loaders_.size()); }
  // Those of small items, so far.
  int SmallThreads() const { return scheduler_.SmallLoaders(); }
  bool IsIdle() const { return scheduler_.IsIdle(); }

  // One step of loader `index`, those of small items last; false: nothing to do (or no room).  Only
  // with `manual`.
  bool RunSlice(size_t index);
  void RunUntilIdle();

 private:
  struct Loader : LoaderThread {
    CpuList cpus;
    std::thread thread;
  };

  void AddSmall();
  int StartSmall();
  void Run(Loader* loader);
  bool Slice(Loader* loader);
  Interruption LoadStep(Loader* loader);
  void CheckNeighbours(uint64_t now);

  Backend* const backend_;
  const Options options_;
  const LoaderLayout layout_;
  LoadScheduler scheduler_;
  std::atomic<bool> is_looking_{false};  // at neighbours
  std::vector<std::unique_ptr<Loader>> loaders_;
  std::vector<std::unique_ptr<Loader>> small_loaders_;  // grows under the scheduler's lock
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_LOADER_POOL_H_
