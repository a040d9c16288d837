// SPDX-License-Identifier: Apache-2.0
// ppcd's log as JSON, and the lines of one service.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {
namespace {

class LogTest : public DaemonTest {
 protected:
  // The first line of ppcd's log with that in its message; null: there is none, or no object.
  Json LineWith(const std::string& text) {
    std::istringstream log(DaemonLog());
    for (std::string line; std::getline(log, line);) {
      if (line.find(text) != std::string::npos) return Json::parse(line, nullptr, false);
    }
    return nullptr;
  }
  // A service whose process ends.
  void StartAndEnd(const std::string& id) {
    const pid_t pid = fork();
    if (pid == 0) {
      pause();
      _exit(0);
    }
    EXPECT_EQ(
        Ask({{"op", "service_start"}, {"mount", kMount}, {"service_id", id}, {"pid", pid}})["ok"],
        true);
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    EXPECT_TRUE(Eventually([&] { return !LineWith("of service " + id + " has ended").is_null(); }));
  }
};

TEST_F(LogTest, JsonTellsDirectoryAndService) {
  StartDaemon({"--log-format", "json"});
  Register();
  StartAndEnd("svc-one");
  StartAndEnd("svc-two");
  const Json line = LineWith("of service svc-two has ended");
  ASSERT_TRUE(line.is_object()) << DaemonLog();
  EXPECT_EQ(line["program"], "ppcd");
  EXPECT_EQ(line["priority"], 6);
  EXPECT_EQ(line["directory"], kMount);
  EXPECT_EQ(line["service"], "svc-two");
  const Json runs = LineWith("runs (pid");
  ASSERT_TRUE(runs.is_object()) << DaemonLog();
  EXPECT_EQ(runs["directory"], kMount);
  EXPECT_FALSE(runs.contains("service"));
  // For people it is the same as ever.
  const std::string all = Ctl({"logs", kMount}).out;
  EXPECT_NE(all.find("/proc: process "), std::string::npos) << all;
  const std::string one = Ctl({"logs", "--id", "svc-one"}).out;
  EXPECT_NE(one.find("svc-one has ended"), std::string::npos) << one;
  EXPECT_EQ(one.find("svc-two"), std::string::npos) << one;
}

// Without a journal the policy's lines stand among ppcd's, by their time.
TEST_F(LogTest, LinesOfTheRunnerAreThere) {
  StartDaemon();
  const auto line = [](uint64_t time_ns, const char* text) {
    return Json{{"number", 1}, {"time_ns", time_ns}, {"priority", 6}, {"text", text}};
  };
  Json first = line(1000000000, "maio: service svc-one: recording");
  first["service"] = "svc-one";
  Register(
      {{"lines", {first, line(4000000000000000000, "the last"), "no line", Json{{"text", 3}}}}});
  const std::string all = Ctl({"logs", kMount}).out;
  const size_t began = all.find("/proc: maio: service svc-one: recording\n");
  const size_t runs = all.find("/proc: policy 'alpha' runs");
  const size_t last = all.find("/proc: the last\n");
  ASSERT_NE(last, std::string::npos) << all;
  EXPECT_LT(began, runs) << all;
  EXPECT_LT(runs, last) << all;
  const std::string one = Ctl({"logs", "--id", "svc-one"}).out;
  EXPECT_EQ(std::count(one.begin(), one.end(), '\n'), 1) << one;
  const Json other = Ask({{"op", "log"}, {"mount", kOtherMount}});
  EXPECT_TRUE(other["lines"].empty()) << other;
}

TEST_F(LogTest, TextIsTheUsualForm) {
  StartDaemon();
  Register();
  StartAndEnd("svc-one");
  EXPECT_FALSE(LineWith("of service svc-one has ended").is_object()) << DaemonLog();
  EXPECT_NE(DaemonLog().find("ppcd: /proc: process "), std::string::npos) << DaemonLog();
  const ProcessResult wrong = RunProcess({PPC_TEST_BIN_DIR "/ppcd", "--log-format", "xml"}, {});
  EXPECT_EQ(wrong.exit_status, 2);
  EXPECT_NE(wrong.err.find("it is text or json"), std::string::npos) << wrong.err;
}

}  // namespace
}  // namespace ppc::control
