// SPDX-License-Identifier: Apache-2.0
// Owns the loop that turns events into policy calls and lists into work: what it waits for, ticks,
// plans and completions.  One thread runs all hooks.  Nothing here allocates per event once its
// buffers have grown.
// Threads: its own; RequestStop by any.
// Paper: section 3.2 (policy executor).
#ifndef PPC_DAEMON_EXEC_EXECUTOR_H_
#define PPC_DAEMON_EXEC_EXECUTOR_H_

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/base/unique_fd.h"
#include "daemon/cache/demand_meter.h"
#include "daemon/cache/evictor.h"
#include "daemon/cache/loader_pool.h"
#include "daemon/exec/auto_services.h"
#include "daemon/exec/event_intake.h"
#include "daemon/exec/event_recorder.h"
#include "daemon/exec/file_table.h"
#include "daemon/exec/guard.h"
#include "daemon/exec/job_queue.h"
#include "daemon/exec/policy_lists.h"
#include "daemon/exec/policy_services.h"
#include "daemon/exec/residency_scan.h"
#include "daemon/exec/service_table.h"
#include "daemon/policy/policy_host.h"

namespace ppc {

// Counts.
struct LoopStats {
  uint64_t wakeups = 0;
  uint64_t naps = 0;
  uint64_t ticks = 0;
};

struct ExecutorStats : IntakeStats, ListStats, LoopStats {};

class Executor {
 public:
  enum class End {
    kRunning,
    kStopped,  // RequestStop
    kDropped,  // the policy faulted too often
    kExpired,  // the lease ran out
    kGone,     // the mount is gone
  };

  struct Parts {
    Backend* backend = nullptr;
    LoaderPool* loader = nullptr;
    Evictor* evictor = nullptr;
    Completions* completions = nullptr;
    PolicyHost* host = nullptr;
    PolicyServices* policy_services = nullptr;
    FileTable* files = nullptr;
    ServiceTable* services = nullptr;
    const Topology* topology = nullptr;
    DemandMeter* demand = nullptr;
    std::atomic<uint64_t>* own_cache = nullptr;
    AutoServices* autos = nullptr;      // may be nullptr
    JobQueue* control = nullptr;        // short jobs: names, memory, messages
    JobQueue* lookups = nullptr;        // of processes, each as long as it hangs
    JobQueue* background = nullptr;     // the policy's
    JobQueue* remote = nullptr;         // the policy's, that waits for other machines
    EventRecorder* recorder = nullptr;  // may be nullptr
    Guard* guard = nullptr;             // may be nullptr
    std::function<void()> on_wish;      // what Guard::WantsHits or AreLoadsStuck says has changed
  };
  struct Options {
    uint64_t tick_ns = 200 * 1000 * 1000;
    uint64_t nap_ns = 1000 * 1000;
    uint64_t chunk_bytes = 8 << 20;
    uint64_t window_bytes = 1 << 20;  // what a miss makes the kernel read
    bool manual = false;              // nothing is done on other threads
  };

  Executor(Parts parts, Options options);

  // Another descriptor to wait for; `ready` runs on the executor's thread, and adds none.
  void AddSource(int fd, std::function<void(short revents)> ready);

  // Runs until the end.
  End Run();
  // One turn, waiting for work at its end; what Run repeats.
  End RunOnce();
  // Handles what is there without waiting: events, results, background work that is done.  True if
  // there was any.
  bool Pump();
  // See EventIntake.  On the executor's thread.
  void CatchUp(std::function<void()> next, std::optional<int> service) {
    intake_.CatchUp(std::move(next), service);
  }
  void ReleaseHeld() { intake_.ReleaseHeld(); }
  void RequestStop();
  // Every tick asks the policy what to drop, whatever memory says (PPC_WANT_EVICT).
  void SetEvictEveryTick(bool on) { evict_every_tick_ = on; }
  // Whether the policy is told of progress events, should there be any.
  void SetTellsProgress(bool on) { intake_.SetTellsProgress(on); }
  // Asks the policy what to drop now (after a control message).  On the executor's thread.
  void AskForEvictions() { lists_.AskForEvictions(); }
  // Asks the policy what to load for each service, likewise.
  void AskForPlans() { ++plan_epoch_; }

  // Readers miss, and for two seconds nothing of what is queued has been loaded: the kernel's own
  // read-ahead serves them better.
  bool AreLoadsStuck() const { return are_stuck_; }

  ExecutorStats Stats() const { return {intake_.Stats(), lists_.Stats(), stats_}; }
  uint64_t Merged() const { return intake_.Merged(); }

 private:
  struct Source {
    int fd;
    std::function<void(short)> ready;
  };

  // The way to have something done that may wait; empty where nothing is done elsewhere.
  Offload Helper(JobQueue* queue) const;
  bool HandleCompletions();
  static void NoteWork(const IoResult& result, Service* service);
  bool RepeatsItself(const ppc_memory& memory, Service* service) const;
  bool HandleHelpers();
  void HandleExecs();
  void TellGuard(const IoResult& result, const Service& payer);
  void TickGuard(uint64_t now);
  void AskForHits();
  void SampleCache();
  void WithdrawLoads();
  void WatchLoads(uint64_t now);
  void TickIfDue();
  bool IsPlanDue(const Service& service, bool is_quiet) const;
  // The policy had nothing to load for it the last time, and nothing has happened to it since.
  static bool IsIdle(const Service& service) {
    return service.empty_epoch != 0 && !service.has_moved;
  }
  void AskForPlan(bool is_quiet);
  void AskForPlanOf(Service* service, uint64_t depth);
  void EvictForRoom();
  uint64_t PlanDepth() const;
  DeviceSpeed DeviceFor(ReadRate* rate) const;
  End WaitForWork(size_t drained);
  End CheckAlive();

  static constexpr uint64_t kMinPlanBytes = 64 << 20;
  static constexpr int kTicksPerCheck = 5;
  static constexpr uint64_t kStuckNs = 2'000'000'000;
  static constexpr uint64_t kSampleNs = 50'000'000;  // between samples while something is loaded

  const Parts parts_;
  const Options options_;
  const UniqueFd stop_fd_;
  std::atomic<bool> stop_{false};
  ResidencyScan residency_scan_;
  PolicyLists lists_;
  EventIntake intake_;
  LoopStats stats_;
  std::vector<IoResult> results_;
  std::vector<Exec> execs_;
  std::vector<Guard::Sample> samples_;
  bool has_asked_for_hits_ = false;
  uint64_t seen_done_ = 0;    // bytes of loads, at the last tick
  uint64_t seen_misses_ = 0;  // then
  uint64_t stuck_ns_ = 0;     // since when misses come and no load ends; 0: that is not so
  bool are_stuck_ = false;
  bool is_sampling_ = false;
  uint64_t sampled_ns_ = 0;
  std::vector<Source> sources_;
  std::vector<pollfd> pollfds_;
  uint64_t next_tick_ns_ = 0;
  uint64_t next_room_ns_ = 0;
  bool evict_every_tick_ = false;
  // Counts what may make a policy plan anew for any service, see Service::empty_epoch.
  uint64_t plan_epoch_ = 1;
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_EXECUTOR_H_
