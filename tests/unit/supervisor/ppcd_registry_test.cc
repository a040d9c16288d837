// SPDX-License-Identifier: Apache-2.0
// Registrations and services, with a runner that behaves.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {
namespace {

class RegistryTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    StartDaemon();
  }
  // What the runner was told, one "PID {...}" per line.
  Json Logging() { return {{"log", dir_ + "/runner.log"}}; }
  Json StartService(const std::string& id, Json more = Json::object()) {
    more["op"] = "service_start";
    more["mount"] = kMount;
    more["service_id"] = id;
    if (!more.contains("wait_ms")) more["wait_ms"] = 60000;
    return Ask(more);
  }
};

TEST_F(RegistryTest, RegistersAndRemoves) {
  const Json answer = Register();
  EXPECT_TRUE(answer.value("ok", false)) << answer;
  EXPECT_FALSE(answer["existing"]);
  EXPECT_EQ(StateOf(), "running");
  const Json list = Ask({{"op", "list"}})["mounts"];
  EXPECT_EQ(list[0]["mount"], kMount);
  EXPECT_EQ(list[0]["policy"], "alpha");
  const pid_t runner = RunnerPid();
  EXPECT_TRUE(Ask({{"op", "rm_policy"}, {"mount", kMount}}).value("ok", false));
  EXPECT_EQ(StateOf(), "native");
  EXPECT_NE(kill(runner, 0), 0) << "the runner should have ended";
}

TEST_F(RegistryTest, RepeatingTheSameGivesTheSameHandle) {
  const Json first = Register();
  const Json second = Register();
  EXPECT_TRUE(second.value("ok", false));
  EXPECT_TRUE(second["existing"]);
  EXPECT_EQ(first["handle"], second["handle"]);
}

TEST_F(RegistryTest, ADifferentPolicyOrConfigIsBusyAndNamesTheOne) {
  Register();
  const pid_t runner = RunnerPid();
  const Json policy = Register(Json::object(), "beta");
  EXPECT_EQ(policy["code"], "EBUSY");
  EXPECT_NE(policy["error"].get<std::string>().find("'alpha'"), std::string::npos);
  EXPECT_NE(policy["error"].get<std::string>().find("rm_policy"), std::string::npos);
  EXPECT_EQ(Register({{"x", 1}})["code"], "EBUSY");
  EXPECT_EQ(RunnerPid(), runner) << "the registered one is unharmed";
}

TEST_F(RegistryTest, TwoMountsHaveTheirOwnPolicies) {
  EXPECT_TRUE(Register().value("ok", false));
  EXPECT_TRUE(Register(Json::object(), "beta", kOtherMount).value("ok", false));
  EXPECT_NE(RunnerPid(kMount), RunnerPid(kOtherMount));
  Ask({{"op", "rm_policy"}, {"mount", kMount}});
  EXPECT_EQ(StateOf(kOtherMount), "running");
}

TEST_F(RegistryTest, MountsAreChecked) {
  const auto code = [this](const std::string& mount) {
    return Register(Json::object(), "alpha", mount).value("code", "");
  };
  EXPECT_EQ(code("proc"), "EINVAL");
  EXPECT_EQ(code("./proc"), "EINVAL");
  EXPECT_EQ(code("/no/such/directory"), "ENOENT");
  EXPECT_EQ(code("/dev/../proc"), "EINVAL");
  EXPECT_EQ(code("/proc/self"), "EINVAL") << "inside a mount";
  EXPECT_EQ(code("//proc/./"), "");
}

TEST_F(RegistryTest, PoliciesAreLookedUp) {
  const auto code = [this](const std::string& policy) {
    return Register(Json::object(), policy).value("code", "");
  };
  EXPECT_EQ(code("no_such"), "ENOENT");
  EXPECT_EQ(code("sub/policy"), "EINVAL");
  EXPECT_EQ(code("../alpha"), "EINVAL");
  EXPECT_EQ(code("/no/such/policy.so"), "ENOENT");
  const Json answer = Register(Json::object(), "no_such");
  EXPECT_NE(answer["error"].get<std::string>().find("alpha, beta"), std::string::npos) << answer;
  EXPECT_EQ(code(dir_ + "/policies/libppc_alpha.so"), "");
}

