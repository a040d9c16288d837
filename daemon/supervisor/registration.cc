// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/registration.h"

#include <sys/wait.h>

#include <cerrno>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/supervisor/cgroups.h"
#include "daemon/supervisor/runner_init.h"
#include "daemon/wire/exit_codes.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {

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
      callbacks_(std::move(callbacks)),
      backoff_(environment.options),
      messages_(environment.loop, services_,
                {.on_change = [this] { callbacks_.on_change(); },
                 .on_failed =
                     [this](const std::string& why) {
                       last_error_ = why;
                       Log(LogLevel::kWarning, {mount_.path, ""}, why);
                     }}) {}

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

Error Registration::Removed() const {
  return Error{ENOTCONN, "the policy of " + mount_.path + " is being removed"};
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

void Registration::SpawnRunner() {
  was_dropped_ = false;
  init_error_.reset();
  Result<std::string> cgroup = environment_.cgroups.MakeRunnerGroup(RunnerName());
  if (!cgroup)
    Log(LogLevel::kDebug, {mount_.path, ""}, "runner stays in ours: " + cgroup.error().message);
  RunnerProcess::Callbacks callbacks;
  callbacks.on_event = [this](const Json& event) { HandleEvent(event); };
  callbacks.death_limit = environment_.options.death_limit;
  callbacks.on_exit = [this](int wait_status) { HandleExit(wait_status); };
  RunnerInit init =
      MakeRunnerInit(environment_, mount_, choice_, /*is_fresh=*/!has_run_, &observer_);
  std::unique_ptr<ReadBroker::Client> reads = environment_.reads.Enter();
  init.message["reads"] = ReadSharesJson(reads->TakeShares());
  memory_ = environment_.memory.Enter();
  if (const std::optional<uint64_t> share = memory_->FirstShare())
    init.message["memory_share"] = *share;
  Result<std::unique_ptr<RunnerProcess>> runner =
      RunnerProcess::Spawn(environment_.loop, environment_.options.runner, cgroup ? *cgroup : "",
                           init.lent, std::move(callbacks));
  if (!runner) {
    memory_.reset();
    init_error_ = runner.error();
    // From the loop: the caller may not be ready for the end yet.
    back_off_timer_ = environment_.loop.After(Millis(0), [this] { HandleDeath("did not start"); });
    return;
  }
  runner_ = std::make_unique<RunnerTalk>(std::move(runner).value(), std::move(reads),
                                         environment_.options, mount_.path);
  runner_->Begin(std::move(init.message),
                 [this, alive = std::weak_ptr<bool>(alive_)](Result<Json> answer) {
                   if (!alive.expired()) HandleInitAnswer(std::move(answer));
                 });
}

void Registration::HandleInitAnswer(Result<Json> answer) {
  if (state_ == State::kDraining || !runner_) return;
  if (answer && IsOk(*answer)) return HandleRunning(*answer);
  const Error error = answer ? AnswerError(*answer) : answer.error();
  // EPIPE: it died; HandleExit tells how.
  if (answer || error.code != EPIPE) init_error_ = error;
  runner_->Kill();  // HandleExit goes on
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
  backoff_.Running(MonotonicNs());
  Log(LogLevel::kInfo, {mount_.path, ""},
      "policy '" + choice_.name + "' runs (pid " + std::to_string(runner_->pid()) + ")");
  memory_->Begin([this](std::optional<uint64_t> share, MemoryBroker::AnswerHandler done) {
    if (!runner_) return done(std::nullopt);
    runner_->AskForMemory(share, std::move(done));
  });
  environment_.loop.Cancel(watch_timer_);
  WatchRunner();
  callbacks_.on_change();
  SettleStart(Ok());
  // The caller that has just been told may have removed it.
  if (state_ != State::kRunning) return;
  messages_.Open(
      [talk = runner_.get()](const Json& message, JsonHandler done) {
        talk->Control(message, std::move(done));
      },
      is_restart);
}

void Registration::HandleEvent(const Json& event) {
  const std::string kind = JsonText(event, "event");
  if (kind == "service_start") return NoteStart(event);
  if (kind != "dropped") {
    Log(LogLevel::kDebug, {mount_.path, ""}, "runner says " + DumpJson(event).substr(0, 200));
    return;
  }
  const Result<std::string> error = JsonString(event, "error", "no reason given");
  was_dropped_ = true;
  last_error_ = error ? *error : "no reason given";
  // It ends by itself; see that it does.
  environment_.loop.Cancel(drain_timer_);
  drain_timer_ = environment_.loop.After(environment_.options.drain_timeout, [this] {
    if (runner_) runner_->Kill();
  });
}

// Another start of an open service, which its readers have begun.
void Registration::NoteStart(const Json& event) {
  if (services_.BeginAgain(JsonText(event, "service_id"))) callbacks_.on_change();
}

void Registration::HandleExit(int wait_status) {
  old_runner_ = std::move(runner_);
  old_runner_->Ended();
  messages_.Hold();
  memory_.reset();
  if (observer_ != nullptr) observer_->ClearWants();
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
    init_error_ =
        Error{EIO, "policy '" + choice_.name + "' was dropped while it started: " + last_error_};
  }
  HandleDeath(HowItEnded(wait_status));
}

