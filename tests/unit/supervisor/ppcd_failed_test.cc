// SPDX-License-Identifier: Apache-2.0
// Services whose process has failed: awaited for as long as the policy says, started again or
// stopped; what ppcd itself takes for a failure.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {
namespace {

class FailedTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    StartDaemon();
  }
  void TearDown() override {
    for (const pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
    DaemonTest::TearDown();
  }
  // A policy that awaits the next start for so long; -1: one that knows nothing of it.
  void RegisterOne(int wait_s) {
    Json fake = {{"log", dir_ + "/runner.log"}};
    if (wait_s >= 0) fake["wait_s"] = wait_s;
    ASSERT_TRUE(Register(fake)["ok"]);
  }
  bool Becomes(const std::string& state) {
    return Eventually([&] {
      const Json services = StatusOf()["services"];
      return state.empty() ? services.empty()
                           : services.size() == 1 && services[0]["state"] == state;
    });
  }
  Json Start(Json more = Json::object(), const char* id = "svc-one") {
    more.update({{"op", "service_start"}, {"mount", kMount}, {"service_id", id}});
    return Ask(more);
  }
  Json Fail(Json more = Json::object(), const char* id = "svc-one") {
    more.update({{"op", "service_failed"}, {"mount", kMount}, {"service_id", id}});
    return Ask(more);
  }
  // A process that waits for a signal, or ends at once.
  pid_t Process(const std::function<void()>& body) {
    const pid_t pid = fork();
    if (pid == 0) {
      body();
      _exit(0);
    }
    children_.push_back(pid);
    return pid;
  }
  pid_t Sleeper() {
    return Process([] {
      while (true) pause();
    });
  }

 private:
  std::vector<pid_t> children_;
};

TEST_F(FailedTest, AFailureThatIsToldIsAwaitedAndStartedAgain) {
  RegisterOne(60);
  ASSERT_TRUE(Start()["ok"]);
  ASSERT_TRUE(Ask({{"op", "service_ready"}, {"mount", kMount}, {"service_id", "svc-one"}})["ok"]);
  const Json answer = Fail();
  EXPECT_TRUE(answer["ok"]) << answer;
  EXPECT_EQ(answer["wait_s"], 60);
  EXPECT_TRUE(Becomes("awaited"));
  const Json again = Start();
  EXPECT_TRUE(again["ok"]) << again;
  EXPECT_EQ(again["service"], 0);
  EXPECT_TRUE(Becomes("started"));
  EXPECT_EQ(RunnerLog().find("service_stop"), std::string::npos);
}

TEST_F(FailedTest, OneThatNobodyStartsAgainIsStopped) {
  RegisterOne(1);
  ASSERT_TRUE(Start()["ok"]);
  ASSERT_TRUE(Fail()["ok"]);
  EXPECT_TRUE(Becomes(""));
  EXPECT_TRUE(WasTold("\"reason\":\"failed\""));
}

// The time that began with the first failure does not end the second start.
TEST_F(FailedTest, AStartInTimeIsNotStopped) {
  RegisterOne(1);
  ASSERT_TRUE(Start()["ok"]);
  ASSERT_TRUE(Fail()["ok"]);
  ASSERT_TRUE(Start()["ok"]);
  // Another one that fails afterwards, and is stopped when its time is over.
  ASSERT_TRUE(Start(Json::object(), "svc-two")["ok"]);
  ASSERT_TRUE(Fail(Json::object(), "svc-two")["ok"]);
  EXPECT_TRUE(Eventually([this] { return StatusOf()["services"].size() == 1; }));
  EXPECT_TRUE(Becomes("started"));
}

TEST_F(FailedTest, APolicyThatKnowsNothingOfItLetsTheServiceEnd) {
  RegisterOne(-1);
  ASSERT_TRUE(Start()["ok"]);
  EXPECT_EQ(Fail()["wait_s"], 0);
  EXPECT_TRUE(Becomes(""));
  EXPECT_TRUE(WasTold("service_stop"));
}

TEST_F(FailedTest, RefusesNonsense) {
  RegisterOne(60);
  EXPECT_FALSE(Fail()["ok"]);  // never started
  ASSERT_TRUE(Start()["ok"]);
  for (const int wait_s : {0, 3601}) {
    const Json answer = Fail({{"wait_s", wait_s}});
    EXPECT_EQ(answer["code"], "EINVAL") << answer;
    EXPECT_NE(answer["error"].get<std::string>().find("1 to 3600"), std::string::npos) << answer;
  }
  EXPECT_EQ(Fail({{"wait_s", "soon"}})["code"], "EINVAL");
  EXPECT_EQ(RunnerLog().find("service_failed"), std::string::npos);
}

// Not waited for yet by its parent: how it ended is known on every kernel.
TEST_F(FailedTest, AKilledRootProcessHasFailed) {
  RegisterOne(60);
  const pid_t root = Sleeper();
  ASSERT_TRUE(Start({{"pid", root}})["ok"]);
  kill(root, SIGKILL);
  EXPECT_TRUE(Becomes("awaited"));
  EXPECT_FALSE(StatusOf()["services"][0].contains("pid"));
  EXPECT_EQ(RunnerLog().find("service_stop"), std::string::npos);
}

TEST_F(FailedTest, OneThatEndsWithAnErrorHasFailed) {
  RegisterOne(60);
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t root = Process([&] {
    char byte = 0;
    _exit(read(pipe_fds[0], &byte, 1) == 1 ? 3 : 0);
  });
  ASSERT_TRUE(Start({{"pid", root}})["ok"]);
  ASSERT_EQ(write(pipe_fds[1], "x", 1), 1);
  EXPECT_TRUE(Becomes("awaited"));
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

TEST_F(FailedTest, OneThatWasAskedToEndHasNot) {
  RegisterOne(60);
  const pid_t root = Sleeper();
  ASSERT_TRUE(Start({{"pid", root}})["ok"]);
  kill(root, SIGTERM);
  EXPECT_TRUE(Becomes(""));
  EXPECT_EQ(RunnerLog().find("service_failed"), std::string::npos);
}

TEST_F(FailedTest, ACommandThatFailsIsAwaited) {
  RegisterOne(60);
  EXPECT_EQ(
      Ctl({"run", "--id", "svc-one", kMount, "--", "/bin/sh", "-c", "kill -9 $$"}).exit_status,
      128 + SIGKILL);
  EXPECT_TRUE(Becomes("awaited"));
  EXPECT_EQ(Ctl({"service", "failed", "--id", "svc-one", "--within", "5", kMount}).exit_status, 0);
  EXPECT_TRUE(WasTold("\"wait_s\":5"));
  const ProcessResult usage =
      Ctl({"service", "failed", "--id", "svc-one", "--within", "soon", kMount});
  EXPECT_EQ(usage.exit_status, 2);
  EXPECT_NE(usage.err.find("--within"), std::string::npos) << usage.err;
}

}  // namespace
}  // namespace ppc::control
