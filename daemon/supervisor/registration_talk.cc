// SPDX-License-Identifier: Apache-2.0
// What a registration asks its runner while it runs: control messages, status,
// and whether it still answers.
#include <signal.h>

#include <cerrno>
#include <deque>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/supervisor/registration.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {
namespace {

// The policy's object out of the runner's answer; {"error": ...} is a refusal.
Result<Json> PolicyReply(const Result<Json>& answer) {
  if (!answer) return answer.error();
  if (!IsOk(*answer)) return AnswerError(*answer);
  Json reply = *answer;
  if (const auto inner = answer->find("reply"); inner != answer->end()) {
    reply = inner->is_object() ? *inner : Json::object();
  }
  reply.erase("ok");
  reply.erase("v");
  const auto refusal = reply.find("error");
  if (refusal == reply.end()) return reply;
  Error error = AnswerError(reply);
  if (!reply.contains("code")) error.code = EINVAL;
  return error;
}

// What a runner says of its memory; nothing if that is no answer.
std::optional<MemoryReport> MemoryOf(const Result<Json>& answer) {
  if (!answer || !IsOk(*answer)) return std::nullopt;
  MemoryReport report;
  for (const auto& [key, value] :
       {std::pair{"budget", &report.budget}, {"keeps", &report.keeps}, {"wants", &report.wants}}) {
    const auto member = answer->find(key);
    if (member == answer->end() || !member->is_number_unsigned()) return std::nullopt;
    *value = member->get<uint64_t>();
  }
  return report;
}

}  // namespace

// One after the other: a runner takes only so many questions at once.
void Registration::ReplayServices(std::deque<std::string> ids) {
  const Service* service = nullptr;
  while (service == nullptr && !ids.empty()) {
    service = services_.Find(ids.front());  // it may have been stopped meanwhile
    if (service == nullptr) ids.pop_front();
  }
  if (service == nullptr) return;
  const Json message = service->Resumption();
  ids.pop_front();
  const std::function<void()> next = [this, ids, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired() && state_ == State::kRunning) ReplayServices(ids);
  };
  SendControl(message, [this, id = service->id, next](const Result<Json>& reply) {
    if (!reply) {
      last_error_ = "service " + id + " was not taken up again: " + reply.error().message;
      Log(LogLevel::kWarning, {mount_.path, ""}, last_error_);
      // It has never been taken up: what hangs or dies of it would do so for ever.
      const Service* failed = services_.Find(id);
      if (failed != nullptr && failed->is_starting) {
        services_.Remove(id);
        callbacks_.on_change();
      }
      return next();
    }
    TakeNumber(id, *reply);
    Service* started = services_.Find(id);
    if (started != nullptr) started->is_starting = false;
    if (started == nullptr || !started->is_ready || state_ != State::kRunning) return next();
    SendControl({{"op", "service_ready"}, {"service_id", id}},
                [next](const Result<Json>&) { next(); });
  });
}

void Registration::Control(Json message, JsonHandler done) {
  if (state_ == State::kFailed) {
    return done(Error{ENOTCONN, "the policy of " + mount_.path + " has failed (" + last_error_ +
                                    "); register it again"});
  }
  if (state_ == State::kDraining) {
    return done(Error{ENOTCONN, "the policy of " + mount_.path + " is being removed"});
  }
  if (state_ == State::kRunning) return SendControl(message, std::move(done));
  deferred_.emplace_back(
      [this, message = std::move(message), done = std::move(done)](const Status& status) {
        if (!status) return done(status.error());
        SendControl(message, done);
      });
}

void Registration::RunDeferred() {
  for (StatusHandler& function : std::exchange(deferred_, {})) {
    if (state_ == State::kRunning) {
      function(Ok());
    } else {
      function(Error{ENOTCONN, "the policy of " + mount_.path + " does not run: " + last_error_});
    }
  }
}

// A service that has ended must end, though the runner takes no more questions now.  One of its
// name that has been started meanwhile is another.
void Registration::StopLater(const Json& message) {
  constexpr Millis kAgain{500};
  environment_.loop.After(kAgain, [this, alive = std::weak_ptr<bool>(alive_), message] {
    if (alive.expired() || state_ != State::kRunning) return;  // a new runner does not know it
    if (services_.Find(message.value("service_id", "")) != nullptr) return;
    SendControl(message, [](const Result<Json>&) {});
  });
}

void Registration::SendControl(const Json& message, JsonHandler done) {
  const std::weak_ptr<bool> alive = alive_;
  const std::string op = message.value("op", "");
  const bool is_start = op == "service_start";
  const Millis timeout =
      is_start ? environment_.options.start_timeout : environment_.options.control_timeout;
  const Json to_repeat = op == "service_stop" ? message : Json();
  runner_->Ask(
      {{"op", "control"}, {"message", message}}, timeout,
      [this, alive, to_repeat, done = std::move(done)](const Result<Json>& answer) {
        Result<Json> reply = PolicyReply(answer);
        if (!reply && reply.error().code == EAGAIN && !alive.expired() && !to_repeat.is_null()) {
          StopLater(to_repeat);
        }
        if (!reply && reply.error().code == ETIMEDOUT && !alive.expired() && runner_ &&
            runner_->IsStopped()) {
          reply = Error{ETIMEDOUT, "the runner of " + mount_.path + " (pid " +
                                       std::to_string(runner_->pid()) +
                                       ") is stopped by a signal; kill -CONT it"};
        }
        done(std::move(reply));
      });
}

