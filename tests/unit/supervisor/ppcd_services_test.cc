// SPDX-License-Identifier: Apache-2.0
// Services: the one that a registration names, several starts of one, and those whose process has
// failed, which are awaited, started again or stopped.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/unit/child.h"
#include "tests/unit/supervisor/daemon_fixture.h"
#include "tests/unit/supervisor/rights_fixture.h"

namespace ppc::control {
namespace {

class FailedTest : public RunningDaemonTest {
 protected:
  void TearDown() override {
    for (const pid_t child : children_) KillAndReap(child);
    RunningDaemonTest::TearDown();
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
  Json Start(const Json& more = Json::object()) { return Tell("service_start", "svc-one", more); }
  Json Fail(const Json& more = Json::object()) { return Tell("service_failed", "svc-one", more); }
  pid_t Sleeper() { return children_.emplace_back(StartSleeper()); }

  std::vector<pid_t> children_;
};

TEST_F(FailedTest, AFailureThatIsToldIsAwaitedAndStartedAgain) {
  RegisterOne(60);
  ASSERT_TRUE(Start()["ok"]);
  ASSERT_TRUE(Tell("service_ready", "svc-one")["ok"]);
  const Json answer = Fail();
  EXPECT_TRUE(answer["ok"]) << answer;
  EXPECT_EQ(answer["wait_s"], 60);
  EXPECT_TRUE(Becomes("awaited"));
  const Json again = Start();
  EXPECT_TRUE(again["ok"]) << again;
  EXPECT_EQ(again["service"], 0);
  EXPECT_TRUE(Becomes("started"));
  EXPECT_FALSE(Has(RunnerLog(), "service_stop"));
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
  ASSERT_TRUE(Tell("service_start", "svc-two")["ok"]);
  ASSERT_TRUE(Tell("service_failed", "svc-two")["ok"]);
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
    EXPECT_TRUE(Has(answer["error"].get<std::string>(), "1 to 3600")) << answer;
  }
  EXPECT_EQ(Fail({{"wait_s", "soon"}})["code"], "EINVAL");
  EXPECT_FALSE(Has(RunnerLog(), "service_failed"));
}

// Not waited for yet by its parent: how it ended is known on every kernel.
TEST_F(FailedTest, AKilledRootProcessHasFailed) {
  RegisterOne(60);
  const pid_t root = Sleeper();
  ASSERT_TRUE(Start({{"pid", root}})["ok"]);
  kill(root, SIGKILL);
  EXPECT_TRUE(Becomes("awaited"));
  EXPECT_FALSE(StatusOf()["services"][0].contains("pid"));
  EXPECT_FALSE(Has(RunnerLog(), "service_stop"));
}

TEST_F(FailedTest, OneThatEndsWithAnErrorHasFailed) {
  RegisterOne(60);
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t root = children_.emplace_back(StartChild([&] {
    char byte = 0;
    return read(pipe_fds[0], &byte, 1) == 1 ? 3 : 0;
  }));
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
  EXPECT_FALSE(Has(RunnerLog(), "service_failed"));
}

TEST_F(FailedTest, ACommandThatFailsIsAwaited) {
  RegisterOne(60);
  EXPECT_EQ(
      Ctl({"run", "--id", "svc-one", kMount, "--", "/bin/sh", "-c", "kill -9 $$"}).exit_status,
      128 + SIGKILL);
  EXPECT_TRUE(Becomes("awaited"));
  EXPECT_EQ(Ctl({"service", "failed", "--id", "svc-one", "--within", "5", kMount}).exit_status, 0);
  EXPECT_TRUE(WasTold("\"wait_s\":5"));
  ExpectFailure(Ctl({"service", "failed", "--id", "svc-one", "--within", "soon", kMount}), 2,
                "--within");
}

// The service that a registration names, with a runner that behaves.

class OwnServiceTest : public RunningDaemonTest {};

TEST_F(OwnServiceTest, ItsOwnServiceStartsWithTheRegistration) {
  const auto reg = [this](const Json& id) {
    Json config{{"fake", {{"log", dir_ + "/runner.log"}}}, {"service_id", id}, {"xpus", {1, 0}}};
    return Ask({{"op", "reg_policy"}, {"mount", kMount}, {"policy", "alpha"}, {"config", config}});
  };
  EXPECT_EQ(reg("a/b")["code"], "EINVAL");
  EXPECT_EQ(reg(7)["code"], "EINVAL");
  ASSERT_TRUE(reg("svc-own").value("ok", false));
  const auto state = [this] {
    const Json services = StatusOf()["services"];
    return services.empty() ? "" : services[0].value("state", "");
  };
  EXPECT_TRUE(Eventually([&] { return state() == "started"; })) << StatusOf();
  EXPECT_EQ(StatusOf()["services"][0]["workers"], 2);
  EXPECT_TRUE(Has(RunnerLog(), "\"by_cgroup\":false"));
  EXPECT_FALSE(Has(RunnerLog(), "resumed"));
  EXPECT_TRUE(Tell("service_ready", "svc-own").value("ok", false));
  EXPECT_EQ(state(), "ready");
  StopDaemon(SIGKILL);
  StartDaemon();
  ASSERT_TRUE(WaitForState("running"));
  EXPECT_TRUE(WasTold("resumed"));
  EXPECT_EQ(state(), "ready");
  EXPECT_TRUE(Tell("service_stop", "svc-own").value("ok", false));
  StopDaemon(SIGKILL);
  StartDaemon();
  ASSERT_TRUE(WaitForState("running"));
  EXPECT_EQ(state(), "") << "it was stopped";
}

// Its readers come and go.
TEST_F(OwnServiceTest, AnotherStartOfItsOwnServiceIsNotReadyYet) {
  Json config{
      {"fake", {{"says_at_ready", {{"event", "service_start"}, {"service_id", "svc-own"}}}}},
      {"service_id", "svc-own"}};
  Ask({{"op", "reg_policy"}, {"mount", kMount}, {"policy", "alpha"}, {"config", config}});
  EXPECT_TRUE(Tell("service_ready", "svc-own").value("ok", false));
  EXPECT_TRUE(Eventually([this] { return StatusOf()["services"][0]["state"] == "started"; }));
}

// Several starts of one service at a time: each is a service of its own, the first's name is what
// all of them are learnt by.

class ReplicasTest : public RightsTest {
 protected:
  Json StartOf(pid_t pid) { return Ask(Start("svc-one", {{"pid", pid}})); }
  pid_t Engine() { return Keep({"engine", "/pods/a", 0, true}); }
  std::vector<std::string> Services() {
    std::vector<std::string> ids;
    const Json status = StatusOf();
    for (const Json& service : status["services"]) ids.push_back(service["service_id"]);
    return ids;
  }
};

TEST_F(ReplicasTest, TheSecondIsAServiceOfItsOwn) {
  const pid_t first = Engine();
  const Json one = StartOf(first);
  EXPECT_EQ(one["service_id"], "svc-one") << one;
  EXPECT_FALSE(one.contains("template"));
  const Json two = StartOf(Engine());
  EXPECT_EQ(two["service_id"], "svc-one.2") << two;
  EXPECT_EQ(two["template"], "svc-one");
  EXPECT_NE(two["service"], one["service"]);
  EXPECT_EQ(StatusOf()["services"][1]["template"], "svc-one");
  EXPECT_TRUE(Has(RunnerLog(), "\"template\":\"svc-one\""));
  EXPECT_EQ(StartOf(Engine())["service_id"], "svc-one.3");
  // The end of one is not that of another.
  kill(first, SIGTERM);
  EXPECT_TRUE(Eventually([this] {
    return Services() == std::vector<std::string>{"svc-one.2", "svc-one.3"};
  }));
  EXPECT_EQ(StartOf(Engine())["service_id"], "svc-one");
}

// The second comes while the policy looks at the first.
TEST_F(ReplicasTest, TwoAtOnceAreTwo) {
  ASSERT_EQ(CodeOf(Ask({{"op", "rm_policy"}, {"mount", kMount}})), "");
  Register({{"log", dir_ + "/runner.log"}, {"slow", {{"service_start", 300}}}});
  RawClient one(socket_), two(socket_);
  for (RawClient* client : {&one, &two}) {
    Json start = Start("svc-one", {{"pid", Engine()}});
    start["v"] = 1;
    client->SendLine(DumpJson(start));
  }
  EXPECT_EQ(Json::parse(one.ReadLine())["service_id"], "svc-one");
  EXPECT_EQ(Json::parse(two.ReadLine())["service_id"], "svc-one.2");
  EXPECT_EQ(Services(), (std::vector<std::string>{"svc-one", "svc-one.2"}));
}

TEST_F(ReplicasTest, AStartThatIsToldAgainKeepsItsName) {
  const pid_t first = Engine(), second = Engine();
  StartOf(first);
  StartOf(second);
  EXPECT_EQ(StartOf(first)["service_id"], "svc-one");
  EXPECT_EQ(StartOf(second)["service_id"], "svc-one.2");
  // Even where the first name is free again.
  EXPECT_EQ(CodeOf(Ask(About("service_stop", "svc-one"))), "");
  EXPECT_EQ(StartOf(second)["service_id"], "svc-one.2");
  EXPECT_EQ(Services(), std::vector<std::string>{"svc-one.2"});
}

TEST_F(ReplicasTest, WithoutAProcessItIsTheSameServiceAgain) {
  EXPECT_EQ(Ask(Start("svc-one"))["service_id"], "svc-one");
  EXPECT_EQ(StartOf(Engine())["service_id"], "svc-one");
  EXPECT_EQ(Ask(Start("svc-one"))["service_id"], "svc-one");
  EXPECT_EQ(Services(), std::vector<std::string>{"svc-one"});
}

TEST_F(ReplicasTest, PodsOfOneServiceDoNotNeedNamesOfTheirOwn) {
  const Caller a{"a", "/pods/a", 0}, b{"b", "/pods/b", 0};
  const pid_t in_a = Keep(a), in_b = Keep(b);
  EXPECT_EQ(AskAs(a, Start("svc-one", {{"pid", in_a}}))["service_id"], "svc-one");
  EXPECT_EQ(AskAs(b, Start("svc-one", {{"pid", in_b}}))["service_id"], "svc-one.2");
  // By the name that a pod computes it means its own; one without any has no rights.
  EXPECT_EQ(CodeOf(AskAs(b, About("service_ready", "svc-one"))), "");
  EXPECT_EQ(StatusOf()["services"][0]["state"], "started");
  EXPECT_EQ(StatusOf()["services"][1]["state"], "ready");
  EXPECT_EQ(CodeOf(AskAs({"c", "/pods/c", 0}, About("service_stop", "svc-one"))), "EACCES");
  EXPECT_EQ(CodeOf(AskAs(b, About("service_stop", "svc-one"))), "");
  EXPECT_EQ(CodeOf(AskAs(b, About("service_stop", "svc-one"))), "EACCES");
  // A process that is not the caller's does not become so.
  EXPECT_EQ(CodeOf(AskAs(b, Start("svc-one", {{"pid", in_a}}))), "EACCES");
  EXPECT_EQ(Services(), std::vector<std::string>{"svc-one"});
  // A caller cannot choose whose template is followed.
  const Json claimed = AskAs(b, Start("svc-two", {{"pid", in_b}, {"template", "svc-one"}}));
  EXPECT_FALSE(claimed.contains("template")) << claimed;
}

TEST_F(ReplicasTest, ANameThatIsTooLongForANumberIsRefused) {
  const std::string id(64, 'x');
  EXPECT_EQ(Ask(Start(id, {{"pid", Engine()}}))["service_id"], id);
  const Json refused = Ask(Start(id, {{"pid", Engine()}}));
  EXPECT_EQ(CodeOf(refused), "EINVAL");
  EXPECT_TRUE(Has(refused["error"].get<std::string>(), "4 to 64")) << refused;
}

}  // namespace
}  // namespace ppc::control
