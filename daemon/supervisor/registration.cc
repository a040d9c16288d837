// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/registration.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/wire/exit_codes.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {
namespace {

std::string HowItEnded(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    const char* name = sigabbrev_np(signal);
    return "was killed by signal " + std::to_string(signal) +
           (name == nullptr ? "" : std::string(" (SIG") + name + ")");
  }
  const int status = WEXITSTATUS(wait_status);
  if (status == kExitExpired) return "ended because its lease had run out while it did not run";
  return "exited with status " + std::to_string(status);
}

}  // namespace

const char* Registration::ShownState() const {
  switch (state_) {
    case State::kStarting:
      return "starting";
    case State::kRunning:
      return runner_ && runner_->IsStopped() ? "stopped" : "running";
    case State::kDraining:
      return "draining";
    case State::kRestarting:
      return "restarting";
    case State::kFailed:
      return "failed";
  }
  return "failed";
}

Registration::Registration(const Environment& environment, MountInfo mount, PolicyChoice choice,
                           std::string handle, Callbacks callbacks)
    : environment_(environment),
      mount_(std::move(mount)),
      choice_(std::move(choice)),
      handle_(std::move(handle)),
      callbacks_(std::move(callbacks)) {}

Registration::~Registration() {
  for (const EventLoop::TimerId& timer : {back_off_timer_, drain_timer_, watch_timer_}) {
    environment_.loop.Cancel(timer);
  }
}

std::string Registration::RunnerName() const {
  return mount_.is_plain ? handle_ : std::to_string(mount_.index);
}

std::string Registration::Backend() const {
  return backend_.empty() ? BackendName(choice_.backend) : backend_;
}

bool Registration::Serves(BackendKind kind) const {
  return kind == BackendKind::kAuto || kind == choice_.backend || BackendName(kind) == Backend() ||
         (kind == BackendKind::kKmod && !mount_.is_plain);
}

Error Registration::Gone() const {
  return Error{ENODEV, mount_.path + (mount_.is_plain ? " is gone" : " was unmounted")};
}

void Registration::Start(StatusHandler done) {
  start_waiters_.push_back(std::move(done));
  SpawnRunner();
}

void Registration::Resume() {
  has_run_ = true;
  state_ = State::kRestarting;
  SpawnRunner();
}

void Registration::WhenStarted(StatusHandler done) {
  if (state_ == State::kStarting) {
    start_waiters_.push_back(std::move(done));
  } else {
    done(Ok());
  }
}

// Where policies note how far their services are: whoever comes after this runner goes on there.
void Registration::LendCheckpoints(Json& init, std::vector<UniqueFd>& lent) {
  Result<UniqueFd> file = environment_.state.OpenCheckpoints(mount_.path, /*is_fresh=*/!has_run_);
  if (!file) {
    return Log(LogLevel::kWarning, {mount_.path, ""},
               "a service whose runner dies in the middle of "
               "its load starts over: " +
                   file.error().message);
  }
  init["checkpoints"] = kRunnerLentFd + lent.size();
  lent.push_back(std::move(*file));
}

// Programs for a runner that may want them; without, it tries by itself and says what is missing.
void Registration::LendPrograms(Json& init, std::vector<UniqueFd>& lent) {
  const bool may_observe =
      choice_.backend == BackendKind::kAuto || choice_.backend == BackendKind::kObserver;
  if (!mount_.is_plain || !may_observe) return;
  if (observer_ == nullptr) {
    Result<std::unique_ptr<ObserverHub::Place>> place = environment_.observers.Enter();
    if (!place) {
      return Log(LogLevel::kDebug, {mount_.path, ""}, place.error().message);
    }
    observer_ = std::move(*place);
  }
  Result<ObserverFds> fds = observer_->Share();
  if (!fds) return;
  init["lent"] = Json{{"observer", observer_->Directory()},
                      {"first_descriptor", kRunnerLentFd + lent.size()},
                      {"descriptors", fds->size()}};
  std::move(fds->begin(), fds->end(), std::back_inserter(lent));
}

