// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/runner_talk.h"

#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/base/clock.h"
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
    const std::optional<uint64_t> number = JsonNumber(*answer, key);
    if (!number) return std::nullopt;
    *value = *number;
  }
  return report;
}

constexpr Millis kLongestRetry = std::chrono::hours(1);
constexpr int kMostDoublings = 6;

uint64_t Ns(Millis time) { return static_cast<uint64_t>(time.count()) * kNsPerMs; }

}  // namespace

RunnerTalk::RunnerTalk(std::unique_ptr<RunnerProcess> process,
                       std::unique_ptr<ReadBroker::Client> reads, const Options& options,
                       std::string directory)
    : options_(options),
      directory_(std::move(directory)),
      heard_ns_(MonotonicNs()),
      reads_(std::move(reads)),
      process_(std::move(process)) {}

void RunnerTalk::Kill() { process_->Kill(SIGKILL); }

// The answers of the thread that runs the policy are its signs of life; status and log are not.
void RunnerTalk::Ask(Json message, Millis timeout, const JsonHandler& done) {
  process_->Ask(std::move(message), timeout,
                [this, alive = std::weak_ptr<bool>(alive_), done](Result<Json> answer) {
                  if (answer && !alive.expired()) heard_ns_ = MonotonicNs();
                  done(std::move(answer));
                });
}

void RunnerTalk::Begin(Json init, const JsonHandler& done) {
  Ask(std::move(init), options_.init_timeout, done);
}

void RunnerTalk::End() {
  Ask({{"op", "stop"}}, options_.drain_timeout, [](const Result<Json>&) {});
}

void RunnerTalk::Control(const Json& message, JsonHandler done) {
  const bool is_start = JsonText(message, "op") == "service_start";
  Ask({{"op", "control"}, {"message", message}},
      is_start ? options_.start_timeout : options_.control_timeout,
      [this, alive = std::weak_ptr<bool>(alive_),
       done = std::move(done)](const Result<Json>& answer) {
        Result<Json> reply = PolicyReply(answer);
        if (!reply && reply.error().code == ETIMEDOUT && !alive.expired() && IsStopped()) {
          reply =
              Error{ETIMEDOUT, "the runner of " + directory_ + " (pid " + std::to_string(pid()) +
                                   ") is stopped by a signal; kill -CONT it"};
        }
        done(std::move(reply));
      });
}

void RunnerTalk::AskForStatus(JsonHandler done) {
  process_->Ask({{"op", "status"}}, options_.status_timeout,
                [done = std::move(done)](const Result<Json>& answer) {
                  if (!answer) return done(answer.error());
                  if (!IsOk(*answer)) return done(AnswerError(*answer));
                  Json counters = *answer;
                  counters.erase("ok");
                  done(std::move(counters));
                });
}

void RunnerTalk::AskForLog(const std::function<void(Json)>& done) {
  if (IsStopped()) return done(Json::array());
  process_->Ask({{"op", "log"}}, options_.status_timeout,
                [done, directory = directory_](const Result<Json>& answer) {
                  Json lines = Json::array();
                  for (Json line : answer ? JsonMember(*answer, "lines") : Json()) {
                    const Result<std::string> text = JsonString(line, "text", "");
                    if (!line.is_object() || !text) continue;
                    line["directory"] = directory;
                    line["text"] = directory + ": " + *text;
                    lines.push_back(std::move(line));
                  }
                  done(std::move(lines));
                });
}

void RunnerTalk::AskForMemory(std::optional<uint64_t> share, MemoryBroker::AnswerHandler done) {
  if (reads_ == nullptr || IsStopped()) {
    if (reads_) reads_->Stopped();
    return done(std::nullopt);
  }
  Json message{{"op", "memory"}, {"reads", ReadSharesJson(reads_->TakeShares())}};
  if (share) message["share"] = *share;
  Ask(std::move(message), options_.status_timeout,
      [this, alive = std::weak_ptr<bool>(alive_),
       done = std::move(done)](const Result<Json>& answer) {
        std::optional<MemoryReport> report = MemoryOf(answer);
        if (report && !alive.expired() && reads_) {
          const auto told = ReadReportsOf(*answer);
          if (told) report->is_moving = reads_->TakeReports(*told);
        }
        done(report);
      });
}

bool RunnerTalk::Watch() {
  Ask({{"op", "ping"}}, options_.watch_period, [](const Result<Json>&) {});
  if (IsStopped()) heard_ns_ = MonotonicNs();
  const uint64_t limit_ns = static_cast<uint64_t>(options_.silence_limit.count()) * kNsPerMs;
  return MonotonicNs() - heard_ns_ <= limit_ns;
}

std::string RunnerTalk::WhyMute(bool has_lease_expired) const {
  const bool is_stopped = IsStopped();
  return "the runner (pid " + std::to_string(pid()) + ") " +
         (is_stopped ? "is stopped by a signal" : "does not answer") + "; " +
         (has_lease_expired ? "its lease has run out: the native policy is in force; "
                            : "the native policy is in force once its lease has run out; ") +
         (is_stopped ? "kill -CONT it, or remove the policy" : "remove the policy if this stays");
}

std::string RunnerTalk::WhyLate(const Json& status) const {
  const Json& waits = JsonMember(status, "waits_for");
  const Millis time(static_cast<int64_t>(JsonCount(waits, "ms")));
  if (time < options_.status_timeout) return "";
  const auto seconds = [](Millis some) { return std::to_string(some / Millis(1000)) + " s"; };
  return "the policy has not answered for " + seconds(time) + " (" + JsonText(waits, "hook") +
         "); services and messages wait, loads go on; the runner is started again after " +
         seconds(options_.silence_limit);
}

std::optional<Millis> RestartBackoff::Died(uint64_t now_ns, bool did_run) {
  const bool was_quick =
      !did_run || !running_since_ns_ || now_ns - *running_since_ns_ < Ns(options_.quick_death);
  deaths_ = was_quick ? deaths_ + 1 : 0;
  if (deaths_ >= options_.max_quick_deaths) return std::nullopt;
  ++restarts_;
  return options_.first_back_off * (1 << std::max(deaths_ - 1, 0));
}

Millis RestartBackoff::Failed(uint64_t now_ns) {
  // A runner that has lived as long as the longest pause begins anew.
  if (running_since_ns_ && now_ns - *running_since_ns_ > Ns(kLongestRetry)) failures_ = 0;
  running_since_ns_.reset();
  const Millis pause =
      std::min(options_.first_retry * (1 << std::min(failures_, kMostDoublings)), kLongestRetry);
  ++failures_;
  return pause;
}

void RestartBackoff::TryAgain() {
  deaths_ = 0;
  ++restarts_;
}

}  // namespace ppc::control
