// SPDX-License-Identifier: Apache-2.0
// Owns the runners of a simulation and what ppcd does for them, by ppcd's own parts: what it
// remembers of services in its state directory and tells a runner that takes over, and how much of
// the machine's memory each of several runners may keep page cache in.
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
  RunnerOptions runner;  // of each, but for what is its own
  uint32_t mounts = 1;   // with a runner each
};

class Supervisor {
 public:
  // Takes up what one before it has left.
  static Result<std::unique_ptr<Supervisor>> Start(Kernel* kernel,
                                                   const SupervisorOptions& options);
  // As by SIGKILL: its runners end with it, and what it remembers is there for the next one.
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  Result<Json> StartService(uint32_t mount, Json message);
  Result<Json> Ready(uint32_t mount, const std::string& id);
  // The runner is killed; so much later there is another, which takes up its services.
  Status KillRunner(uint32_t mount, uint64_t away_ns);
  // It is stopped so long.  If its lease runs out meanwhile it ends, and there is another.
  Status StopRunner(uint32_t mount, uint64_t away_ns);
  // The policies are removed: nothing is remembered.
  void RemoveAll();
  Runtime& runtime(uint32_t mount) { return mounts_[mount].runner->runtime(); }
  const HookTimes& hook_times(uint32_t mount) const { return mounts_[mount].runner->hook_times(); }

 private:
  struct Mount {
    std::string path;
    control::Services services;
    bool has_run = false;
    std::unique_ptr<Runner> runner;
    std::unique_ptr<control::MemoryBroker::Place> memory;  // of the runner that there is
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
