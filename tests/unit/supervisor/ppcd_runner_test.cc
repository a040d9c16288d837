// SPDX-License-Identifier: Apache-2.0
// Runners that refuse, crash, hang, stop, and lose their mount.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {
namespace {

class RunnerTest : public RunningDaemonTest {
 protected:
  // For tests that wait for a long time-out of ppcd.
  void RestartAtTimeScale(int percent) {
    environment_.push_back("PPC_TIME_SCALE_PERCENT=" + std::to_string(percent));
    RestartDaemon();
  }
};

TEST_F(RunnerTest, AStartThatFailsSaysWhyAndIsNotInTheWayOfTheNext) {
  struct Case {
    const char* init;
    const char* code;
    const char* error;
  };
  for (const Case& c :
       {Case{"refuse", "EACCES", "policy x.so is writable by others; chmod o-w x.so"},
        Case{"crash", "", "SIGABRT"}, Case{"babble", "", ""},
        Case{"drop", "EIO", "dropped while it started: ppc_tick threw"}}) {
    const Json answer = Register({{"init", c.init}});
    EXPECT_EQ(answer["ok"], false) << c.init;
    EXPECT_TRUE(Has(answer.value("code", ""), c.code));
    EXPECT_TRUE(Has(answer.value("error", ""), c.error));
    EXPECT_EQ(StateOf(), "native") << c.init;
  }
  EXPECT_TRUE(Register().value("ok", false));
}

TEST_F(RunnerTest, AHangInInitTimesOut) {
  RestartAtTimeScale(8);
  const Json answer = Register({{"init", "hang"}});
  EXPECT_EQ(answer["code"], "ETIMEDOUT") << answer;
  EXPECT_EQ(StateOf(), "native");
}

TEST_F(RunnerTest, AnUnmountDuringInitIsNoCrash) {
  EXPECT_EQ(Register({{"init", "gone"}})["code"], "ENODEV");
}

TEST_F(RunnerTest, AMissingRunnerProgramIsNamed) {
  environment_.push_back("PPC_RUNNER=" + dir_ + "/nothing");
  RestartDaemon();
  const Json answer = Register();
  EXPECT_EQ(answer["code"], "ENOENT");
  EXPECT_NE(answer["error"].get<std::string>().find(dir_ + "/nothing"), std::string::npos);
}

TEST_F(RunnerTest, AKilledRunnerComesBackWithItsServices) {
  Register({{"log", dir_ + "/runner.log"}});
  Tell("service_start", "svc-one");
  const pid_t first = RunnerPid();
  kill(first, SIGKILL);
  ASSERT_TRUE(WaitForAnother(first));
  const std::string again = std::to_string(RunnerPid()) + " ";
  EXPECT_TRUE(Eventually([&] {
    const std::string log = RunnerLog();
    const size_t at = log.find(again);
    return at != std::string::npos && log.find("service_start", at) != std::string::npos;
  })) << RunnerLog();
  const Json status = StatusOf();
  EXPECT_EQ(status["restarts"], 1);
  EXPECT_NE(status["last_error"].get<std::string>().find("SIGKILL"), std::string::npos) << status;
}

TEST_F(RunnerTest, ADeathIsSeenThoughWhoStartedUsIgnoresHisChildren) {
  StopDaemon();
  const auto before = signal(SIGCHLD, SIG_IGN);
  StartDaemon();
  signal(SIGCHLD, before);
  Register();
  const pid_t first = RunnerPid();
  kill(first, SIGKILL);
  EXPECT_TRUE(WaitForAnother(first));
}

TEST_F(RunnerTest, ServicesHaveTheNumbersThatARestartedRunnerGivesThem) {
  Register({{"numbers", true}});
  for (const char* id : {"svc-one", "svc-two"}) Tell("service_start", id);
  Tell("service_stop", "svc-one");
  EXPECT_EQ(StatusOf()["services"][0]["service"], 1);
  kill(RunnerPid(), SIGKILL);
  EXPECT_TRUE(Eventually([this] { return StatusOf()["services"][0]["service"] == 0; }));
}

// As long as the runner is stopped, it answers nothing.
TEST_F(RunnerTest, ABurstOfMessagesWaitsForTheRunner) {
  constexpr int kMessages = 200;
  Register({{"log", dir_ + "/runner.log"}});
  Tell("service_start", "svc-one");
  const pid_t runner = RunnerPid();
  kill(runner, SIGSTOP);
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < kMessages; ++i) {
    clients.push_back(std::make_unique<RawClient>(socket_));
    clients.back()->SendLine(R"({"v":1,"op":"policy","mount":"/proc","message":{"op":"look"}})");
  }
  RawClient stop(socket_);
  stop.SendLine(R"({"v":1,"op":"service_stop","mount":"/proc","service_id":"svc-one"})");
  EXPECT_EQ(StateOf(), "stopped") << "it is not kept from asking itself";
  kill(runner, SIGCONT);
  for (const auto& client : clients) ASSERT_TRUE(client->Answer().value("ok", false));
  EXPECT_TRUE(stop.Answer().value("ok", false));
  EXPECT_TRUE(WasTold("service_stop"));
}

