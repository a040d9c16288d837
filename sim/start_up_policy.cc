// SPDX-License-Identifier: Apache-2.0
// The system under test in a start-up: its policies, the messages to them, and their failures.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "sim/start_up.h"

namespace ppc::sim {
namespace {

constexpr int kLauncherPid = 800'000'000;  // the parent of all services
constexpr uint64_t kMemInfoNs = 2'000'000;
constexpr double kSettleS = 60;  // after a failure of the system

// A process without an environment, which the runtime finds in /proc.
void WriteLauncher(const Scheduler& scheduler, const std::string& proc) {
  Process process{.pid = kLauncherPid};
  MakeProcess(scheduler, &process, -1, proc);
  std::ofstream stat(proc + "/proc/" + std::to_string(kLauncherPid) + "/stat");
  stat << kLauncherPid << " (launcher) S";
  for (int field = 4; field <= 52; ++field) stat << " 1";
  stat << "\n";
}

}  // namespace

uint32_t StartUp::Mounts() const {
  return 1 + static_cast<uint32_t>(
                 std::count_if(s_.others.begin(), s_.others.end(),
                               [](const OtherService& o) { return o.has_own_policy; }));
}

uint32_t StartUp::MountOf(size_t other) const {
  if (!s_.others[other].has_own_policy) return 0;
  uint32_t mount = 1;
  for (size_t i = 0; i < other; ++i) mount += s_.others[i].has_own_policy ? 1 : 0;
  return mount;
}

Status StartUp::StartSupervisor() {
  SupervisorOptions options;
  options.runner.policy = s_.system.policy;
  options.runner.config = s_.system.config;
  options.runner.directory = directory_;
  options.runner.nodes = s_.nodes;
  options.runner.cpus = s_.cpu.cpus;
  options.runner.late_ns = static_cast<uint64_t>(s_.late_ms * 1e6);
  options.runner.xpu_nodes = xpu_nodes_;
  options.mounts = Mounts();
  if (s_.system.store_late_s > 0 || s_.system.is_store_lost) {
    constexpr size_t kKind = 4;  // length of "dir:"
    const std::string place = s_.system.config.value("store", "dir:").substr(kKind);
    const auto late_ns = static_cast<uint64_t>(s_.system.store_late_s * 1e9);
    const uint64_t lost_after = s_.system.is_store_lost ? s_.system.store_lost_after : 0;
    if (store_ == nullptr)
      store_ = std::make_unique<SharedStore>(scheduler_.get(), place,
                                             SharedStore::Options{late_ns, lost_after});
    options.runner.remote_delay = store_->AnswerDelay();
  }
  Result<std::unique_ptr<Supervisor>> started = Supervisor::Start(kernel_.get(), options);
  if (!started) return started.error();
  supervisor_ = std::move(*started);
  return Ok();
}

// Publishes the machine's memory for several runners.
void StartUp::TellMemory() {
  WriteMemInfo(*cache_, directory_);
  if (!done_) scheduler_->At(scheduler_->NowNs() + kMemInfoNs, [this] { TellMemory(); });
}

// Loads in flight at that moment are lost; queued drops are done.
Status StartUp::InjectFault() {
  const auto away_ns = static_cast<uint64_t>(s_.system.away_s * 1e9);
  switch (s_.system.fault) {
    case Fault::kRunnerKilled:
      return supervisor_->KillRunner(0, away_ns);
    case Fault::kRunnerStopped:
      return supervisor_->StopRunner(0, away_ns);
    case Fault::kSupervisorKilled:
      break;
  }
  supervisor_.reset();
  scheduler_->Sleep(away_ns);
  return StartSupervisor();
}

void StartUp::InjectFaultAt(uint64_t disk_bytes) {
  constexpr uint64_t kLookNs = 10'000'000;
  while (!is_served_ && disk_->stats().bytes < disk_bytes) scheduler_->Sleep(kLookNs);
  if (is_served_) return;
  is_away_ = true;
  status_ = InjectFault();
  is_away_ = false;
}

void StartUp::InjectFaultAfterReady() {
  scheduler_->Sleep(static_cast<uint64_t>(s_.system.dies_after_ready_s * 1e9));
  const uint64_t evicted = cache_->stats().evicted;
  const uint64_t read = disk_->stats().bytes;
  status_ = InjectFault();
  scheduler_->Sleep(static_cast<uint64_t>(kSettleS * 1e9));
  result_.restart_evicted = cache_->stats().evicted - evicted;
  result_.restart_read = disk_->stats().bytes - read;
}

Status StartUp::StartPolicy() {
  if (Mounts() > 1) TellMemory();
  Status started = StartSupervisor();
  if (!started) return started;
  result_.zero_ns = scheduler_->NowNs();
  if (!s_.strangers.empty()) WriteLauncher(*scheduler_, directory_);
  if (s_.system.is_told) started = StartService(0, ServiceOf());
  if (!started) return started;
  if (s_.system.lead_s > 0) {
    scheduler_->Sleep(static_cast<uint64_t>(s_.system.lead_s * 1e9));
    result_.zero_ns = scheduler_->NowNs();
  } else {
    scheduler_->Sleep(static_cast<uint64_t>(s_.system.hook_s * 1e9));
  }
  return Ok();
}

// XPUs are assigned in the order of the services.
Status StartUp::StartService(uint32_t mount, const ServiceOptions& service) {
  uint32_t first = service.number > 0 ? s_.service.workers : 0;
  for (uint32_t i = 1; i < service.number; ++i) first += s_.others[i - 1].service.workers;
  Json message{{"op", "service_start"}, {"service_id", service.id}, {"workers", service.workers}};
  if (!service.params.is_null()) message["params"] = service.params;
  std::vector<int> xpus;
  for (uint32_t i = 0; !s_.observes && i < service.workers; ++i)
    xpus.push_back(static_cast<int>(first + i));
  message["xpus"] = xpus;
  if (service.of_nodes > 1) {
    message["node"] = service.on_node;
    message["nodes"] = service.of_nodes;
  }
  // The group only pays: membership of processes is told otherwise.
  const std::string group =
      ControlGroupOf(directory_, static_cast<PayerId>(kServicePays + service.number));
  std::error_code error;
  std::filesystem::create_directories(group, error);
  message["cgroup"] = group;
  message["by_cgroup"] = false;
  // With a PID in the message, the runtime takes no other process for the service.
  if (!s_.strangers.empty()) message["pid"] = kLauncherPid;
  const Result<Json> answer = supervisor_->StartService(mount, std::move(message));
  if (!answer && answer.error().code != ENOTSUP) return answer.error();
  return Ok();
}

void StartUp::SendReady(uint32_t mount, const std::string& id, Json* told) {
  const Result<Json> answer = supervisor_->Ready(mount, id);
  if (answer && told != nullptr) *told = *answer;
}

}  // namespace ppc::sim
