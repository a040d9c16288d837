// SPDX-License-Identifier: Apache-2.0
#include "sim/supervisor.h"

#include <algorithm>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/machine/host_memory.h"

namespace ppc::sim {
namespace {

using control::EventLoop;
using control::MemoryBroker;
using control::Millis;
using control::StateDir;

constexpr Millis kMemoryPeriod{200};          // as in ppcd
constexpr uint64_t kRestartNs = 100'000'000;  // of a runner that ended by itself

SysRoots RootsOf(const SupervisorOptions& options) {
  return SysRoots{options.runner.directory, options.runner.directory};
}

}  // namespace

Result<std::unique_ptr<Supervisor>> Supervisor::Start(Kernel* kernel,
                                                      const SupervisorOptions& options) {
  Result<StateDir> state = StateDir::Open(options.runner.directory + "/state");
  if (!state) return state.error();
  Result<std::unique_ptr<EventLoop>> loop =
      EventLoop::Create([kernel] { return kernel->scheduler().NowNs(); });
  if (!loop) return loop.error();
  std::unique_ptr<Supervisor> self(
      new Supervisor(kernel, options, std::move(*state), std::move(*loop)));
  self->Restore();
  for (uint32_t mount = 0; mount < options.mounts; ++mount) {
    if (const Status started = self->StartRunner(mount); !started) return started.error();
  }
  return self;
}

Supervisor::Supervisor(Kernel* kernel, const SupervisorOptions& options, StateDir state,
                       std::unique_ptr<EventLoop> loop)
    : kernel_(kernel),
      options_(options),
      state_(std::move(state)),
      loop_(std::move(loop)),
      memory_(*loop_, kMemoryPeriod,
              [roots = RootsOf(options)]() -> std::optional<MemoryBroker::Machine> {
                const Result<HostMemory> host = ReadHostMemory(roots, {});
                if (!host) return std::nullopt;
                return MemoryBroker::Machine{host->available, host->files};
              }) {
  mounts_.resize(options.mounts);
  for (uint32_t i = 0; i < options.mounts; ++i)
    mounts_[i].path = i == 0 ? "/sim" : "/sim" + std::to_string(i);
  timers_ = kernel_->scheduler().Spawn([this] { RunTimers(); });
}

Supervisor::~Supervisor() {
  kernel_->scheduler().Kill(timers_);
  for (uint32_t mount = 0; mount < options_.mounts; ++mount) EndRunner(mount);
}

// Waits for the next timer, or until an earlier one may be set.
void Supervisor::RunTimers() {
  while (true) {
    const std::optional<uint64_t> next = loop_->RunTimers();
    kernel_->scheduler().SleepUntil(next.value_or(~uint64_t{0}));
  }
}

void Supervisor::Restore() {
  std::vector<std::string> problems;
  for (const Json& saved : state_.LoadAll(problems)) {
    for (Mount& mount : mounts_) {
      if (saved.value("mount", "") != mount.path) continue;
      mount.services.Restore(saved.value("services", Json::array()));
      mount.has_run = true;
    }
  }
}

void Supervisor::Save(const Mount& mount) {
  (void)state_.Save(mount.path, "{\"mount\":" + DumpJson(mount.path) +
                                    ",\"services\":" + mount.services.Save("") + "}");
}

Status Supervisor::StartRunner(uint32_t number) {
  Mount& mount = mounts_[number];
  RunnerOptions options = options_.runner;
  options.path = mount.path;
  options.mount = number;
  options.knows_machine = options_.mounts > 1;
  mount.memory = memory_.Enter();
  options.memory_share = mount.memory->FirstShare().value_or(kNoMemoryShare);
  mount.runner = std::make_unique<Runner>(kernel_, options);
  if (const Status started = mount.runner->Start(); !started) return started;
  if (std::exchange(mount.has_run, true)) Replay(&mount);
  mount.memory->Begin(
      [this, number](std::optional<uint64_t> share, const MemoryBroker::AnswerHandler& done) {
        AskForMemory(number, share, done);
      });
  kernel_->scheduler().Wake(timers_);
  Save(mount);
  return Ok();
}

void Supervisor::EndRunner(uint32_t mount) {
  if (mounts_[mount].runner == nullptr) return;
  mounts_[mount].runner->Stop();
  mounts_[mount].runner.reset();
  mounts_[mount].memory.reset();
  kernel_->scheduler().Wake(timers_);
}

// As PolicyMessages::TellServices.
void Supervisor::Replay(Mount* mount) {
  for (const control::Service* service : mount->services.InOrder()) {
    const Result<Json> reply = mount->runner->Control(service->Resumption());
    if (reply && service->is_ready)
      (void)mount->runner->Control({{"op", "service_ready"}, {"service_id", service->id}});
  }
}

void Supervisor::AskForMemory(uint32_t mount, std::optional<uint64_t> share,
                              const MemoryBroker::AnswerHandler& done) {
  Runner* const runner = mounts_[mount].runner.get();
  if (runner == nullptr || runner->IsHeld()) return done(std::nullopt);
  runner->runtime().SetMemoryShare(share.value_or(kNoMemoryShare));
  const Json said = runner->runtime().MemoryJson(runner->runtime().ServiceCgroups());
  done(control::MemoryReport{said["budget"], said["keeps"], said["wants"], false});
}

Result<Json> Supervisor::StartService(uint32_t number, Json message) {
  Mount& mount = mounts_[number];
  control::Service service;
  service.id = message.value("service_id", "");
  const Result<uint32_t> free = mount.services.NumberFor(service.id);
  if (!free) return free.error();
  message["service"] = service.number = *free;
  service.message = message;
  service.is_pending = false;
  Result<Json> reply = mount.runner->Control(message);
  if (!reply) return reply;
  service.TakeNumber(*reply);
  mount.services.Put(std::move(service));
  Save(mount);
  return reply;
}

Result<Json> Supervisor::Ready(uint32_t number, const std::string& id) {
  Mount& mount = mounts_[number];
  if (control::Service* service = mount.services.Find(id)) service->is_ready = true;
  Save(mount);
  return mount.runner->Control({{"op", "service_ready"}, {"service_id", id}});
}

Status Supervisor::KillRunner(uint32_t mount, uint64_t away_ns) {
  EndRunner(mount);
  kernel_->scheduler().Sleep(away_ns);
  return StartRunner(mount);
}

Status Supervisor::StopRunner(uint32_t mount, uint64_t away_ns) {
  Runner* const runner = mounts_[mount].runner.get();
  const uint64_t lease_ns = kernel_->device(mount).options.lease_ms * kNsPerMs;
  runner->Hold();
  kernel_->scheduler().Sleep(std::min(away_ns, lease_ns));
  if (away_ns > lease_ns) {
    kernel_->Expire(mount);
    kernel_->scheduler().Sleep(away_ns - lease_ns);
  }
  runner->Release();
  if (away_ns <= lease_ns) return Ok();
  kernel_->scheduler().Sleep(kRestartNs);
  if (!runner->HasEnded()) return Error{EBUSY, "the runner goes on without its lease"};
  return KillRunner(mount, 0);
}

void Supervisor::RemoveAll() {
  for (uint32_t mount = 0; mount < options_.mounts; ++mount) {
    EndRunner(mount);
    state_.Remove(mounts_[mount].path);
  }
}

}  // namespace ppc::sim