TEST_F(RunnerTest, AnAnswerOfAnotherTypeEndsNobody) {
  Register({{"reply", {{"treatment", 1}}}});
  for (const char* const op : {"service_start", "service_ready"})
    EXPECT_TRUE(Tell(op, "svc-one").value("ok", false)) << op;
  EXPECT_TRUE(Ask({{"op", "policy"}, {"mount", kMount}, {"message", {{"op", 1}}}}).contains("ok"));
  EXPECT_EQ(StateOf(), "running");
}

TEST_F(RunnerTest, AnAnswerThatIsTooLongIsLeftOut) {
  Register({{"status_bytes", 5 << 20}});
  const pid_t runner = RunnerPid();
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(StatusOf().contains("filler"));
    EXPECT_TRUE(Tell("service_start", "svc-one").value("ok", false));
  }
  EXPECT_EQ(RunnerPid(), runner);
}

TEST_F(RunnerTest, RequestsWaitForARunnerThatComesBack) {
  Register({{"lives_on", dir_ + "/marker"}, {"crash_after_ms", 0}});  // refused: no marker
  std::ofstream(dir_ + "/marker") << "x";
  ASSERT_TRUE(Register({{"lives_on", dir_ + "/marker"}}).value("ok", false));
  std::remove((dir_ + "/marker").c_str());
  kill(RunnerPid(), SIGKILL);
  ASSERT_TRUE(WaitForState("restarting"));
  RawClient client(socket_);
  client.SendLine(R"({"v":1,"op":"service_start","mount":"/proc","service_id":"svc-one"})");
  std::ofstream(dir_ + "/marker") << "x";
  EXPECT_TRUE(client.Answer().value("ok", false));
}

TEST_F(RunnerTest, AfterFiveQuickDeathsItGivesUpAndSaysSo) {
  const uint64_t before = MonotonicNs();
  Register({{"crash_after_ms", 20}});
  ASSERT_TRUE(WaitForState("failed"));
  // Back-offs of 50, 100, 200 and 400 ms at this time scale.
  EXPECT_GE(MonotonicNs() - before, 750 * kNsPerMs);
  const Json status = StatusOf();
  EXPECT_EQ(status["restarts"], 4);
  for (const char* part : {"gave up after 5", "SIGABRT"})
    EXPECT_TRUE(Has(status["last_error"].get<std::string>(), part));
  const Json refused = Tell("service_start", "svc-one");
  EXPECT_NE(refused["error"].get<std::string>().find("gave up"), std::string::npos) << refused;
}

TEST_F(RunnerTest, ADeathAfterALongLifeIsNotOneOfTheFive) {
  RestartAtTimeScale(8);  // a life of 800 ms is long
  const std::string marker = dir_ + "/marker";
  std::ofstream(marker) << "x";
  ASSERT_TRUE(Register({{"lives_on", marker}}).value("ok", false));
  poll(nullptr, 0, 1000);
  std::remove(marker.c_str());
  kill(RunnerPid(), SIGKILL);
  ASSERT_TRUE(WaitForState("failed"));
  EXPECT_EQ(StatusOf()["restarts"], 5);
}