void Registration::SpawnRunner() {
  was_dropped_ = false;
  init_error_.clear();
  Result<std::string> cgroup = environment_.cgroups.MakeRunnerGroup(RunnerName());
  if (!cgroup) {
    Log(LogLevel::kDebug, {mount_.path, ""},
        "runner stays in ppcd's cgroup: " + cgroup.error().message);
  }
  RunnerProcess::Callbacks callbacks;
  callbacks.on_event = [this](const Json& event) { HandleEvent(event); };
  callbacks.on_exit = [this](int wait_status) { HandleExit(wait_status); };
  const auto runtime = choice_.config.find("runtime");
  Json init{{"op", "init"},
            {"mount", mount_.path},
            {"backend", BackendName(choice_.backend)},
            {"policy", choice_.path},
            {"config", choice_.config},
            {"template_dir", environment_.options.template_dir},
            {"runtime", runtime == choice_.config.end() ? Json::object() : *runtime}};
  reads_ = environment_.reads.Enter();
  init["reads"] = ReadSharesJson(reads_->Tell());
  if (!mount_.is_plain) init["device"] = mount_.Key();
  memory_ = environment_.memory.Enter();
  if (const std::optional<uint64_t> share = memory_->FirstShare()) init["memory_share"] = *share;
  std::vector<UniqueFd> lent;
  LendCheckpoints(init, lent);
  LendPrograms(init, lent);
  Result<std::unique_ptr<RunnerProcess>> runner =
      RunnerProcess::Spawn(environment_.loop, environment_.options.runner, cgroup ? *cgroup : "",
                           lent, std::move(callbacks));
  if (!runner) {
    memory_.reset();
    reads_.reset();
    init_error_ = runner.error().message;
    init_error_code_ = runner.error().code;
    // From the loop: the caller may not be ready for the end yet.
    back_off_timer_ = environment_.loop.After(Millis(0), [this] { HandleDeath("did not start"); });
    return;
  }
  runner_ = std::move(runner).value();
  runner_->Ask(std::move(init), environment_.options.init_timeout,
               [this, alive = std::weak_ptr<bool>(alive_)](Result<Json> answer) {
                 if (!alive.expired()) HandleInitAnswer(std::move(answer));
               });
}

void Registration::HandleInitAnswer(Result<Json> answer) {
  if (state_ == State::kDraining || !runner_) return;
  if (answer && IsOk(*answer)) return HandleRunning(*answer);
  const Error error = answer ? AnswerError(*answer) : answer.error();
  // EPIPE: it died; HandleExit tells how.
  if (answer || error.code != EPIPE) {
    init_error_ = error.message;
    init_error_code_ = error.code;
  }
  runner_->Kill(SIGKILL);  // HandleExit goes on
}

// Moves what a runner says of its backend out of its answer.
void Registration::TakeBackend(Json& answer) {
  const auto name = answer.find("backend");
  if (name == answer.end() || !name->is_string()) return;
  backend_ = name->get<std::string>();
  limits_ = answer.value("limits", Json::array());
  if (backend_ != BackendName(BackendKind::kObserver)) observer_.reset();
  answer.erase("backend");
  answer.erase("limits");
}

void Registration::HandleRunning(const Json& answer) {
  Json told = answer;
  TakeBackend(told);
  const bool is_restart = has_run_;
  state_ = State::kRunning;
  has_run_ = true;
  running_since_ns_ = last_answer_ns_ = MonotonicNs();
  Log(LogLevel::kInfo, {mount_.path, ""},
      "policy '" + choice_.name + "' runs (pid " + std::to_string(runner_->pid()) + ")");
  if (is_restart) {
    std::deque<std::string> ids;
    for (const Service* service : services_.InOrder()) ids.push_back(service->id);
    ReplayServices(std::move(ids));
  }
  memory_->Begin([this](std::optional<uint64_t> share, MemoryBroker::AnswerHandler done) {
    AskForMemory(share, std::move(done));
  });
  environment_.loop.Cancel(watch_timer_);
  WatchRunner();
  callbacks_.on_change();
  SettleStart(Ok());
  RunDeferred();
}

// A fresh runner counts its services anew.
void Registration::TakeNumber(const std::string& id, const Json& reply) {
  Service* service = services_.Find(id);
  if (service == nullptr || !service->TakeNumber(reply)) return;
  callbacks_.on_change();
}

void Registration::HandleEvent(const Json& event) {
  const Result<std::string> kind = JsonString(event, "event", "");
  if (!kind || *kind != "dropped") {
    Log(LogLevel::kDebug, {mount_.path, ""}, "runner says " + DumpJson(event).substr(0, 200));
    return;
  }
  const Result<std::string> error = JsonString(event, "error", "no reason given");
  was_dropped_ = true;
  last_error_ = error ? *error : "no reason given";
  // It ends by itself; see that it does.
  environment_.loop.Cancel(drain_timer_);
  drain_timer_ = environment_.loop.After(environment_.options.drain_timeout, [this] {
    if (runner_) runner_->Kill(SIGKILL);
  });
}

void Registration::HandleExit(int wait_status) {
  old_runner_ = std::move(runner_);
  memory_.reset();
  reads_.reset();
  if (observer_ != nullptr) observer_->Silence();
  environment_.loop.Cancel(drain_timer_);
  environment_.loop.Cancel(watch_timer_);
  if (state_ == State::kDraining) {
    Log(LogLevel::kInfo, {mount_.path, ""}, "policy '" + choice_.name + "' removed");
    return Finish(Error{ENODEV, mount_.path + " lost its policy"});
  }
  const bool says_gone = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kExitMountGone;
  if (says_gone || !environment_.probe.IsThere(mount_)) {
    Log(LogLevel::kInfo, Gone().message + "; policy '" + choice_.name + "' ended");
    return Finish(Gone());
  }
  if (was_dropped_ && has_run_) return Fail("policy dropped: " + last_error_);
  if (was_dropped_) {
    init_error_ = "policy '" + choice_.name + "' was dropped while it started: " + last_error_;
    init_error_code_ = EIO;
  }
  HandleDeath(HowItEnded(wait_status));
}