void Registration::HandleDeath(const std::string& how) {
  const std::string story = init_error_ ? init_error_->message : "ppc-runner " + how;
  if (!has_run_) {
    const Error error =
        init_error_ ? *init_error_ : Error{EIO, "policy '" + choice_.name + "': " + story};
    Log(LogLevel::kError, {mount_.path, ""}, error.message);
    return Finish(error);
  }
  last_error_ = story;
  const std::optional<Millis> pause =
      backoff_.Died(MonotonicNs(), /*did_run=*/state_ == State::kRunning);
  if (!pause)
    return Fail("gave up after " + std::to_string(backoff_.DeathsInARow()) +
                " deaths in a row; the last: " + story);
  state_ = State::kRestarting;
  Log(LogLevel::kWarning, {mount_.path, ""},
      story + "; native policy in force, restart in " + std::to_string(pause->count()) + " ms");
  back_off_timer_ = environment_.loop.After(*pause, [this] {
    if (environment_.probe.IsThere(mount_)) return SpawnRunner();
    Finish(Gone());
  });
}

void Registration::Fail(const std::string& why) {
  const Millis pause = backoff_.Failed(MonotonicNs());
  state_ = State::kFailed;
  last_error_ = why;
  Log(LogLevel::kError, {mount_.path, ""},
      why + "; native policy in force, tried again in " +
          std::to_string(pause / std::chrono::seconds(1)) + " s, or when it is registered again");
  const Error failed{ENOTCONN, "the policy of " + mount_.path + " has failed (" + last_error_ +
                                   "); register it again"};
  messages_.Close(failed);
  messages_.RefuseWaiting(failed);
  callbacks_.on_change();
  WatchMount();
  back_off_timer_ = environment_.loop.After(pause, [this] { TryAgain(); });
}

void Registration::TryAgain() {
  if (state_ != State::kFailed) return;
  if (!environment_.probe.IsThere(mount_)) return Finish(Gone());
  Log(LogLevel::kInfo, {mount_.path, ""}, "policy '" + choice_.name + "' is tried again");
  backoff_.TryAgain();
  messages_.Hold();
  state_ = State::kRestarting;
  environment_.loop.Cancel(watch_timer_);
  callbacks_.on_change();
  SpawnRunner();
}

// Without a runner no other part tells of the end of the mount.
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
  messages_.Close(Removed());
  messages_.RefuseWaiting(
      Error{ENOTCONN, "the policy of " + mount_.path + " does not run: " + last_error_});
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
  messages_.Close(Removed());
  environment_.loop.Cancel(back_off_timer_);
  if (!runner_) {
    back_off_timer_ = environment_.loop.After(Millis(0), [this] {
      Finish(Error{ENODEV, mount_.path + " lost its policy"});
    });
    return;
  }
  if (runner_->IsStopped()) {
    Log(LogLevel::kWarning, {mount_.path, ""}, "the runner is stopped by a signal; killing it");
    return runner_->Kill();
  }
  runner_->End();
  environment_.loop.Cancel(drain_timer_);  // of a policy that was dropped
  drain_timer_ = environment_.loop.After(environment_.options.drain_timeout, [this] {
    Log(LogLevel::kWarning, {mount_.path, ""}, "the runner did not drain in time; killing it");
    if (runner_) runner_->Kill();
  });
}

void Registration::Control(Json message, JsonHandler done) {
  messages_.Send(std::move(message), std::move(done));
}

// One that runs but is mute for long is killed, which restarts it.
void Registration::WatchRunner() {
  watch_timer_ = environment_.loop.After(environment_.options.watch_period, [this] {
    if (state_ != State::kRunning || !runner_) return;
    // A mount that goes ends its device, and the runner says so.
    if (mount_.is_plain && !environment_.probe.IsThere(mount_)) {
      Log(LogLevel::kInfo, Gone().message + "; its policy is removed");
      return Remove([](const Status&) {});
    }
    if (!runner_->Watch()) {
      Log(LogLevel::kError, {mount_.path, ""}, "the runner does not answer any more; killing it");
      return runner_->Kill();
    }
    WatchRunner();
  });
}

Json Registration::DescribeWithoutRunner() const {
  Json out{{"mount", mount_.path},
           {"backend", Backend()},
           {"limits", limits_},
           {"policy", choice_.name},
           {"policy_path", choice_.path},
           {"config", choice_.config},
           {"handle", handle_},
           {"state", ShownState()},
           {"restarts", backoff_.Restarts()},
           {"last_error", last_error_},
           {"services", services_.Describe(Peer{.is_admin = true})}};
  if (!mount_.is_plain) out["device"] = mount_.Key();
  const Json statistics = environment_.probe.Statistics(mount_);
  if (!statistics.empty()) out["kernel"] = statistics;
  if (runner_) out["pid"] = runner_->pid();
  return out;
}

// Describes a runner that does not answer.
Json Registration::DescribeMute() const {
  Json out = DescribeWithoutRunner();
  const std::string attached = JsonText(JsonMember(out, "kernel"), "state");
  if (!runner_->IsStopped()) out["state"] = "unresponsive";
  out["last_error"] = runner_->WhyMute(/*has_lease_expired=*/attached == "expired");
  return out;
}

void Registration::AskForLog(const std::function<void(Json)>& done) {
  if (!runner_) return done(Json::array());
  runner_->AskForLog(done);
}

void Registration::Describe(const std::function<void(Json)>& done) {
  if (state_ != State::kRunning || !runner_) return done(DescribeWithoutRunner());
  if (runner_->IsStopped()) return done(DescribeMute());
  runner_->AskForStatus([this, alive = std::weak_ptr<bool>(alive_),
                         before = DescribeWithoutRunner(), done](Result<Json> counters) {
    if (alive.expired()) return done(before);
    if (counters) {
      TakeBackend(*counters);
      Json out = DescribeWithoutRunner();
      if (const std::string late = runner_ ? runner_->WhyLate(*counters) : ""; !late.empty())
        out.update({{"state", "unresponsive"}, {"last_error", late}});
      out["runner"] = std::move(*counters);
      return done(out);
    }
    if (state_ != State::kRunning || !runner_) return done(DescribeWithoutRunner());
    done(DescribeMute());
  });
}

}  // namespace ppc::control