TEST_F(RunnerTest, AFailedRegistrationCanBeReplacedOrRemoved) {
  Register({{"drop_after_ms", 0}});
  ASSERT_TRUE(WaitForState("failed"));
  EXPECT_TRUE(Register(Json::object(), "beta").value("ok", false));
  EXPECT_EQ(StateOf(), "running");
  Ask({{"op", "rm_policy"}, {"mount", kMount}});
  Register({{"drop_after_ms", 0}});
  ASSERT_TRUE(WaitForState("failed"));
  EXPECT_TRUE(Ask({{"op", "rm_policy"}, {"mount", kMount}}).value("ok", false));
  EXPECT_EQ(StateOf(), "native");
}

TEST_F(RunnerTest, ADroppedPolicyIsTriedAgainLater) {
  RestartAtTimeScale(5);  // after 3 s
  Register({{"drop_after_ms", 10}, {"log", dir_ + "/runner.log"}});
  ASSERT_TRUE(WaitForState("failed"));
  const auto starts = [this] { return CountOf("\"init\"", RunnerLog()); };
  EXPECT_EQ(starts(), 1U);
  EXPECT_TRUE(Eventually([&] { return starts() == 2; }));
  EXPECT_TRUE(WaitForState("failed"));
  EXPECT_EQ(StatusOf()["restarts"], 1);
}

TEST_F(RunnerTest, AFailedRegistrationStaysSoOverARestart) {
  Register({{"drop_after_ms", 10}, {"log", dir_ + "/runner.log"}});
  ASSERT_TRUE(WaitForState("failed"));
  const Json before = StatusOf();
  EXPECT_EQ(before["restarts"], 0);
  EXPECT_TRUE(Has(before["last_error"].get<std::string>(), "ppc_prefetch took longer"));
  for (int restart = 0; restart < 2; ++restart) {
    RestartDaemon();
    EXPECT_EQ(StateOf(), "failed");
    EXPECT_EQ(StatusOf()["last_error"], before["last_error"]);
  }
  EXPECT_EQ(CountOf("init", RunnerLog()), 1U) << "the policy ran again";
  EXPECT_TRUE(Register().value("ok", false));
  RestartDaemon();
  EXPECT_TRUE(WaitForState("running"));
}

TEST_F(RunnerTest, AStoppedRunnerDoesNotHangStatus) {
  Register();
  const pid_t runner = RunnerPid();
  kill(runner, SIGSTOP);
  EXPECT_EQ(StateOf(), "stopped");
  EXPECT_EQ(Ask({{"op", "list"}})["mounts"][0]["state"], "stopped");
  EXPECT_TRUE(Has(StatusOf()["last_error"].get<std::string>(), "lease"));
  kill(runner, SIGCONT);
  EXPECT_TRUE(WaitForState("running"));
  EXPECT_EQ(RunnerPid(), runner);
}

TEST_F(RunnerTest, StatusTellsWhenTheLeaseOfAStoppedRunnerHasRunOut) {
  Register();
  kill(RunnerPid(), SIGSTOP);
  std::ofstream(dir_ + "/sysroot/sys/fs/ppc/0/state") << "expired\n";
  EXPECT_TRUE(Has(StatusOf()["last_error"].get<std::string>(), "lease has run out: the native"));
}

TEST_F(RunnerTest, RemovingAStoppedRunnerKillsIt) {
  Register();
  const pid_t runner = RunnerPid();
  kill(runner, SIGSTOP);
  EXPECT_TRUE(Ask({{"op", "rm_policy"}, {"mount", kMount}}).value("ok", false));
  EXPECT_NE(kill(runner, 0), 0);
  EXPECT_TRUE(Register().value("ok", false)) << "a new registration works";
}

TEST_F(RunnerTest, AKilledStoppedRunnerIsRestarted) {
  Register();
  const pid_t runner = RunnerPid();
  kill(runner, SIGSTOP);
  ASSERT_TRUE(WaitForState("stopped"));
  kill(runner, SIGKILL);
  EXPECT_TRUE(WaitForAnother(runner));
}

