// SPDX-License-Identifier: Apache-2.0
// Owns the life of one registered policy on one mount or directory: its runner through
// start, restart with back-off, giving up, and the orderly end.
// Threads: the loop's.
//
//   starting --init ok--> running --died--> restarting --init ok--> running
//      |                    |  `-- policy dropped, died too often --> failed
//      `-- refused, died    `-- rm_policy --> draining --> (gone)
//          --> (gone)
//
// Whatever happens to a runner, the module falls back to the kernel's native
// policy by itself; nothing here is needed for that.
#ifndef PPC_DAEMON_SUPERVISOR_REGISTRATION_H_
#define PPC_DAEMON_SUPERVISOR_REGISTRATION_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/supervisor/event_loop.h"
#include "daemon/supervisor/memory_broker.h"
#include "daemon/supervisor/mount_probe.h"
#include "daemon/supervisor/observer_hub.h"
#include "daemon/supervisor/policy_messages.h"
#include "daemon/supervisor/runner_init.h"
#include "daemon/supervisor/runner_talk.h"
#include "daemon/supervisor/services.h"

namespace ppc::control {

class Registration {
 public:
  enum class State { kStarting, kRunning, kDraining, kRestarting, kFailed };

  struct Callbacks {
    // Services or choice changed: the state file is stale.
    std::function<void()> on_change;
    // The end; the object may be destroyed after the call, not in it.
    std::function<void()> on_gone;
  };

  using StatusHandler = std::function<void(Status)>;
  using JsonHandler = std::function<void(Result<Json>)>;

  Registration(const Environment& environment, MountInfo mount, PolicyChoice choice,
               std::string handle, Callbacks callbacks);
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration();

  const MountInfo& mount() const { return mount_; }
  const PolicyChoice& choice() const { return choice_; }
  const std::string& handle() const { return handle_; }
  // The one that runs or, until it has said so, the one asked for.
  std::string Backend() const;
  // A registration that asks for this kind may have this one.
  bool Serves(BackendKind kind) const;
  State state() const { return state_; }
  const std::string& last_error() const { return last_error_; }
  void SetLastError(std::string error) { last_error_ = std::move(error); }
  bool IsRunnerStopped() const { return runner_ && runner_->IsStopped(); }
  Services& services() { return services_; }
  const Services& services() const { return services_; }
  // The word for `state`, and "stopped" for a running one whose process is.
  const char* ShownState() const;

  // Starts the runner; `done` once its policy runs, or with the runner's own
  // error, after which the registration is gone.
  void Start(StatusHandler done);
  // For a registration that was restored: failing counts as a death.
  void Resume();
  // Like Resume(), for a registration that had already failed: it stays failed, with its reason.
  void ResumeFailed(const std::string& why) { Fail(why); }

  // Like Start's `done`, for requests that come while it starts.
  void WhenStarted(StatusHandler done);

  // Drains and ends the runner; a stopped or mute one is killed.
  void Remove(StatusHandler done);

  // Sends a control message to the policy, waiting for a runner that is coming
  // back.  The answer is the policy's object.
  void Control(Json message, JsonHandler done);

  // Everything `status` shows; waits for the runner no longer than the status time-out.
  void Describe(const std::function<void(Json)>& done);
  // The lines that its runner, as long as it lives, has logged, see LogLineJson().
  void AskForLog(const std::function<void(Json)>& done);

 private:
  void SpawnRunner();
  void HandleInitAnswer(Result<Json> answer);
  void HandleRunning(const Json& answer);
  void TakeBackend(Json& answer);
  Error Gone() const;
  Error Removed() const;
  void HandleEvent(const Json& event);
  void NoteStart(const Json& event);
  void HandleExit(int wait_status);
  void HandleDeath(const std::string& how);
  void Fail(const std::string& why);
  void TryAgain();
  void Finish(const Error& error);
  void SettleStart(const Status& status);
  void WatchRunner();
  void WatchMount();
  Json DescribeWithoutRunner() const;
  Json DescribeMute() const;
  std::string RunnerName() const;

  const Environment environment_;
  const MountInfo mount_;
  const PolicyChoice choice_;
  const std::string handle_;
  Callbacks callbacks_;

  State state_ = State::kStarting;
  bool has_run_ = false;      // the policy ran at least once, or did before ppcd restarted
  bool was_dropped_ = false;  // the runner said so before it ended
  bool is_gone_ = false;
  std::string last_error_;
  std::string backend_;          // as the runner names it
  Json limits_ = Json::array();  // what it cannot do here, sentences
  std::optional<Error> init_error_;
  RestartBackoff backoff_;
  Services services_;
  PolicyMessages messages_;
  std::unique_ptr<ObserverHub::Client> observer_;  // null: the runner has no use for it
  std::unique_ptr<MemoryBroker::Client> memory_;   // of the runner that there is
  std::unique_ptr<RunnerTalk> runner_;
  std::unique_ptr<RunnerTalk> old_runner_;  // ended; freed when the next one has
  std::vector<StatusHandler> start_waiters_;
  std::vector<StatusHandler> remove_waiters_;
  EventLoop::TimerId back_off_timer_{};
  EventLoop::TimerId drain_timer_{};
  EventLoop::TimerId watch_timer_{};
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // expires with this object
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_REGISTRATION_H_