TEST_F(RegistryTest, UnregisteredMountsSaySo) {
  for (const char* op : {"service_ready", "service_stop"}) {
    const Json answer = Ask({{"op", op}, {"mount", kMount}, {"service_id", "abcd"}});
    EXPECT_EQ(answer["code"], "ENOENT") << op;
    EXPECT_NE(answer["error"].get<std::string>().find("reg_policy"), std::string::npos);
  }
  EXPECT_EQ(Ask({{"op", "rm_policy"}, {"mount", kMount}})["code"], "ENOENT");
}

TEST_F(RegistryTest, AServiceGoesToThePolicyWithNumberAndCgroup) {
  Register(Logging());
  const Json answer = StartService("svc-one", {{"xpus", {1, 0}}});
  EXPECT_TRUE(answer.value("ok", false)) << answer;
  EXPECT_EQ(answer["service"], 0);
  EXPECT_EQ(answer["mode"], "record") << "what the policy answers comes along";
  EXPECT_EQ(answer["echo"]["workers"], 2) << "one worker per XPU";
  EXPECT_TRUE(answer["echo"]["cgroup"].is_string());
  EXPECT_EQ(StartService("svc-two")["service"], 1);
  EXPECT_EQ(StartService("svc-one")["service"], 0) << "the same service keeps its number";
  const Json ready = Ask({{"op", "service_ready"}, {"mount", kMount}, {"service_id", "svc-one"}});
  EXPECT_TRUE(ready.value("ok", false)) << ready;
  const Json services = StatusOf()["services"];
  EXPECT_EQ(services[0]["state"], "ready");
  EXPECT_EQ(services[1]["state"], "started");
  EXPECT_TRUE(Ask({{"op", "service_stop"}, {"mount", kMount}, {"service_id", "svc-one"}})
                  .value("ok", false));
  EXPECT_EQ(StatusOf()["services"].size(), 1U);
  const Json again = Ask({{"op", "service_stop"}, {"mount", kMount}, {"service_id", "svc-one"}});
  EXPECT_EQ(again["code"], "ENOENT");
  EXPECT_NE(again["error"].get<std::string>().find("svc-two"), std::string::npos) << again;
}

TEST_F(RegistryTest, AServiceIsNamedByItsParameters) {
  Register();
  const Json named = Ask({{"op", "service_id"}, {"params", {{"model", "m"}}}});
  const Json started =
      Ask({{"op", "service_start"}, {"mount", kMount}, {"params", {{"port", 80}, {"model", "m"}}}});
  EXPECT_EQ(started["service_id"], named["service_id"]);
  EXPECT_EQ(Ask({{"op", "service_start"}, {"mount", kMount}})["code"], "EINVAL");
  EXPECT_EQ(StartService("../../etc/passwd")["code"], "EINVAL");
  EXPECT_EQ(StartService("good-id", {{"cgroup", "/no/such/group"}})["code"], "ENOENT");
  EXPECT_EQ(StartService("good-id", {{"cgroup", "/../etc"}})["code"], "EINVAL");
  EXPECT_EQ(StartService("good-id", {{"pid", 4194303}})["code"], "ESRCH");
}

TEST_F(RegistryTest, TwoStartsAtOnceGetTwoNumbers) {
  Register();
  RawClient a(socket_), b(socket_);
  a.SendLine(R"({"v":1,"op":"service_start","mount":"/proc","service_id":"aaaa"})");
  b.SendLine(R"({"v":1,"op":"service_start","mount":"/proc","service_id":"bbbb"})");
  const Json first = *ParseJson(a.ReadLine(), "answer");
  const Json second = *ParseJson(b.ReadLine(), "answer");
  EXPECT_NE(first["service"], second["service"]);
}

TEST_F(RegistryTest, ARefusedServiceIsNotKept) {
  Register({{"control", "refuse"}});
  const Json answer = StartService("svc-one");
  EXPECT_FALSE(answer["ok"]);
  EXPECT_EQ(answer["error"], "template is stale");
  EXPECT_TRUE(StatusOf()["services"].empty());
}

TEST_F(RegistryTest, ARefusedSecondStartStopsTheFirst) {
  Json fake = Logging();
  fake["refuse_again"] = true;
  Register(fake);
  EXPECT_TRUE(StartService("svc-one").value("ok", false));
  EXPECT_EQ(StartService("svc-one")["error"], "template is stale");
  EXPECT_TRUE(StatusOf()["services"].empty());
  EXPECT_TRUE(WasTold("service_stop"));
}

