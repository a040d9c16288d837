// SPDX-License-Identifier: Apache-2.0
// Owns the runners of a simulation and ppcd's work for them, with ppcd's own parts: what it
// remembers of services in its state directory and tells a runner that takes over, and each
// runner's share of the machine's memory for page cache.
//
// Calls are made from a fiber.
// Threads: one.
#ifndef PPC_SIM_SUPERVISOR_H_
#define PPC_SIM_SUPERVISOR_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/supervisor/memory_broker.h"
#include "daemon/supervisor/services.h"
#include "daemon/supervisor/state_dir.h"
#include "sim/runner.h"

namespace ppc::sim {

struct SupervisorOptions {
  RunnerOptions runner;  // for each, except its own members
  uint32_t mounts = 1;   // each with a runner
};

class Supervisor {
 public:
  // Takes over the state of an earlier supervisor.
  static Result<std::unique_ptr<Supervisor>> Start(Kernel* kernel,
                                                   const SupervisorOptions& options);
  // As by SIGKILL: its runners end with it; its state stays for the next one.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  Result<Json> StartService(uint32_t mount, Json message);
  Result<Json> Ready(uint32_t mount, const std::string& id);
  // Kills the runner; after away_ns another one takes up its services.
  Status KillRunner(uint32_t mount, uint64_t away_ns);
  // Stops the runner for away_ns.  If its lease runs out meanwhile it ends, and another one starts.
  Status StopRunner(uint32_t mount, uint64_t away_ns);
  // Removes the policies and all state.
  void RemoveAll();
  Runtime& runtime(uint32_t mount) { return mounts_[mount].runner->runtime(); }
  const HookTimes& hook_times(uint32_t mount) const { return mounts_[mount].runner->hook_times(); }

 private:
  struct Mount {
    std::string path;
    control::Services services;
    bool has_run = false;
    std::unique_ptr<Runner> runner;
    std::unique_ptr<control::MemoryBroker::Client> memory;  // of the current runner
  };

  Supervisor(Kernel* kernel, const SupervisorOptions& options, control::StateDir state,
             std::unique_ptr<control::EventLoop> loop);
  void Restore();
  Status StartRunner(uint32_t mount);
  void EndRunner(uint32_t mount);
  void Replay(Mount* mount);
  void AskForMemory(uint32_t mount, std::optional<uint64_t> share,
                    const control::MemoryBroker::AnswerHandler& done);
  void Save(const Mount& mount);
  void RunTimers();

  Kernel* const kernel_;
  const SupervisorOptions options_;
  const control::StateDir state_;
  const std::unique_ptr<control::EventLoop> loop_;
  control::MemoryBroker memory_;
  std::vector<Mount> mounts_;
  Fiber* timers_ = nullptr;
};

}  // namespace ppc::sim

#endif  // PPC_SIM_SUPERVISOR_H_