TEST_F(RunnerTest, AServiceOfAStoppedRunnerTimesOutAndSaysWhy) {
  Register();
  kill(RunnerPid(), SIGSTOP);
  const Json answer = Ask(
      {{"op", "service_start"}, {"mount", kMount}, {"service_id", "svc-one"}, {"wait_ms", 150}});
  EXPECT_EQ(answer["code"], "ETIMEDOUT");
  EXPECT_NE(answer["error"].get<std::string>().find("stopped"), std::string::npos) << answer;
  EXPECT_TRUE(StatusOf()["services"].empty());
}

TEST_F(RunnerTest, AMuteRunnerIsKilledAndRestarted) {
  RestartAtTimeScale(8);
  Register({{"control", "hang"}});
  const pid_t runner = RunnerPid();
  RawClient client(socket_);
  client.SendLine(R"({"v":1,"op":"service_start","mount":"/proc","service_id":"svc-one"})");
  ASSERT_TRUE(WaitForState("unresponsive"));
  EXPECT_TRUE(WaitForAnother(runner));
  EXPECT_NE(DaemonLog().find("does not answer any more"), std::string::npos);
  // The service whose start hangs is not what every other runner dies of.
  EXPECT_TRUE(Eventually([&] { return StatusOf()["services"].empty() && StateOf() == "running"; }));
}

TEST_F(RunnerTest, AStatusDoesNotWaitForThePolicy) {
  Register({{"control", "late"},
            {"log", dir_ + "/runner.log"},
            {"status", {{"waits_for", {{"hook", "ppc_control"}, {"ms", 3000}}}}}});
  RawClient client(socket_);
  client.SendLine(R"({"v":1,"op":"policy","mount":"/proc","message":{"op":"look"}})");
  ASSERT_TRUE(WasTold("look"));
  const Json status = StatusOf();
  EXPECT_EQ(status["runner"]["events"]["read"], 7) << status;
  EXPECT_EQ(status["state"], "unresponsive");
  EXPECT_TRUE(Has(JsonText(status, "last_error"), "not answered for 3 s (ppc_control)"));
  EXPECT_TRUE(client.Answer().value("ok", false));
}

TEST_F(RunnerTest, ACrashInControlIsAnErrorAndARestart) {
  Register({{"control", "crash"}});
  const Json answer = Tell("service_start", "svc-one");
  EXPECT_EQ(answer["code"], "EPIPE") << answer;
  EXPECT_TRUE(WaitForState("running"));
}

TEST_F(RunnerTest, ARunnerThatDoesNotDrainIsKilled) {
  Register({{"stop", "hang"}});
  const pid_t runner = RunnerPid();
  EXPECT_TRUE(Ask({{"op", "rm_policy"}, {"mount", kMount}}).value("ok", false));
  EXPECT_NE(kill(runner, 0), 0);
}

TEST_F(RunnerTest, SigtermEndsStoppedAndMuteRunnersToo) {
  Register({{"stop", "hang"}});
  Register(Json::object(), "beta", kOtherMount);
  const pid_t mute = RunnerPid();
  const pid_t stopped = RunnerPid(kOtherMount);
  kill(stopped, SIGSTOP);
  EXPECT_EQ(StopDaemon(SIGTERM), 0);
  EXPECT_NE(kill(mute, 0), 0);
  EXPECT_NE(kill(stopped, 0), 0);
}

TEST_F(RunnerTest, AKilledDaemonLeavesNoRunner) {
  Register();
  Register(Json::object(), "beta", kOtherMount);
  const pid_t one = RunnerPid();
  const pid_t stopped = RunnerPid(kOtherMount);
  kill(stopped, SIGSTOP);
  StopDaemon(SIGKILL);
  EXPECT_TRUE(Eventually([&] { return kill(one, 0) != 0 && kill(stopped, 0) != 0; }));
}

}  // namespace
}  // namespace ppc::control
