// SPDX-License-Identifier: Apache-2.0
#include "sim/runner.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace ppc::sim {
namespace {

constexpr double kBlindShare = 16;            // as in the runtime
constexpr uint64_t kRetryNs = 100'000'000;    // LoaderOptions::retry_ns
constexpr uint64_t kHookTimeoutMs = 600'000;  // hooks run in real time, which has no meaning here

Topology TopologyOf(const RunnerOptions& options) {
  Topology topology;
  for (uint32_t node = 0; node < options.nodes; ++node) {
    NumaNode one{static_cast<int>(node), {}};
    for (uint32_t cpu = node; cpu < options.cpus; cpu += options.nodes) {
      one.cpus.push_back(static_cast<int>(cpu));
    }
    topology.nodes.push_back(std::move(one));
  }
  for (const int node : options.xpu_nodes) {
    Xpu xpu;
    xpu.node = node;
    topology.xpus.push_back(xpu);
  }
  return topology;
}

constexpr char kHostile[] = "hostile";

// Built for the simulator only, beside its program.
Result<std::string> HostilePolicy() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path path = self.parent_path() / PPC_SIM_HOSTILE;
  if (error || !std::filesystem::exists(path)) {
    return Error{ENOENT, path.string() + " is not there: the policy \"hostile\" exists in a build"};
  }
  return path.string();
}

// The first mount's policy, whose hooks are timed, one at a time.
struct Timed {
  ppc_operation table{};
  HookTimes* times = nullptr;
  const Scheduler* scheduler = nullptr;
} timed;

uint64_t ThreadCpuNs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Times one call.  If a hook waited, other fibers ran on this thread, so its time is unknown.
class HookTimer {
 public:
  HookTimer() : steps_(timed.scheduler->Steps()), begin_ns_(ThreadCpuNs()) {}
  ~HookTimer() {
    if (timed.times == nullptr || timed.scheduler->Steps() != steps_) return;
    const uint64_t ns = ThreadCpuNs() - begin_ns_;
    ++timed.times->calls;
    timed.times->total_ns += ns;
    timed.times->max_ns = std::max(timed.times->max_ns, ns);
  }
  HookTimer(const HookTimer&) = delete;
  HookTimer& operator=(const HookTimer&) = delete;

 private:
  const uint64_t steps_;
  const uint64_t begin_ns_;
};

ppc_operation TimeHooks(const ppc_operation& table, HookTimes* times, const Scheduler* scheduler) {
  timed = Timed{table, times, scheduler};
  ppc_operation out = table;
  if (table.ppc_prefetch != nullptr) {
    out.ppc_prefetch = [](miss_io* miss) {
      const HookTimer timer;
      return timed.table.ppc_prefetch(miss);
    };
  }
  if (table.ppc_evict != nullptr) {
    out.ppc_evict = [](miss_io* miss) {
      const HookTimer timer;
      return timed.table.ppc_evict(miss);
    };
  }
  if (table.ppc_event != nullptr) {
    out.ppc_event = [](const miss_io* event) {
      const HookTimer timer;
      timed.table.ppc_event(event);
    };
  }
  if (table.ppc_plan != nullptr) {
    out.ppc_plan = [](const ppc_plan_request* request) {
      const HookTimer timer;
      return timed.table.ppc_plan(request);
    };
  }
  if (table.ppc_done != nullptr) {
    out.ppc_done = [](const ppc_result* result) {
      const HookTimer timer;
      timed.table.ppc_done(result);
    };
  }
  if (table.ppc_tick != nullptr) {
    out.ppc_tick = [](uint64_t now_ns) {
      const HookTimer timer;
      timed.table.ppc_tick(now_ns);
    };
  }
  return out;
}

}  // namespace

Runner::Runner(Kernel* kernel, const RunnerOptions& options)
    : kernel_(kernel), options_(options), backend_(kernel, options.mount) {}

Runner::~Runner() { Stop(); }