// A policy may read the headers of a large model: no caller waits for that.
TEST_F(RegistryTest, AServiceWhosePolicyIsSlowStarts) {
  Json fake = Logging();
  fake["slow"] = {{"service_start", 3000}};
  Register(fake);
  Json answer = StartService("svc-one", {{"wait_ms", 0}});
  EXPECT_TRUE(answer.value("ok", false)) << answer;
  EXPECT_EQ(answer["state"], "starting");
  EXPECT_EQ(answer["service"], 0);
  EXPECT_EQ(StatusOf()["services"][0]["state"], "starting");
  EXPECT_TRUE(Eventually([this] { return StatusOf()["services"][0]["state"] == "started"; }));
  EXPECT_EQ(RunnerLog().find("service_stop"), std::string::npos);
}

TEST_F(RegistryTest, AServiceThatIsRefusedLateIsStoppedAndSaysWhy) {
  Json fake = Logging();
  fake["slow"] = {{"service_start", 300}};
  fake["control"] = "refuse";
  Register(fake);
  EXPECT_EQ(StartService("svc-one", {{"wait_ms", 0}})["state"], "starting");
  EXPECT_TRUE(Eventually([this] { return StatusOf()["services"].empty(); }));
  EXPECT_NE(DumpJson(StatusOf()["last_error"]).find("template is stale"), std::string::npos);
  EXPECT_TRUE(WasTold("service_stop"));
}

TEST_F(RegistryTest, AServiceThatStartsWhileItsRunnerDiesIsToldAgain) {
  Json fake = Logging();
  fake["slow"] = {{"service_start", 2000}};
  Register(fake);
  EXPECT_EQ(StartService("svc-one", {{"wait_ms", 0}})["state"], "starting");
  const pid_t first = RunnerPid();
  kill(first, SIGKILL);
  EXPECT_TRUE(Eventually([&] {
    const Json services = StatusOf()["services"];
    return services.size() == 1 && services[0]["state"] == "started" && RunnerPid() != first;
  }));
}

TEST_F(RegistryTest, AStartThatIsTriedAgainIsNotStoppedByTheFirstOnes) {
  Json fake = Logging();
  fake["slow"] = {{"service_start", 600}};
  fake["numbers"] = true;
  Register(fake);
  EXPECT_EQ(StartService("svc-one", {{"wait_ms", 0}})["state"], "starting");
  EXPECT_TRUE(StartService("svc-one").value("ok", false));
  EXPECT_EQ(StatusOf()["services"][0]["state"], "started");
  EXPECT_EQ(RunnerLog().find("service_stop"), std::string::npos);
}

TEST_F(RegistryTest, APolicyWithoutServicesTakesThemAll) {
  Register({{"control", "unknown"}});
  const Json answer = StartService("svc-one");
  EXPECT_TRUE(answer.value("ok", false)) << answer;
  EXPECT_EQ(answer["mode"], "none");
  EXPECT_TRUE(Ask({{"op", "service_stop"}, {"mount", kMount}, {"service_id", "svc-one"}})
                  .value("ok", false));
}

TEST_F(RegistryTest, TheEndOfTheRootProcessStopsTheService) {
  Register(Logging());
  const pid_t root = fork();
  if (root == 0) {
    while (true) pause();
  }
  EXPECT_TRUE(StartService("svc-one", {{"pid", root}}).value("ok", false));
  EXPECT_EQ(StatusOf()["services"].size(), 1U);
  kill(root, SIGKILL);
  waitpid(root, nullptr, 0);
  EXPECT_TRUE(Eventually([this] { return StatusOf()["services"].empty(); }));
  EXPECT_TRUE(WasTold("service_stop"));
}

TEST_F(RegistryTest, Pid0IsTheCaller) {
  Register();
  EXPECT_TRUE(StartService("svc-one", {{"pid", 0}}).value("ok", false));
  EXPECT_EQ(StatusOf()["services"][0]["pid"], getpid());
}

TEST_F(RegistryTest, MessagesGoThroughToThePolicy) {
  Register();
  const Json answer =
      Ask({{"op", "policy"}, {"mount", kMount}, {"message", {{"op", "tune"}, {"x", 1}}}});
  EXPECT_EQ(answer["reply"]["echo"]["x"], 1);
  EXPECT_EQ(Ask({{"op", "policy"}, {"mount", kMount}, {"message", {{"x", 1}}}})["code"], "EINVAL");
  EXPECT_EQ(
      Ask({{"op", "policy"}, {"mount", kMount}, {"message", {{"op", "service_stop"}}}})["code"],
      "EINVAL");
}