// One that is stopped answers nothing, and would find all questions when it goes on.
void Registration::AskForMemory(std::optional<uint64_t> share, MemoryBroker::AnswerHandler done) {
  if (!runner_ || runner_->IsStopped()) {
    if (reads_) reads_->Stopped();
    return done(std::nullopt);
  }
  Json message{{"op", "memory"}, {"reads", ReadSharesJson(reads_->Tell())}};
  if (share) message["share"] = *share;
  runner_->Ask(std::move(message), environment_.options.status_timeout,
               [this, alive = std::weak_ptr<bool>(alive_),
                done = std::move(done)](const Result<Json>& answer) {
                 std::optional<MemoryReport> report = MemoryOf(answer);
                 if (answer && !alive.expired()) {
                   last_answer_ns_ = MonotonicNs();
                   const auto reads = ReadReportsOf(*answer);
                   if (report && reads && reads_) report->is_moving = reads_->Hear(*reads);
                 }
                 done(report);
               });
}

// Looks at a running runner now and then.  One that is stopped by a signal is
// left alone (somebody stopped it, and the lease has made the mount native);
// one that runs but is mute for long is killed, which restarts it.
void Registration::WatchRunner() {
  watch_timer_ = environment_.loop.After(environment_.options.watch_period, [this] {
    if (state_ != State::kRunning || !runner_) return;
    // A mount that goes ends its device, and the runner says so.
    if (mount_.is_plain && !environment_.probe.IsThere(mount_)) {
      Log(LogLevel::kInfo, Gone().message + "; its policy is removed");
      return Remove([](const Status&) {});
    }
    runner_->Ask({{"op", "status"}}, environment_.options.watch_period,
                 [this, alive = std::weak_ptr<bool>(alive_)](const Result<Json>& answer) {
                   if (answer && !alive.expired()) last_answer_ns_ = MonotonicNs();
                 });
    const uint64_t limit_ns =
        static_cast<uint64_t>(environment_.options.silence_limit.count()) * kNsPerMs;
    if (runner_->IsStopped()) {
      last_answer_ns_ = MonotonicNs();
    } else if (MonotonicNs() - last_answer_ns_ > limit_ns) {
      Log(LogLevel::kError, {mount_.path, ""}, "the runner does not answer any more; killing it");
      return runner_->Kill(SIGKILL);
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
           {"restarts", restarts_},
           {"last_error", last_error_},
           {"services", services_.Describe(Peer{.is_admin = true})}};
  if (!mount_.is_plain) out["device"] = mount_.Key();
  const Json statistics = environment_.probe.Statistics(mount_);
  if (!statistics.empty()) out["kernel"] = statistics;
  if (runner_) out["pid"] = runner_->pid();
  return out;
}

// Of a runner that does not answer.
Json Registration::DescribeMute() const {
  Json out = DescribeWithoutRunner();
  const bool is_stopped = runner_->IsStopped();
  const Result<std::string> attached = JsonString(out.value("kernel", Json::object()), "state", "");
  const bool has_expired = attached && *attached == "expired";
  if (!is_stopped) out["state"] = "unresponsive";
  out["last_error"] =
      "the runner (pid " + std::to_string(runner_->pid()) + ") " +
      (is_stopped ? "is stopped by a signal" : "does not answer") + "; " +
      (has_expired ? "its lease has run out: the native policy is in force; "
                   : "the native policy is in force once its lease has run out; ") +
      (is_stopped ? "kill -CONT it, or remove the policy" : "remove the policy if this stays");
  return out;
}

void Registration::AskForLog(const std::function<void(Json)>& done) {
  if (!runner_ || runner_->IsStopped()) return done(Json::array());
  runner_->Ask({{"op", "log"}}, environment_.options.status_timeout,
               [done, path = mount_.path](const Result<Json>& answer) {
                 Json lines = Json::array();
                 for (Json line : answer ? JsonMember(*answer, "lines") : Json()) {
                   const Result<std::string> text = JsonString(line, "text", "");
                   if (!line.is_object() || !text) continue;
                   line["directory"] = path;
                   line["text"] = path + ": " + *text;
                   lines.push_back(std::move(line));
                 }
                 done(std::move(lines));
               });
}

void Registration::Describe(const std::function<void(Json)>& done) {
  if (state_ != State::kRunning || !runner_) return done(DescribeWithoutRunner());
  if (runner_->IsStopped()) return done(DescribeMute());
  const std::weak_ptr<bool> alive = alive_;
  runner_->Ask({{"op", "status"}}, environment_.options.status_timeout,
               [this, alive, before = DescribeWithoutRunner(), done](const Result<Json>& answer) {
                 if (alive.expired()) return done(before);
                 if (answer && IsOk(*answer)) {
                   last_answer_ns_ = MonotonicNs();
                   Json counters = *answer;
                   counters.erase("ok");
                   TakeBackend(counters);
                   Json out = DescribeWithoutRunner();
                   out["runner"] = std::move(counters);
                   return done(out);
                 }
                 if (state_ != State::kRunning || !runner_) return done(DescribeWithoutRunner());
                 done(DescribeMute());
               });
}

}  // namespace ppc::control
