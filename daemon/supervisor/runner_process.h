// SPDX-License-Identifier: Apache-2.0
// Owns one ppc-runner process: its start, its channel (descriptor 3 there), its
// cgroup and its end.  Knows nothing of policies.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_RUNNER_PROCESS_H_
#define PPC_DAEMON_SUPERVISOR_RUNNER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/supervisor/event_loop.h"
#include "daemon/wire/line_channel.h"

namespace ppc::control {

// What to say of a runner that has ended so, as waitid() tells: "was killed by ...".
std::string HowItEnded(int wait_status);

class RunnerProcess {
 public:
  using AnswerHandler = std::function<void(Result<Json>)>;

  struct Callbacks {
    // A line the runner sent without being asked.
    std::function<void(const Json& event)> on_event;
    // Once, last; what was still unanswered has been answered with EPIPE.  The
    // object may be destroyed after the call, not in it.
    std::function<void(int wait_status)> on_exit;
    // One that was killed and is still there then (it waits in the kernel, say) counts as ended.
    Millis death_limit{10000};
  };

  // `cgroup_dir` empty: the runner stays in ppcd's.  `lent`: its descriptors from
  // kRunnerLentFd on, where they are valid.
  static Result<std::unique_ptr<RunnerProcess>> Spawn(EventLoop& loop, const std::string& program,
                                                      const std::string& cgroup_dir,
                                                      std::span<const UniqueFd> lent,
                                                      Callbacks callbacks);
  // Kills and reaps what still runs, and leaves to the loop what does not end.
  ~RunnerProcess();
  RunnerProcess(const RunnerProcess&) = delete;
  RunnerProcess& operator=(const RunnerProcess&) = delete;

  pid_t pid() const { return pid_; }

  // Sends `message` (version and id added).  The handler is called once, from the loop:
  // with the answer object, with ETIMEDOUT (a late answer is dropped), EAGAIN
  // (too much is unanswered), E2BIG (the answer is too long) or EPIPE (the runner is gone).
  void Ask(Json message, Millis timeout, AnswerHandler handler);

  void Kill(int signal);

  // Stopped by a signal or a debugger, as /proc tells.
  bool IsStopped() const;

 private:
  struct Question {
    uint64_t id = 0;
    std::string op;
    AnswerHandler handler;  // empty: timed out
    EventLoop::TimerId timer;
  };

  RunnerProcess(EventLoop& loop, pid_t pid, UniqueFd pidfd, UniqueFd socket, std::string cgroup_dir,
                Callbacks callbacks);
  Status StartWatching();
  void HandleSocket(uint32_t events);
  void HandleLines();
  void HandleLine(const std::string& line);
  void HandleAnswer(Result<Json> answer);
  void HandleExit();
  void GiveUp();
  void LeaveToLoop();
  void Break(const Error& error);
  void UpdateWatch();

  EventLoop& loop_;
  const pid_t pid_;
  UniqueFd pidfd_;
  LineChannel channel_;
  const std::string cgroup_dir_;
  Callbacks callbacks_;
  uint64_t asked_ = 0;  // questions
  // Answers come in this order, but for those that repeat the question's id.
  std::deque<std::shared_ptr<Question>> questions_;
  bool is_broken_ = false;  // the channel is of no more use
  bool has_exited_ = false;
  std::optional<EventLoop::TimerId> death_timer_;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_RUNNER_PROCESS_H_
