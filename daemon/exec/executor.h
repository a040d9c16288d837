// SPDX-License-Identifier: Apache-2.0
// Owns the loop that turns events into policy calls and lists into work: one thread runs
// all hooks.  Nothing here allocates per event once its buffers have grown.
// Threads: its own; RequestStop by any.
// Paper: section 3.2 (policy executor).
#ifndef PPC_DAEMON_EXEC_EXECUTOR_H_
#define PPC_DAEMON_EXEC_EXECUTOR_H_

#include <poll.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/backend/event_log.h"
#include "daemon/base/unique_fd.h"
#include "daemon/cache/demand_meter.h"
#include "daemon/cache/evictor.h"
#include "daemon/cache/loader_pool.h"
#include "daemon/exec/aggregator.h"
#include "daemon/exec/auto_services.h"
#include "daemon/exec/cache_look.h"
#include "daemon/exec/file_table.h"
#include "daemon/exec/held_events.h"
#include "daemon/exec/policy_lists.h"
#include "daemon/exec/policy_services.h"
#include "daemon/exec/service_table.h"
#include "daemon/exec/worker.h"
#include "daemon/policy/policy_host.h"

namespace ppc {

// Counts unless said otherwise.
struct EventStats {
  uint64_t events = 0;      // taken from the rings
  uint64_t own_events = 0;  // caused by ourselves, ignored
  uint64_t lost_marks = 0;  // events that say others before them were lost
  uint64_t unresolved = 0;  // of a file that is gone
  uint64_t held = 0;        // waited for a look-up
  uint64_t held_lost = 0;   // too many waited
  uint64_t strangers = 0;   // of processes that belong to none of the started services
  uint64_t misses = 0;      // as given to the policy, after merging
  uint64_t miss_bytes = 0;
  uint64_t progress = 0;
  uint64_t accesses = 0;
  uint64_t wakeups = 0;
  uint64_t naps = 0;
  uint64_t ticks = 0;
};

struct ExecutorStats : EventStats, ListStats {};

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
    AutoServices* autos = nullptr;       // may be nullptr
    Worker* control = nullptr;           // short jobs: names, memory, messages
    Worker* lookups = nullptr;           // of processes, each as long as it hangs
    Worker* background = nullptr;        // the policy's
    Worker* remote = nullptr;            // the policy's, that waits for other machines
    EventLogWriter* recorder = nullptr;  // may be nullptr
  };
  struct Options {
    uint64_t tick_ns = 200 * 1000 * 1000;
    uint64_t nap_ns = 1000 * 1000;
    uint64_t chunk_bytes = 8 << 20;
    uint64_t window_bytes = 1 << 20;  // what a miss makes the kernel read
    bool manual = false;              // nothing is done on other threads
  };

  Executor(Parts parts, Options options);

  // Another descriptor to wait for; `ready` runs on the executor's thread.
  void AddSource(int fd, std::function<void(short revents)> ready);
  void RemoveSource(int fd);

  // Runs until the end.
  End Run();
  // One turn, waiting for work at its end; what Run repeats.
  End RunOnce();
  // Handles what is there without waiting: events, results, background work that is done.  True if
  // there was any.
  bool Pump();
  // Handles the events that are there, so that what is done next knows of all that came before
  // it, and then calls `next`: at once, or when the readers of those events are known, or after two
  // seconds.  On the executor's thread.
  void CatchUp(std::function<void()> next);
  // What waits for a decision or a look-up is tried again.
  void ReleaseHeld();
  void RequestStop();
  // Every tick asks the policy what to drop, whatever memory says (PPC_WANT_EVICT).
  void SetEvictEveryTick(bool on) { evict_every_tick_ = on; }
  // Asks the policy what to drop now (after a control message).  On the executor's thread.
  void AskForEvictions() { lists_.AskForEvictions(); }

  ExecutorStats Stats() const { return {stats_, lists_.Stats()}; }
  uint64_t Merged() const { return aggregator_.Merged(); }

 private:
  struct Source {
    int fd;
    std::function<void(short)> ready;
  };

  // What a message is to do next, once.
  struct Settling {
    std::function<void()> next;
    uint64_t until_ns = 0;
    int rounds = kMaxSettle;
  };
  // The way to have something done that may wait; empty where nothing is done elsewhere.
  Elsewhere Helper(Worker* worker) const;
  void WhenSettled(const std::shared_ptr<Settling>& message);
  void SettleLate(uint64_t now_ns);
  size_t DrainBatch();
  void BeginBatch();
  void EndBatch();
  void Dispatch(const Event& event);
  bool Deliver(const Event& event);
  void LookUpFile(uint64_t file);
  void HandleMiss(const Event& event, Service* service, miss_io* miss);
  void EvictFor(Service* service, miss_io* event);
  uint64_t ReadForMiss(const Event& event) const;
  const FileCopy* KnownFileOf(uint64_t file);
  void Record(std::span<const Event> events);
  bool HandleCompletions();
  bool HandleHelpers();
  void TickIfDue();
  bool IsPlanDue(const Service& service, bool is_quiet) const;
  void AskForPlan(bool is_quiet);
  void AskForPlanOf(Service* service, uint64_t depth);
  void EvictForRoom();
  uint64_t PlanDepth() const;
  DeviceSpeed DeviceFor(ReadRate* rate) const;
  End WaitForWork(size_t drained);
  End CheckAlive();

  static constexpr size_t kBatch = 512;
  static constexpr uint64_t kMinPlanBytes = 64 << 20;
  static constexpr uint64_t kMissNs = 100 * 1000 * 1000;  // between two misses told to the loader
  static constexpr int kTicksPerCheck = 5;
  static constexpr size_t kRecentFiles = 64;
  static constexpr int kMaxCatchUp = 256;  // batches: somebody may add events all the time
  static constexpr int kMaxSettle = 8;     // rounds of look-ups that a message waits for
  static constexpr uint64_t kMaxSettleNs = 2'000'000'000;  // and no longer: a process may hang

  const Parts parts_;
  const Options options_;
  const int own_tgid_;
  const UniqueFd stop_fd_;
  std::atomic<bool> stop_{false};
  Aggregator aggregator_;
  EventStats stats_;
  std::vector<Event> batch_;
  std::vector<IoResult> results_;
  std::vector<Source> sources_;
  std::vector<pollfd> pollfds_;
  std::vector<uint64_t> recorded_files_;
  std::array<FileCopy, kRecentFiles> recent_files_;  // direct-mapped
  HeldEvents held_;
  std::vector<std::shared_ptr<Settling>> settling_;
  std::unordered_set<uint64_t> asked_files_;
  uint64_t gone_file_ = 0;  // a look-up has just said so
  bool has_lost_ = false;   // the next event is to say so
  uint64_t next_tick_ns_ = 0;
  uint64_t next_room_ns_ = 0;
  uint64_t batch_number_ = 0;  // number
  uint64_t batch_demand_ = 0;
  bool batch_is_above_ = false;  // the policy is to be asked what to drop after the batch
  uint64_t batch_ns_ = 0;        // the clock, read once for all events of a batch
  CacheLook look_;
  PolicyLists lists_;
  bool evict_every_tick_ = false;
  // Counts what may make a policy plan anew for any service, see Service::empty_epoch.
  uint64_t plan_epoch_ = 1;
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_EXECUTOR_H_
