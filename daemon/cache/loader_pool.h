// SPDX-License-Identifier: Apache-2.0
// Owns loading: core-bound threads per NUMA node that take chunks of queued ranges and
// load them in steps, and the rules that interrupt them.  A chunk stops within one step
// (2 MiB) per thread when
//   its group was replaced (a newer generation),
//   memory use is above the threshold,
//   the device cannot keep up with the front end,
//   the queue is full of newer lists,
//   the pool shuts down.
// What memory or the device interrupted goes back to the head of its queue; the rest is
// reported as interrupted.  Ranges of a replaced group that were still queued are only
// counted: whoever replaced them knows.
//
// Small items (LoadItem::is_small), of which many are under way at once, have threads of their own,
// which are started with the first of them: a disk takes as long for one page as for a hundred at
// a time.  They are not what the device's speed is told by.
// Threads: Submit, Interrupt, NoteDemand by the executor; Stats by any.
// Paper: section 3.2 (loader: core-bound pool, XPU affinity, interruptible).
#ifndef PPC_DAEMON_CACHE_LOADER_POOL_H_
#define PPC_DAEMON_CACHE_LOADER_POOL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/cache/bandwidth_governor.h"
#include "daemon/cache/completions.h"
#include "daemon/cache/device_meter.h"
#include "daemon/cache/idle_workers.h"
#include "daemon/cache/load_admission.h"
#include "daemon/cache/load_chunk.h"
#include "daemon/cache/load_queue.h"
#include "daemon/cache/load_worker.h"
#include "daemon/cache/loader_layout.h"
#include "daemon/machine/topology.h"

namespace ppc {

// Bytes unless said otherwise; only what happened.
struct LoaderStats {
  uint64_t asked = 0;     // submitted and accepted
  uint64_t refused = 0;   // the queue was full
  uint64_t loaded = 0;    // absent before, uptodate now
  uint64_t resident = 0;  // found present
  uint64_t failed = 0;
  uint64_t replaced = 0;  // queued, then replaced by a newer list of the group
  uint64_t chunks = 0;    // count
  std::array<uint64_t, kInterruptions> interrupted{};  // count of chunks by reason
  std::array<uint64_t, kMaxNodes> node_loaded{};       // by the node asked for
  uint64_t node_unknown = 0;
  uint64_t queued = 0;
  uint64_t inflight = 0;
  int threads = 0;
  int threads_allowed = 0;
  bool neighbours_wait = false;
};

class LoaderPool {
 public:
  struct Options {
    uint64_t chunk_bytes = 8 << 20;
    int threads_per_node = 0;  // 0 = clamp(CPUs of the node / 4, Capabilities::least_loads, 16)
    size_t max_items = 131072;
    int small_loads = 0;                    // small items under way at once; 0 = as all others
    bool manual = false;                    // no threads: RunSlice drives it (tests, simulator)
    uint64_t retry_ns = 100 * 1000 * 1000;  // how soon who found no memory looks again
    BandwidthGovernor::Options governor;
    // Whether others on the machine wait for I/O; from a loader's thread, of one at a time, after
    // each step.
    std::function<bool(uint64_t now_ns)> neighbours_wait;
    std::function<void(uint64_t bytes)> on_loaded;  // from a loader's thread, before Stats has it
  };

  // backend and completions must outlive this.
  LoaderPool(Backend* backend, const std::vector<NumaNode>& nodes, Options options,
             Completions* completions);
  ~LoaderPool();
  LoaderPool(const LoaderPool&) = delete;
  LoaderPool& operator=(const LoaderPool&) = delete;

  // Appends to the queues, after interrupting the items' groups where they are to be replaced.
  // What is for a node without threads (offline, or not ours) is for any.
  void Submit(std::span<LoadItem> items, bool replaces);
  void Interrupt(uint32_t service, uint32_t group);
  // The groups with this number of all services.
  void InterruptAll(uint32_t group);
  // Interrupts all groups of a service, which has ended.
  void EndService(uint32_t service);
  void NoteDemand(uint64_t bytes);
  // A service's reader has just missed something: nothing of it can wait for a while.
  void NoteMiss(uint32_t service);
  // Memory was freed: threads that wait for room look again.
  void Kick();
  // Interrupts everything and joins the threads.
  void Stop();

  LoaderStats Stats() const;
  DeviceSpeed Device() const;
  // Bytes that threads could take before somebody must submit more, at most.
  uint64_t Queued() const;
  uint64_t QueuedOf(uint32_t service) const;
  int Threads() const { return static_cast<int>(workers_.size()); }
  // Of small items, so far.
  int SmallThreads() const;
  bool IsIdle() const;

  // One step of worker `index`, those of small items last; false: nothing to do (or no room).  Only
  // with `manual`.
  bool RunSlice(size_t index);
  void RunUntilIdle();

 private:
  using Found = LoadAdmission::Found;
  struct Worker : LoadWorker {
    CpuList cpus;
    std::thread thread;
  };

  void Run(Worker* worker);
  void StartSmall();
  void AddSmall();
  Found Take(LoadWorker* worker, std::unique_lock<std::mutex>* lock);
  Found TakeKnown(LoadWorker* worker, std::shared_ptr<Payer>* unknown);
  bool Slice(Worker* worker);
  Interruption Check(const Worker& worker, const LoadItem& rest);
  Interruption LoadStep(const Worker& worker, LoadChunk* chunk);
  void MindNeighbours(uint64_t now);
  Interruption HandleError(LoadChunk* chunk, const Error& error);
  void Account(const LoadItem& item, const LoadResult& result);
  void Finish(Worker* worker, Interruption reason);
  void ReplaceLocked(uint32_t slot);

  // Who has missed something may be faster than was thought.
  static constexpr uint64_t kMissedNs = 500 * 1000 * 1000;

  Backend* const backend_;
  const Options options_;
  Completions* const completions_;
  const LoaderLayout layout_;

  mutable std::mutex mutex_;
  LoadQueue queue_;
  LoadAdmission admission_;
  IdleWorkers idle_;
  BandwidthGovernor governor_;
  DeviceMeter meter_;
  LoaderStats stats_;
  uint64_t inflight_ = 0;
  int busy_ = 0;
  uint64_t kicked_ns_ = 0;
  std::atomic<bool> is_looking_{false};  // at neighbours
  bool stopping_ = false;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Worker>> small_workers_;  // grows under the lock
  int small_busy_ = 0;
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_LOADER_POOL_H_