TEST_F(RegistryTest, StatusHasTheRunnersAndTheKernelsCounters) {
  Register();
  const Json status = StatusOf();
  EXPECT_EQ(status["runner"]["events"]["read"], 7);
  EXPECT_EQ(status["kernel"]["events_queued"], 12);
  EXPECT_EQ(status["device"], "/dev/ppc0");
  const Json all = Ask({{"op", "status"}});
  EXPECT_EQ(all["daemon"]["pid"], daemon_);
}

TEST_F(RegistryTest, ARestartedDaemonTakesUpWhatWasRegistered) {
  Register(Logging());
  StartService("svc-one", {{"workers", 2}});
  Ask({{"op", "service_ready"}, {"mount", kMount}, {"service_id", "svc-one"}});
  const pid_t old_runner = RunnerPid();
  for (const int signal : {SIGTERM, SIGKILL}) {
    StopDaemon(signal);
    EXPECT_TRUE(Eventually([&] { return kill(old_runner, 0) != 0; })) << "a runner survived";
    std::filesystem::remove(dir_ + "/runner.log");
    StartDaemon();
    ASSERT_TRUE(WaitForState("running")) << signal;
    EXPECT_EQ(StatusOf()["services"][0]["service_id"], "svc-one");
    EXPECT_EQ(StatusOf()["services"][0]["state"], "ready");
    EXPECT_TRUE(Eventually([this] {
      return RunnerLog().find("\"resumed\":true") != std::string::npos &&
             RunnerLog().find("service_ready") != std::string::npos;
    })) << RunnerLog();
  }
  EXPECT_TRUE(Register(Logging())["existing"]) << "the adopted one is the registered one";
}

// A runner is asked no more than 64 things at once.
TEST_F(RegistryTest, AHundredServicesAreTakenUpAgain) {
  constexpr int kServices = 100;
  Register(Logging());
  for (int i = 0; i < kServices; ++i) {
    ASSERT_TRUE(StartService("svc-" + std::to_string(i), {}).value("ok", false)) << i;
  }
  Ask({{"op", "service_ready"}, {"mount", kMount}, {"service_id", "svc-99"}});
  std::filesystem::remove(dir_ + "/runner.log");
  kill(RunnerPid(), SIGKILL);
  const auto resumed = [this] {
    const std::string log = RunnerLog();
    int count = 0;
    for (size_t at = log.find("\"resumed\":true"); at != std::string::npos;
         at = log.find("\"resumed\":true", at + 1)) {
      ++count;
    }
    return count;
  };
  EXPECT_TRUE(Eventually([&] { return resumed() == kServices; })) << resumed();
  EXPECT_TRUE(WasTold("service_ready"));
  EXPECT_EQ(StatusOf()["last_error"].get<std::string>().find("not taken up"), std::string::npos);
}

TEST_F(RegistryTest, ServicesWithLongParametersOutliveARestart) {
  Register({{"reply", {{"mode", "record"}}}});
  const std::string text(250000, 'x');
  for (const char* id : {"svc-a", "svc-b", "svc-c", "svc-d", "svc-e"}) {
    ASSERT_TRUE(StartService(id, {{"params", {{"text", text}}}}).value("ok", false));
  }
  StopDaemon();
  StartDaemon();
  ASSERT_TRUE(WaitForState("running"));
  EXPECT_EQ(StatusOf()["services"].size(), 5U);
}

TEST_F(RegistryTest, AMountThatIsGoneIsNotAdopted) {
  Register();
  StopDaemon();
  Unmount(0);
  StartDaemon();
  EXPECT_TRUE(Ask({{"op", "list"}})["mounts"].empty());
  EXPECT_TRUE(std::filesystem::is_empty(dir_ + "/run/mounts"));
}

TEST_F(RegistryTest, DamagedStateFilesAreSetAside) {
  Register();
  StopDaemon();
  for (const auto& entry : std::filesystem::directory_iterator(dir_ + "/run/mounts")) {
    std::ofstream(entry.path()) << "{ truncated";
  }
  StartDaemon();
  EXPECT_EQ(StateOf(), "native");
  EXPECT_NE(DaemonLog().find("set aside"), std::string::npos);
}

TEST_F(RegistryTest, RemovedRegistrationsAreForgotten) {
  Register();
  Ask({{"op", "rm_policy"}, {"mount", kMount}});
  StopDaemon();
  StartDaemon();
  EXPECT_EQ(StateOf(), "native");
}

}  // namespace
}  // namespace ppc::control
