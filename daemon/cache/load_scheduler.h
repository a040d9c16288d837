// SPDX-License-Identifier: Apache-2.0
// Owns which loader loads what: the queue, and the rules by which chunks are taken from it and
// interrupted.  A chunk stops within one step (2 MiB) per loader when
//   its group was replaced (a newer generation),
//   memory use is above the threshold,
//   the device cannot keep up with the front end,
//   the queue is full of newer lists,
//   the pool shuts down.
// What memory or the device interrupted goes back to the head of its queue; the rest is
// reported as interrupted.  Ranges of a replaced group that were still queued are only
// counted: the policy that replaced them knows.
// Threads: Submit, Interrupt, NoteDemand by the executor; Stats by any; Await, Take, Check, Finish
// and what a step tells by the loader itself.  One lock for all; the kernel is asked without it.
// Paper: section 3.2 (loader: interruptible).
#ifndef PPC_DAEMON_CACHE_LOAD_SCHEDULER_H_
#define PPC_DAEMON_CACHE_LOAD_SCHEDULER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "daemon/backend/backend.h"
#include "daemon/cache/bandwidth_governor.h"
#include "daemon/cache/completions.h"
#include "daemon/cache/device_meter.h"
#include "daemon/cache/idle_threads.h"
#include "daemon/cache/load_admission.h"
#include "daemon/cache/load_chunk.h"
#include "daemon/cache/load_queue.h"
#include "daemon/cache/loader_layout.h"
#include "daemon/cache/step_times.h"
#include "daemon/machine/topology.h"

namespace ppc {

// The loader's settings.
struct LoaderOptions {
  uint64_t chunk_bytes = 8 << 20;
  int threads_per_node = 0;  // 0: clamp(CPUs of the node / 4, Caps().least_loads, most_loads)
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

class LoadScheduler {
 public:
  // backend, layout and completions must outlive this.  start_small starts the loaders for small
  // items, of which the first was submitted, and says how many there are; the lock is held.
  LoadScheduler(Backend* backend, const LoaderLayout* layout, const LoaderOptions& options,
                Completions* completions, std::function<int()> start_small);

  // ---- by who wants something loaded: see LoaderPool
  void Submit(std::span<LoadItem> items, bool replaces);
  void Interrupt(uint32_t service, uint32_t group);
  void InterruptAll(uint32_t group);
  void Withdraw(uint32_t service);
  void EndService(uint32_t service);
  void NoteDemand(uint64_t bytes);
  void NoteMiss(uint32_t service);
  void WakeThreads();
  // Interrupts everything; no loader gets a chunk any more.
  void Stop();

  LoaderStats Stats() const;
  DeviceSpeed Device() const;
  uint64_t Queued() const;
  uint64_t QueuedOf(uint32_t service) const;
  int SmallLoaders() const;
  bool IsIdle() const;

  // ---- by a loader
  // A chunk for the loader, which waits for one; false: everything stops.
  bool Await(LoaderThread* loader);
  // The same without waiting; false: nothing to do, or no room.
  bool Take(LoaderThread* loader);
  // Why the loader must not go on with its chunk.
  Interruption Check(const LoaderThread& loader);
  // The loader's chunk is over, or interrupted.
  void Finish(LoaderThread* loader, Interruption reason);

  // Whether a reader waits for an item, and how to see that it is not wanted any more.
  struct ItemStatus {
    const std::atomic<uint64_t>* newest = nullptr;  // see LoadRequest::newest
    bool is_waited = false;
  };
  ItemStatus StatusOf(const LoadItem& item, uint64_t now);
  // What a step tells: of the device, of others that wait for it, of what became of the item.
  // EndStep is for a step that tells of the device, as BeginStep says.
  bool BeginStep(const LoadItem& item, uint64_t now);
  void EndStep(uint64_t now, uint64_t loaded, uint64_t took_ns);
  void NoteNeighbours(bool wait);
  void Account(const LoadItem& item, uint64_t now, const LoadResult& result, uint64_t took_ns);
  void NoteFailed(uint64_t bytes);

 private:
  using Found = LoadAdmission::Found;

  Found TakeLocked(LoaderThread* loader, std::unique_lock<std::mutex>* lock);
  Found TakeKnown(LoaderThread* loader, std::shared_ptr<Payer>* unknown);
  void ReplaceLocked(uint32_t slot);
  int Loaders() const { return static_cast<int>(layout_->Threads().size()); }

  // A reader that has missed something may be faster than was thought.
  static constexpr uint64_t kMissedNs = 500 * 1000 * 1000;

  Backend* const backend_;
  const LoaderLayout* const layout_;
  const LoaderOptions options_;
  Completions* const completions_;
  const std::function<int()> start_small_;

  mutable std::mutex mutex_;
  LoadQueue queue_;
  StepTimes step_times_;
  LoadAdmission admission_;
  IdleThreads idle_;
  BandwidthGovernor governor_;
  DeviceMeter meter_;
  LoaderStats stats_;
  uint64_t inflight_ = 0;
  int busy_ = 0;
  int small_busy_ = 0;
  int small_loaders_ = 0;
  uint64_t kicked_ns_ = 0;
  bool stopping_ = false;
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_LOAD_SCHEDULER_H_