void Registration::HandleDeath(const std::string& how) {
  const std::string story = init_error_.empty() ? "ppc-runner " + how : init_error_;
  if (!has_run_) {
    const int code = init_error_.empty() ? EIO : init_error_code_;
    const std::string prefix = init_error_.empty() ? "policy '" + choice_.name + "': " : "";
    Log(LogLevel::kError, {mount_.path, ""}, prefix + story);
    return Finish(Error{code, prefix + story});
  }
  const uint64_t quick_ns =
      static_cast<uint64_t>(environment_.options.quick_death.count()) * kNsPerMs;
  const bool did_run = state_ == State::kRunning;
  const bool was_quick = !did_run || MonotonicNs() - running_since_ns_ < quick_ns;
  quick_deaths_ = was_quick ? quick_deaths_ + 1 : 0;
  last_error_ = story;
  if (quick_deaths_ >= environment_.options.max_quick_deaths) {
    return Fail("gave up after " + std::to_string(quick_deaths_) +
                " deaths in a row; the last: " + story);
  }
  const Millis delay = environment_.options.first_back_off * (1 << std::max(quick_deaths_ - 1, 0));
  state_ = State::kRestarting;
  ++restarts_;
  Log(LogLevel::kWarning, {mount_.path, ""},
      story + "; native policy in force, restart in " + std::to_string(delay.count()) + " ms");
  back_off_timer_ = environment_.loop.After(delay, [this] {
    if (environment_.probe.IsThere(mount_)) return SpawnRunner();
    Finish(Gone());
  });
}

void Registration::Fail(const std::string& why) {
  constexpr Millis kLongestRetry = std::chrono::hours(1);
  constexpr int kMostDoublings = 6;
  // Who has lived as long as the longest pause begins anew.
  if (has_run_ && MonotonicNs() - running_since_ns_ > kLongestRetry / Millis(1) * kNsPerMs)
    failures_ = 0;
  const Millis delay = std::min(
      environment_.options.first_retry * (1 << std::min(failures_, kMostDoublings)), kLongestRetry);
  ++failures_;
  state_ = State::kFailed;
  last_error_ = why;
  Log(LogLevel::kError, {mount_.path, ""},
      why + "; native policy in force, tried again in " +
          std::to_string(delay / std::chrono::seconds(1)) + " s, or when it is registered again");
  RunDeferred();
  callbacks_.on_change();
  WatchMount();
  back_off_timer_ = environment_.loop.After(delay, [this] { TryAgain(); });
}

void Registration::TryAgain() {
  if (state_ != State::kFailed) return;
  if (!environment_.probe.IsThere(mount_)) return Finish(Gone());
  Log(LogLevel::kInfo, {mount_.path, ""}, "policy '" + choice_.name + "' is tried again");
  quick_deaths_ = 0;
  state_ = State::kRestarting;
  ++restarts_;
  environment_.loop.Cancel(watch_timer_);
  callbacks_.on_change();
  SpawnRunner();
}

// Without a runner nobody else tells of the end of the mount.
void Registration::WatchMount() {
  watch_timer_ = environment_.loop.After(environment_.options.watch_period, [this] {
    if (state_ != State::kFailed) return;
    if (environment_.probe.IsThere(mount_)) return WatchMount();
    Log(LogLevel::kInfo, Gone().message + "; its failed registration is forgotten");
    Finish(Gone());
  });
}

void Registration::Finish(const Error& error) {
  if (is_gone_) return;
  is_gone_ = true;
  SettleStart(error);
  state_ = State::kDraining;
  RunDeferred();
  callbacks_.on_gone();
  for (StatusHandler& waiter : std::exchange(remove_waiters_, {})) waiter(Ok());
}

void Registration::SettleStart(const Status& status) {
  for (StatusHandler& waiter : std::exchange(start_waiters_, {})) waiter(status);
}

void Registration::Remove(StatusHandler done) {
  remove_waiters_.push_back(std::move(done));
  if (state_ == State::kDraining) return;
  SettleStart(Error{ECANCELED, "rm_policy came before the policy of " + mount_.path + " ran"});
  state_ = State::kDraining;
  environment_.loop.Cancel(back_off_timer_);
  if (!runner_) {
    back_off_timer_ = environment_.loop.After(Millis(0), [this] {
      Finish(Error{ENODEV, mount_.path + " lost its policy"});
    });
    return;
  }
  if (runner_->IsStopped()) {
    Log(LogLevel::kWarning, {mount_.path, ""}, "the runner is stopped by a signal; killing it");
    return runner_->Kill(SIGKILL);
  }
  runner_->Ask({{"op", "stop"}}, environment_.options.drain_timeout, [](const Result<Json>&) {});
  drain_timer_ = environment_.loop.After(environment_.options.drain_timeout, [this] {
    Log(LogLevel::kWarning, {mount_.path, ""}, "the runner did not drain in time; killing it");
    if (runner_) runner_->Kill(SIGKILL);
  });
}

}  // namespace ppc::control
