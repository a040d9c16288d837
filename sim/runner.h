// SPDX-License-Identifier: Apache-2.0
// Owns the real runtime with a real policy library in a simulation: its executor, loader threads
// and evictor as fibers over SimBackend.  In place of the pool's condition variables, idle loaders
// are woken when work is submitted, when the evictor made room, and every retry interval.
// Threads: one (and the watchdog's, which has nothing to do).
#ifndef PPC_SIM_RUNNER_H_
#define PPC_SIM_RUNNER_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/exec/runtime.h"
#include "daemon/machine/host_memory.h"
#include "daemon/policy/plugin.h"
#include "sim/sim_backend.h"

namespace ppc::sim {

struct RunnerOptions {
  std::string policy;  // name
  Json config = Json::object();
  std::string directory;  // for templates, and as the root of /proc
  uint32_t nodes = 2;
  uint32_t cpus = 2;
  uint64_t late_ns = 0;  // time that the executor and the evictor wait for a CPU at each turn
  std::vector<int> xpu_nodes;
  std::string path = "/sim";  // of the mount
  uint32_t mount = 0;         // its number
  JobQueue::SimulatedDelay remote_delay;
  // The runtime reads the machine's memory below `directory`, as outside of a simulation, and its
  // share of it.
  bool knows_machine = false;
  uint64_t memory_share = kNoMemoryShare;
};

// Real CPU time of a policy's hooks.
struct HookTimes {
  uint64_t calls = 0;
  uint64_t total_ns = 0;
  uint64_t max_ns = 0;
};

class Runner {
 public:
  Runner(Kernel* kernel, const RunnerOptions& options);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  // In a fiber.
  Status Start();
  Result<Json> Control(const Json& message);
  void Stop();
  // As SIGSTOP and SIGCONT do.
  void Hold();
  void Release();
  bool IsHeld() const { return is_held_; }
  bool HasEnded() const { return has_ended_; }
  Runtime& runtime() { return *runtime_; }
  const HookTimes& hook_times() const { return *hook_times_; }

 private:
  std::vector<Fiber*> Fibers() const;
  void RunExecutor();
  void RunLoader(size_t index);
  void RunEvictor();
  void TurnEnds();
  void BeLate();
  // Runs a job in the executor's fiber and waits for its end.
  void InExecutor(std::function<void()> job);

  Kernel* const kernel_;
  const RunnerOptions options_;
  SimBackend backend_;
  std::unique_ptr<Plugin> plugin_;
  std::unique_ptr<HookTimes> hook_times_ = std::make_unique<HookTimes>();
  std::unique_ptr<Runtime> runtime_;
  std::deque<std::function<void()>> jobs_;
  Fiber* executor_ = nullptr;
  std::vector<Fiber*> askers_;  // waiting for their jobs
  bool has_ended_ = false;      // the executor has dropped the policy
  std::vector<Fiber*> loaders_;
  std::vector<bool> is_idle_;  // by loader
  Fiber* evictor_ = nullptr;
  uint64_t asked_ = 0;
  uint64_t dropped_ = 0;
  bool stopping_ = false;
  bool is_held_ = false;
};

}  // namespace ppc::sim

#endif  // PPC_SIM_RUNNER_H_
