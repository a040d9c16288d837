// SPDX-License-Identifier: Apache-2.0
// Owns one registered policy at work: every part of the runtime, wired.
// Threads: all calls from one thread (the executor's), but RequestStop from any, and those that say
// otherwise.
#ifndef PPC_DAEMON_EXEC_RUNTIME_H_
#define PPC_DAEMON_EXEC_RUNTIME_H_

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/exec/executor.h"
#include "daemon/exec/guard.h"
#include "daemon/exec/job_queue.h"
#include "daemon/exec/learnt_programs.h"
#include "daemon/exec/runtime_options.h"
#include "daemon/machine/host_memory.h"
#include "daemon/machine/io_neighbours.h"

namespace ppc {

struct RuntimeConfig {
  std::string mount;
  std::string policy_name;  // label
  std::string config = "{}";
  RuntimeOptions options;
  SysRoots roots;
  Topology topology;
  // The makers' libraries; nullptr = they are not asked.
  std::shared_ptr<const VendorXpus> vendor_xpus;
  EventRecorder* recorder = nullptr;
  bool manual = false;  // no threads of our own but the watchdog's: tests, simulator
  JobQueue::SimulatedDelay
      remote_delay;  // of the policy's work that waits for other machines, if manual
  // Memory of a service; nullptr = the machine's.
  ServiceTable::MemoryFactory memory;
  // From the watchdog's thread: a hook hangs.  The device is detached already; the process
  // cannot go on with this policy.
  std::function<void(const std::string& message)> on_hang;
  // From the control queue's thread: the readers of an open service have begun another start.
  std::function<void(const std::string& service_id)> on_start_again;
};

// What the executor's thread knows for a status, copied; the rest any thread can find out.
struct StatusParts {
  struct OneService {
    std::string id;
    uint32_t number = 0;
    std::vector<int> xpus;
    std::string cgroup;
    std::string note;
    std::weak_ptr<Payer> payer;  // that of a service that has ended is not kept
    bool is_charged = false;
    uint64_t read_limit = 0;
    Budget::State memory;  // of the last look
    uint64_t looked_ns = 0;
    bool is_auto = false;
    std::optional<GuardView> guard;
  };
  struct OneHook {
    Hook hook;
    HookStats stats;
  };
  uint64_t gathered_ns = 0;  // CLOCK_MONOTONIC
  Result<BackendCounters> device{BackendCounters{}};
  ExecutorStats events;
  uint64_t merged = 0;
  std::vector<OneHook> hooks;
  uint64_t faults = 0;
  std::string last_fault;
  uint64_t demand = 0;
  std::vector<OneService> services;
  std::optional<LearntPrograms::Stats> learnt;
};

// A control message on its way: prepared and concluded where waiting does no harm, applied by the
// executor's thread.
struct ControlCall {
  Json message;
  std::string op;
  std::string id;                    // of the service it is about
  std::unique_ptr<Service> service;  // "service_start": to be installed
  bool restarts = false;             // under a known name
  uint32_t number = 0;
  int pid = 0;  // "bind_pid": to be bound
  uint64_t start_ns = 0;
  bool passes = false;                       // the policy is asked
  std::string text;                          // what it is asked
  std::optional<Result<std::string>> reply;  // what it said
  std::optional<Error> error;                // set: nothing is applied
  Json answer = Json::object();              // what the runtime itself says
};

class Runtime {
 public:
  // backend must outlive this; table is copied.
  Runtime(Backend* backend, const ppc_operation& table, RuntimeConfig config);
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Attaches, calls ppc_init, and asks for the events the policy wants.  After an error
  // nothing is attached.
  Status Start();
  // A control message (JSON object with "op"); the answer's members, or why not.  For a
  // manual runtime; one with threads answers as below.
  Result<Json> Control(const Json& message);
  Json StatusJson() { return StatusJson(GatherStatus()); }

  // The same on any other thread, however long a hook takes: then what only the executor's thread
  // knows is of its last answer, `age_ms` ago, and `waits_for` names the hook.
  Json StatusNow();
  // `done` is called on the control queue's thread.  One after the other.
  void Control(Json message, const std::function<void(Result<Json>)>& done);
  // work() on the control queue's thread, then done() on the executor's; either may be empty.
  void Do(const std::function<void()>& work, const std::function<void()>& done);
  // job() on the executor's thread, by any other.
  void Tell(std::function<void()> job) { control_->Tell(std::move(job)); }
  // After Shutdown: a thread waits for a process that hangs, and so would the destructor.
  bool IsStuck() const { return is_stuck_; }

