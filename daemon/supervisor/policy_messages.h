// SPDX-License-Identifier: Apache-2.0
// Owns the messages for one directory's policy across the lives of its runners: those that wait for
// a runner, or until it has answered others, the refusals while there will be none, and telling a
// fresh one of the services.  A message about a service waits until the runner knows the service.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_POLICY_MESSAGES_H_
#define PPC_DAEMON_SUPERVISOR_POLICY_MESSAGES_H_

#include <cerrno>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/supervisor/event_loop.h"
#include "daemon/supervisor/services.h"

namespace ppc::control {

// An answer of the policy: it knows no such message.  One without services of its own works
// without.
inline bool IsUnknownToPolicy(const Result<Json>& answer) {
  return !answer && (answer.error().code == EOPNOTSUPP || answer.error().code == ENOSYS);
}

class PolicyMessages {
 public:
  using JsonHandler = std::function<void(Result<Json>)>;
  // As RunnerTalk::Control.
  using Control = std::function<void(const Json& message, JsonHandler done)>;

  struct Callbacks {
    std::function<void()> on_change;                    // services changed
    std::function<void(const std::string&)> on_failed;  // a service was not taken up again
  };

  // loop and services must outlive this.
  PolicyMessages(EventLoop& loop, Services& services, Callbacks callbacks);
  ~PolicyMessages() = default;
  PolicyMessages(const PolicyMessages&) = delete;
  PolicyMessages& operator=(const PolicyMessages&) = delete;

  static constexpr size_t kMostUnanswered = 32;  // a runner's status has a place beside them
  static constexpr size_t kMostWaiting = 256;

  // The answer is the policy's object.  Without a runner it waits for one that is coming.  EAGAIN:
  // too many wait.
  void Send(Json message, JsonHandler done);

  // The policy runs, and takes messages by `control`.  First it is told of the services: after a
  // restart of all, else of the registration's own.
  void Open(Control control, bool is_restart);
  // The runner has gone, another one is coming.
  void Hold();
  // Refuses new messages with `why`.  Messages already queued stay queued.
  void Close(const Error& why);
  // Answers all queued messages with `why`: no runner will come.
  void RefuseWaiting(const Error& why);

 private:
  struct Waiting {
    Json message;
    JsonHandler done;
  };
  // The life of one runner, expires with it.
  using Life = std::weak_ptr<bool>;

  void SendWaiting();
  void SendNow(const Json& message, JsonHandler done);
  void TellServices(std::deque<std::string> ids);
  void HandleTold(const std::string& id, const Result<Json>& reply,
                  const std::function<void()>& next);
  void StopLater(const Json& message);

  EventLoop& loop_;
  Services& services_;
  const Callbacks callbacks_;
  Control control_;  // empty: there is no runner
  std::optional<Error> refusal_;
  std::deque<Waiting> waiting_;
  std::set<std::string> untold_;  // services that the runner is still to be told of
  size_t unanswered_ = 0;         // by this runner
  std::shared_ptr<bool> life_;
  // Expires with this object, which some answers outlive.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_POLICY_MESSAGES_H_
