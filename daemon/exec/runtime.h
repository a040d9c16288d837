// SPDX-License-Identifier: Apache-2.0
// Owns one registered policy at work: every part of the runtime, wired.
// Threads: all calls from one thread (the executor's), but RequestStop from any.
#ifndef PPC_DAEMON_EXEC_RUNTIME_H_
#define PPC_DAEMON_EXEC_RUNTIME_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/exec/executor.h"
#include "daemon/exec/runtime_options.h"
#include "daemon/exec/worker.h"
#include "daemon/machine/host_memory.h"

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
  EventLogWriter* recorder = nullptr;
  bool manual = false;  // no threads of our own but the watchdog's: tests, simulator
  // Memory of a service; nullptr = the machine's.
  ServiceTable::MemoryFactory memory;
  // From the watchdog's thread: a hook hangs.  The device is detached already; the process
  // cannot go on with this policy.
  std::function<void(const std::string& message)> on_hang;
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
  // A control message (JSON object with "op"); the answer's members, or why not.
  Result<Json> Control(const Json& message);
  Json StatusJson();

  // What the runtime may keep in the page cache of what the machine has, see kNoMemoryShare.  Any
  // thread.
  void SetMemoryShare(uint64_t bytes) { memory_share_.store(bytes, std::memory_order_relaxed); }
  // What it could keep if it were alone, keeps, and has a use for; bytes.
  Json MemoryJson();

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
  Status AttachAsWanted();
  Status Background(void (*work)(void*), void (*done)(void*), void* arg);
  Result<Json> StartService(const Json& message);
  void EndService(const Service& service);
  Result<Json> AboutProcess(const std::string& op, const Json& message);
  Result<Json> PassOn(const Json& message);
  void OnHang(const char* hook, uint64_t elapsed_ns);
  std::optional<uint64_t> RefreshFile(uint64_t stale);
  void OnDropped(uint64_t bytes);
  ContextFacts Facts();
  std::shared_ptr<MemorySource> MakeMemory(std::shared_ptr<const Cgroup> cgroup);
  uint64_t UsefulBytes() const;
  void BuildParts(const ppc_operation& table);

  Backend* const backend_;
  const RuntimeConfig config_;
  std::atomic<uint64_t> own_cache_{0};
  std::atomic<uint64_t> memory_share_{kNoMemoryShare};
  // When MemoryJson has seen last that something came, and how much had come then.
  uint64_t grew_ns_ = 0;
  uint64_t seen_cache_ = 0;
  uint64_t seen_asked_ = 0;
  Completions completions_;
  DemandMeter demand_;
  uint32_t want_ = 0;
  bool has_want_ = false;  // the policy said what it wants
  uint64_t beacon_bytes_ = 0;
  bool started_ = false;
  bool shut_down_ = false;
  uint64_t started_ns_ = 0;

  std::unique_ptr<FileTable> files_;
  std::unique_ptr<ServiceTable> services_;
  std::unique_ptr<LoaderPool> loader_;
  std::unique_ptr<Evictor> evictor_;
  std::unique_ptr<PolicyServices> policy_services_;
  std::unique_ptr<Watchdog> watchdog_;
  std::unique_ptr<PolicyHost> host_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Worker> background_;  // the policy's slow work
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_RUNTIME_H_
