// SPDX-License-Identifier: Apache-2.0
// A ppcd of its own for every test: temporary socket, state, policies, and a
// made-up /sys/fs/ppc that declares /proc and /sys to be ppc mounts.
#ifndef PPC_TESTS_UNIT_SUPERVISOR_DAEMON_FIXTURE_H_
#define PPC_TESTS_UNIT_SUPERVISOR_DAEMON_FIXTURE_H_

#include <gtest/gtest.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/unique_fd.h"
#include "tests/unit/eventually.h"
#include "tests/unit/has.h"

namespace ppc::control {

// Whether ppcctl was built with the verb, which may be an extra's.
bool HasVerb(const std::string& name);

inline const std::string kPpcctl = std::string(PPC_TEST_BIN_DIR) + "/ppcctl";

// A connection that can also send what no client would.
class RawClient {
 public:
  explicit RawClient(const std::string& socket_path);
  explicit RawClient(UniqueFd connected) : fd_(std::move(connected)) {}
  bool IsConnected() const { return fd_.IsValid(); }
  void Send(const std::string& bytes);
  void SendLine(const std::string& line) { Send(line + "\n"); }
  void CloseWriting();
  // One line without newline; "" when the other side closed or time is up.
  std::string ReadLine(int timeout_ms = 10000);
  bool IsClosedByPeer(int timeout_ms = 10000);
  // The next line; null where there is none.
  Json Answer() {
    const Result<Json> answer = ParseJson(ReadLine(), "answer");
    return answer ? *answer : Json(nullptr);
  }
  // One request, one answer; null on failure.
  Json Ask(Json request);
  int fd() const { return fd_.Get(); }

 private:
  UniqueFd fd_;
  std::string buffer_;
};

struct ProcessResult {
  int exit_status = -1;  // 128 + signal if killed
  std::string out;
  std::string err;
};

// Runs a program to its end (30 s at most).
ProcessResult RunProcess(const std::vector<std::string>& argv,
                         const std::vector<std::string>& environment);

class DaemonTest : public ::testing::Test {
 protected:
  static constexpr const char* kMount = "/proc";
  static constexpr const char* kOtherMount = "/sys";

  void SetUp() override;
  void TearDown() override;

  void StartDaemon(const std::vector<std::string>& more_arguments = {});
  // SIGTERM (or another) and its exit status.
  int StopDaemon(int signal = 15);
  bool IsDaemonRunning() const;
  void RestartDaemon() {
    StopDaemon();
    StartDaemon();
  }

  // Ask on a fresh connection.  A start waits for what the policy answers, on a busy machine too,
  // where the request does not say how long ("wait_ms").
  Json Ask(const Json& request);
  Json Tell(const std::string& op, const std::string& service_id, Json more = Json::object()) {
    more.update({{"op", op}, {"mount", kMount}, {"service_id", service_id}});
    return Ask(more);
  }
  Json Register(const Json& fake = Json::object(), const std::string& policy = "alpha",
                const std::string& mount = kMount);
  // A daemon with a policy that is registered and logs.
  void Start(Json fake = Json::object()) {
    StartDaemon();
    fake["log"] = dir_ + "/runner.log";
    ASSERT_TRUE(Register(fake).value("ok", false));
  }
  Json StatusOf(const std::string& mount = kMount);
  std::string StateOf(const std::string& mount = kMount);
  bool WaitForState(const std::string& state, const std::string& mount = kMount);
  pid_t RunnerPid(const std::string& mount = kMount);
  // Until another runner than this one runs.
  bool WaitForAnother(pid_t runner) {
    return Eventually([&] { return StateOf() == "running" && RunnerPid() != runner; });
  }
  bool WaitForNoServices() {
    return Eventually([this] { return StatusOf()["services"].empty(); });
  }

  ProcessResult Ctl(const std::vector<std::string>& arguments);
  // What ppcctl prints when it succeeds.
  std::string Out(const std::vector<std::string>& arguments);
  void Unmount(unsigned index);
  void Mount(unsigned index, const char* path);
  std::string ReadText(const std::string& path);
  std::string DaemonLog() { return ReadText(dir_ + "/log"); }
  // Of fake runners whose registration says so ("log").
  std::string RunnerLog() { return ReadText(dir_ + "/runner.log"); }
  bool WasTold(const std::string& text) {
    return Eventually([&] { return RunnerLog().find(text) != std::string::npos; });
  }

  std::string dir_;
  std::string socket_;
  std::string service_socket_;  // where libppc finds it beside the other
  std::vector<std::string> environment_;
  int time_scale_percent_ = 25;
  pid_t daemon_ = -1;
};

// With ppcd up from the beginning.
class RunningDaemonTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    StartDaemon();
  }
};

// What ppcctl says when it fails: one line that has this in it.
void ExpectOneLine(const ProcessResult& result, const std::string& part = "");
void ExpectFailure(const ProcessResult& result, int exit_status, const std::string& part = "");
// The same with --json: the line is in an object, too.
void ExpectJsonFailure(const ProcessResult& result, int exit_status);
// What it printed, and what it said on stderr if that is asked.
void ExpectRan(const ProcessResult& result, int exit_status, const std::string& out,
               const std::optional<std::string>& err = std::nullopt);

}  // namespace ppc::control

#endif  // PPC_TESTS_UNIT_SUPERVISOR_DAEMON_FIXTURE_H_