  // What the runtime may keep in the page cache of what the machine has, see kNoMemoryShare.  Any
  // thread.
  void SetMemoryShare(uint64_t bytes) { memory_share_.store(bytes, std::memory_order_relaxed); }
  // What it could keep if it were alone, keeps, and has a use for; bytes.  In two parts, like the
  // status.
  std::vector<std::shared_ptr<const Cgroup>> ServiceCgroups() const;
  Json MemoryJson(const std::vector<std::shared_ptr<const Cgroup>>& groups);
  // The supervisor's "reads": what of the limits of reading is ours.  Any thread.
  void SetReadShares(const Json& reads);

  Executor::End Run() { return executor_->Run(); }
  Executor& executor() { return *executor_; }
  LoaderPool& loader() { return *loader_; }
  Evictor& evictor() { return *evictor_; }
  PolicyHost& host() { return *host_; }
  ServiceTable& services() { return *services_; }
  void RequestStop() { executor_->RequestStop(); }

  // Detaches (native policy in force), lets what is queued to be dropped finish, interrupts
  // loads, waits for the policy's background work, calls ppc_exit.  Again does nothing.
  void Shutdown();

 private:
  Status Want(uint32_t want, uint64_t beacon_bytes);
  void AttachAnew();
  Status AttachAsWanted();
  Status Background(JobQueue* queue, void (*work)(void*), void (*done)(void*), void* arg);
  // As Do, for what reads of a process; false: too many wait already.
  bool LookUp(std::function<void()> work, std::function<void()> done);
  // On the control queue, on the executor's thread, on the control queue again.
  void Prepare(ControlCall* call);
  void Apply(ControlCall* call);
  Result<Json> Conclude(ControlCall* call);
  void PrepareStart(ControlCall* call);
  void PrepareProcess(ControlCall* call);
  void EndService(const std::string& id);
  void UndoStart(const ControlCall& call);
  void TellNeighbours();
  void OnHang(const char* hook, uint64_t elapsed_ns);
  void OnDropped(uint64_t bytes);
  bool DoNeighboursWait(uint64_t now_ns);
  StatusParts GatherStatus();
  void NoteStatus();
  Json StatusJson(const StatusParts& parts);
  ContextFacts Facts();
  std::shared_ptr<MemorySource> MakeMemory(std::shared_ptr<const Cgroup> cgroup);
  uint64_t UsefulBytes(const std::vector<std::shared_ptr<const Cgroup>>& groups) const;
  void BuildParts(const ppc_operation& table);

  Backend* const backend_;
  const RuntimeConfig config_;
  std::atomic<uint64_t> own_cache_{0};
  const std::shared_ptr<HostReadings> readings_ = std::make_shared<HostReadings>();
  std::atomic<uint64_t> memory_share_{kNoMemoryShare};
  IoNeighbours neighbours_;
  uint64_t neighbours_wait_ns_ = 0;  // when they did last
  // When MemoryJson has seen last that something came, and how much had come then.
  uint64_t grew_ns_ = 0;
  uint64_t seen_cache_ = 0;
  uint64_t seen_asked_ = 0;
  // The last status that the executor's thread has gathered.
  struct {
    std::mutex mutex;
    std::condition_variable changed;
    std::shared_ptr<const StatusParts> parts;
    bool is_due = false;  // another one was asked for
  } noted_;
  Completions completions_;
  DemandMeter demand_;
  uint32_t want_ = 0;
  bool has_want_ = false;  // the policy said what it wants
  uint64_t beacon_bytes_ = 0;
  bool started_ = false;
  bool shut_down_ = false;
  bool is_stuck_ = false;
  uint64_t started_ns_ = 0;

  std::unique_ptr<FileTable> files_;
  std::unique_ptr<ServiceTable> services_;
  std::unique_ptr<Guard> guard_;  // nullptr: switched off
  std::unique_ptr<LoaderPool> loader_;
  std::unique_ptr<Evictor> evictor_;
  std::unique_ptr<PolicyServices> policy_services_;
  std::unique_ptr<Watchdog> watchdog_;
  std::unique_ptr<PolicyHost> host_;
  std::unique_ptr<LearntPrograms> learnt_;  // nullptr: no start is guessed
  std::unique_ptr<AutoServices> autos_;     // nullptr: the policy knows no services
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<JobQueue> background_;  // the policy's slow work
  std::unique_ptr<JobQueue> remote_;      // the policy's, that waits for other machines
  std::unique_ptr<JobQueue> control_;     // short: names of files, memory, messages, status
  std::unique_ptr<JobQueue> lookups_;  // readers: /proc/PID/environ waits for the process's memory
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_RUNTIME_H_
