// SPDX-License-Identifier: Apache-2.0
// Owns one runner and the conversation with it: control messages, memory, status, log, and whether
// it still answers.
// Decides how soon a runner that died is started again.
// Threads: the loop's.  Handlers are called once, from the loop or, where the runner is stopped, at
// once; those of a runner that ends before it has answered, with EPIPE; not once this is destroyed.
#ifndef PPC_DAEMON_SUPERVISOR_RUNNER_TALK_H_
#define PPC_DAEMON_SUPERVISOR_RUNNER_TALK_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/supervisor/memory_broker.h"
#include "daemon/supervisor/options.h"
#include "daemon/supervisor/read_broker.h"
#include "daemon/supervisor/runner_process.h"

namespace ppc::control {

class RunnerTalk {
 public:
  using JsonHandler = std::function<void(Result<Json>)>;

  // `reads`: its client of the broker that divides the devices.  `directory` is for messages.
  // options must outlive this.
  RunnerTalk(std::unique_ptr<RunnerProcess> process, std::unique_ptr<ReadBroker::Client> reads,
             const Options& options, std::string directory);

  pid_t pid() const { return process_->pid(); }
  // By a signal: it answers nothing, and would find all questions when it goes on.
  bool IsStopped() const { return process_->IsStopped(); }
  void Kill();
  // It has ended: its share is the others'.
  void Ended() { reads_.reset(); }

  // The first message; the answer says what runs.
  void Begin(Json init, const JsonHandler& done);
  // Asks it to drain and end.
  void End();
  // A message for the policy.  The answer is the policy's object; a refusal of its is an error.
  void Control(const Json& message, JsonHandler done);
  // Asks the runner what it counts and knows; it answers though its policy does not.
  void AskForStatus(JsonHandler done);
  // The lines that it has logged, see LogLineJson(); none from one that is stopped.
  void AskForLog(const std::function<void(Json)>& done);
  // Tells its shares; the answer is what it needs.
  void AskForMemory(std::optional<uint64_t> share, MemoryBroker::AnswerHandler done);

  // Asks for a sign of life, now and then.  False: it runs and has been mute for too long.  One
  // that is stopped is left alone: an operator stopped it, and the lease has made the mount native.
  bool Watch();
  // What is to be said of one that does not answer.
  std::string WhyMute(bool has_lease_expired) const;
  // The same of a policy, by its runner's status; "" if it has not answered for a moment only.
  std::string WhyLate(const Json& status) const;

 private:
  void Ask(Json message, Millis timeout, const JsonHandler& done);

  const Options& options_;
  const std::string directory_;
  uint64_t heard_ns_;
  std::unique_ptr<ReadBroker::Client> reads_;
  const std::unique_ptr<RunnerProcess> process_;
  // Expires with this object, which some answers outlive.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

// Owns how soon a runner that has died, or a policy that has failed, is tried again.
// Threads: the loop's.
class RestartBackoff {
 public:
  // options must outlive this.
  explicit RestartBackoff(const Options& options) : options_(options) {}

  // Its policy runs.
  void Running(uint64_t now_ns) { running_since_ns_ = now_ns; }
  // The runner has died; `did_run`: its policy ran before.  The pause before the next runner;
  // nothing after too many that died soon.
  std::optional<Millis> Died(uint64_t now_ns, bool did_run);
  // The policy has failed: the pause before it is tried again, longer each time.
  Millis Failed(uint64_t now_ns);
  // It is tried again after it had failed: the deaths before count no more.
  void TryAgain();

  int DeathsInARow() const { return deaths_; }
  // Runners that came after another one.
  uint64_t Restarts() const { return restarts_; }

 private:
  const Options& options_;
  int deaths_ = 0;
  int failures_ = 0;  // since it last ran for long
  uint64_t restarts_ = 0;
  std::optional<uint64_t> running_since_ns_;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_RUNNER_TALK_H_