Status Runner::Start() {
  Result<std::string> path =
      options_.policy == kHostile ? HostilePolicy() : FindPolicy(options_.policy);
  if (!path) return path.error();
  // One library serves one host per process and is loaded once per path: other mounts get a copy.
  if (options_.mount > 0) {
    const std::string libraries = options_.directory + "/policies";
    const std::string copy = libraries + "/" + std::to_string(options_.mount);
    std::error_code error;
    std::filesystem::create_directory(libraries, error);
    std::filesystem::copy_file(*path, copy, std::filesystem::copy_options::overwrite_existing,
                               error);
    if (error) return Error{error.value(), "copy " + *path + " to " + copy};
    path = copy;
  }
  Result<std::unique_ptr<Plugin>> plugin =
      Plugin::Open(*path, PluginOptions{.allow_any_owner = true});
  if (!plugin) return plugin.error();
  plugin_ = std::move(*plugin);
  const Result<RuntimeOptions> parsed =
      ParseRuntimeOptions(options_.config.value("runtime", Json::object()));
  if (!parsed) return parsed.error();
  RuntimeConfig config;
  config.mount = options_.path;
  config.policy_name = options_.policy;
  config.config = DumpJson(options_.config);
  config.options = *parsed;
  config.options.hook_timeout_ms = kHookTimeoutMs;
  config.options.template_dir = options_.directory;
  config.roots = SysRoots{options_.directory, options_.directory};
  config.topology = TopologyOf(options_);
  config.manual = true;
  config.remote_delay = options_.remote_delay;
  const double share = parsed->is_blind ? kBlindShare : parsed->threshold;
  const uint64_t limit = parsed->limit_bytes;
  if (!options_.knows_machine)
    config.memory = [this, share, limit](const std::shared_ptr<const Cgroup>&) {
      return std::make_shared<SimMemory>(&kernel_->cache(), share, limit);
    };
  const ppc_operation table =
      options_.mount > 0 ? plugin_->table()
                         : TimeHooks(plugin_->table(), hook_times_.get(), &kernel_->scheduler());
  runtime_ = std::make_unique<Runtime>(&backend_, table, std::move(config));
  runtime_->SetMemoryShare(options_.memory_share);
  backend_.OnWait([this] { TurnEnds(); });
  Status started = Ok();
  Scheduler& scheduler = kernel_->scheduler();
  executor_ = scheduler.Spawn([this] { RunExecutor(); });
  const int threads = runtime_->loader().Threads() + runtime_->loader().SmallThreads();
  is_idle_.assign(static_cast<size_t>(threads), false);
  for (int i = 0; i < threads; ++i) {
    loaders_.push_back(scheduler.Spawn([this, i] { RunLoader(static_cast<size_t>(i)); }));
  }
  evictor_ = scheduler.Spawn([this] { RunEvictor(); });
  InExecutor([&] { started = runtime_->Start(); });
  return started;
}

void Runner::InExecutor(std::function<void()> job) {
  if (has_ended_) return;
  bool done = false;
  Fiber* const self = kernel_->scheduler().Current();
  askers_.push_back(self);
  jobs_.emplace_back([&] {
    job();
    done = true;
    kernel_->scheduler().Wake(self);
  });
  backend_.EndWait();
  kernel_->scheduler().Wake(executor_);
  while (!done && !has_ended_) kernel_->scheduler().Wait();
  std::erase(askers_, self);
  if (!done) jobs_.clear();  // jobs hold references to this frame
}

void Runner::BeLate() {
  const uint64_t end = kernel_->scheduler().NowNs() + options_.late_ns;
  while (kernel_->scheduler().NowNs() < end) kernel_->scheduler().SleepUntil(end);
}

void Runner::RunExecutor() {
  // The first job is Start; nothing runs before it.
  bool started = false;
  while (!stopping_) {
    while (!jobs_.empty()) {
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      job();
      started = true;
    }
    if (stopping_) return;
    if (!started) {
      kernel_->scheduler().Wait();
      continue;
    }
    BeLate();
    if (runtime_->executor().RunOnce() == Executor::End::kRunning) continue;
    // The policy was dropped; pending callers get no answer.
    has_ended_ = true;
    for (Fiber* asker : askers_) kernel_->scheduler().Wake(asker);
    return;
  }
}

void Runner::TurnEnds() {
  const uint64_t asked = runtime_->loader().Stats().asked;
  const EvictorStats evicted = runtime_->evictor().Stats();
  if (asked != asked_ || evicted.dropped != dropped_) {
    for (size_t i = 0; i < loaders_.size(); ++i) {
      if (is_idle_[i]) kernel_->scheduler().Wake(loaders_[i]);
    }
  }
  asked_ = asked;
  dropped_ = evicted.dropped;
  kernel_->scheduler().Wake(evictor_);
}

void Runner::RunLoader(size_t index) {
  while (!stopping_) {
    if (runtime_->loader().RunSlice(index)) {
      backend_.EndWait();
      continue;
    }
    is_idle_[index] = true;
    kernel_->scheduler().Sleep(kRetryNs);
    is_idle_[index] = false;
  }
}

void Runner::RunEvictor() {
  while (!stopping_) {
    if (runtime_->evictor().Stats().queued > 0) BeLate();
    if (runtime_->evictor().RunOne()) {
      backend_.EndWait();
    } else {
      kernel_->scheduler().Wait();
    }
  }
}

Result<Json> Runner::Control(const Json& message) {
  Result<Json> answer = Error{ECANCELED, "not asked"};
  InExecutor([&] { answer = runtime_->Control(message); });
  return answer;
}

std::vector<Fiber*> Runner::Fibers() const {
  std::vector<Fiber*> all = loaders_;
  all.push_back(evictor_);
  all.push_back(executor_);
  return all;
}

void Runner::Hold() {
  is_held_ = true;
  for (Fiber* fiber : Fibers()) kernel_->scheduler().Hold(fiber);
}

void Runner::Release() {
  is_held_ = false;
  for (Fiber* fiber : Fibers()) kernel_->scheduler().Release(fiber);
}

void Runner::Stop() {
  if (std::exchange(stopping_, true) || runtime_ == nullptr) return;
  Scheduler& scheduler = kernel_->scheduler();
  for (Fiber* fiber : Fibers()) scheduler.Kill(fiber);
  if (scheduler.Current() != nullptr) scheduler.Sleep(0);
  runtime_->Shutdown();
}

}  // namespace ppc::sim
