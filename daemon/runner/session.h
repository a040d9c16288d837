// SPDX-License-Identifier: Apache-2.0
// Owns one run of a policy from registration to end: opens backend, plugin and runtime, answers the
// control channel, and turns the end into an exit status.
// Owns the socket for the lines of that channel, too.
// Threads: main's, which is the executor's once the policy runs; the control worker's, which reads
// the supervisor's lines and writes answers; the watchdog's, for the message about a hang.
#ifndef PPC_DAEMON_RUNNER_SESSION_H_
#define PPC_DAEMON_RUNNER_SESSION_H_

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "daemon/backend/event_log.h"
#include "daemon/backend/factory.h"
#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/exec/runtime.h"
#include "daemon/policy/plugin.h"

namespace ppc {

// Owns lines of JSON over a connected socket, one object per line.
// Threads: Receive by one; Send by any.
class LineSocket {
 public:
  explicit LineSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.Get(); }
  // Reads the available data (waits if `wait`); false: the peer closed, or sent too long a line.
  bool Receive(bool wait);
  // The next complete line received.
  std::optional<std::string> NextLine();
  void Send(const Json& line);

 private:
  static constexpr size_t kMaxLine = 512 << 10;  // a request of 256 KiB, wrapped

  UniqueFd fd_;
  std::string buffer_;
  std::mutex send_mutex_;
};

class Session {
 public:
  // Before any thread exists: from now on SIGINT and SIGTERM arrive through a descriptor.
  Session();
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
  // Parsed lines of the supervisor.
  struct Received {
    bool is_open = true;
    std::deque<Result<Json>> requests;
  };
  void HandleSocket();
  void Receive(Received* received);
  // Answers the first remaining line; one at a time, since the supervisor counts answers.
  void AnswerNext(const std::shared_ptr<Received>& received);
  // Sleeps until the supervisor sends a line; false: a signal ended the wait.
  bool WaitForSocket();
  void Send(const Result<Json>& answer);
  Json Answer(const std::string& line);
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
  std::optional<EventLogWriter> recorder_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<LineSocket> socket_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_RUNNER_SESSION_H_
