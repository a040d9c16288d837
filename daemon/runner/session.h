// SPDX-License-Identifier: Apache-2.0
// Owns one run of a policy from registration to end: opens backend, plugin and runtime, answers the
// control channel, and turns the end into an exit status.
// Threads: main's, which is the executor's once the policy runs; ppc-lines, which reads the
// supervisor's lines and answers those that must not wait for the policy; the control worker's,
// which writes the other answers; the watchdog's, for the message about a hang.
#ifndef PPC_DAEMON_RUNNER_SESSION_H_
#define PPC_DAEMON_RUNNER_SESSION_H_

#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "daemon/backend/factory.h"
#include "daemon/base/json.h"
#include "daemon/base/log.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/exec/runtime.h"
#include "daemon/policy/plugin.h"
#include "daemon/runner/line_socket.h"

namespace ppc {

class Session {
 public:
  // Before any thread exists: from now on SIGINT and SIGTERM arrive through a descriptor, and the
  // process logs from this level on, and is careful with memory.
  explicit Session(LogLevel level);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session();

  // The members of an "init" line: mount, policy, backend, config, template_dir,
  // runtime.
  Status Init(const Json& message);
  void SetRecord(const std::string& path) { record_path_ = path; }

  // With a supervisor on `socket`: answers it, from "init" to the end.
  int Serve(UniqueFd socket);
  // Without a supervisor: runs until SIGINT or SIGTERM, then prints the status.
  int RunAlone();

 private:
  Status Open(const Json& message);
  struct Choice {
    std::string directory;
    std::string policy;
    BackendKind backend = BackendKind::kAuto;
    uint32_t lent_dir = 0;  // see LentPrograms
    int lent_first = 0;
    int lent_count = 0;
    std::string device;  // "/dev/ppcN" at `directory`; "": not given
  };
  static Result<Choice> ReadChoice(const Json& message);
  LentPrograms TakeLent(const Choice& choice) const;
  Status OpenParts(const Choice& choice);
  Result<RuntimeConfig> MakeConfig(const Json& message, const std::string& mount);
  // On ppc-lines.
  void HandleLine(const std::string& line);
  void HandleEnd();
  // Answers the first waiting request, on the executor's thread; one at a time, in their order.
  void AnswerNext();
  // Sleeps until the supervisor sends a line; false: a signal ended the wait.
  bool WaitForSocket();
  void Send(const Result<Json>& answer, const Json& id);
  Result<Json> Handle(const Json& request);
  Json BackendJson() const;
  int Finish(Executor::End end);
  [[noreturn]] void EndHung(const std::string& message);
  void Tell(const char* event, const std::string& error);

  UniqueFd signals_;
  std::string record_path_;
  Json own_service_;  // "service_start" of the service in the configuration, or null
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Plugin> plugin_;
  std::unique_ptr<EventRecorder> recorder_;
  std::unique_ptr<Runtime> runtime_;
  std::mutex requests_mutex_;  // of the next two
  std::deque<Result<Json>> requests_;
  bool is_supervised_ = true;  // until the supervisor has closed the socket
  bool is_answering_ = false;  // the executor's
  std::unique_ptr<LineSocket> socket_;
};

// With a command line: without a supervisor, see extras/standalone.  Returns the exit status.
int RunStandalone(std::span<char* const> arguments);

}  // namespace ppc

#endif  // PPC_DAEMON_RUNNER_SESSION_H_
