// SPDX-License-Identifier: Apache-2.0
// Registrations and services, with a runner that behaves.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/child.h"
#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {
namespace {

class RegistryTest : public RunningDaemonTest {
 protected:
  // What the runner was told, one "PID {...}" per line.
  Json Logging(const Json& more = Json::object()) {
    Json fake = {{"log", dir_ + "/runner.log"}};
    fake.update(more);
    return fake;
  }
  Json StartService(const std::string& id, const Json& more = Json::object()) {
    return Tell("service_start", id, more);
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
  RestartDaemon();
  EXPECT_EQ(StateOf(), "native") << "it is forgotten";
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
  EXPECT_TRUE(Has(policy["error"].get<std::string>(), "'alpha'"));
  EXPECT_TRUE(Has(policy["error"].get<std::string>(), "rm_policy"));
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
  EXPECT_TRUE(Has(answer["error"].get<std::string>(), "alpha, beta")) << answer;
  EXPECT_EQ(code(dir_ + "/policies/libppc_alpha.so"), "");
}

TEST_F(RegistryTest, UnregisteredMountsSaySo) {
  for (const char* op : {"service_ready", "service_stop"}) {
    const Json answer = Ask({{"op", op}, {"mount", kMount}, {"service_id", "abcd"}});
    EXPECT_EQ(answer["code"], "ENOENT") << op;
    EXPECT_TRUE(Has(answer["error"].get<std::string>(), "reg_policy"));
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
  const Json ready = Tell("service_ready", "svc-one");
  EXPECT_TRUE(ready.value("ok", false)) << ready;
  const Json services = StatusOf()["services"];
  EXPECT_EQ(services[0]["state"], "ready");
  EXPECT_EQ(services[1]["state"], "started");
  EXPECT_TRUE(Tell("service_stop", "svc-one").value("ok", false));
  EXPECT_EQ(StatusOf()["services"].size(), 1U);
  const Json again = Tell("service_stop", "svc-one");
  EXPECT_EQ(again["code"], "ENOENT");
  EXPECT_TRUE(Has(again["error"].get<std::string>(), "svc-two")) << again;
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
  const Json first = a.Answer();
  const Json second = b.Answer();
  EXPECT_NE(first["service"], second["service"]);
}

TEST_F(RegistryTest, ARefusedSecondStartStopsTheFirst) {
  Register(Logging({{"refuse_again", true}}));
  EXPECT_TRUE(StartService("svc-one").value("ok", false));
  EXPECT_EQ(StartService("svc-one")["error"], "template is stale");
  EXPECT_TRUE(StatusOf()["services"].empty());
  EXPECT_TRUE(WasTold("service_stop"));
}

// A policy may read the headers of a large model: no caller waits for that.
TEST_F(RegistryTest, AServiceWhosePolicyIsSlowStarts) {
  Register(Logging({{"slow", {{"service_start", 3000}}}}));
  Json answer = StartService("svc-one", {{"wait_ms", 0}});
  EXPECT_TRUE(answer.value("ok", false)) << answer;
  EXPECT_EQ(answer["state"], "starting");
  EXPECT_EQ(answer["service"], 0);
  EXPECT_EQ(StatusOf()["services"][0]["state"], "starting");
  EXPECT_TRUE(Eventually([this] { return StatusOf()["services"][0]["state"] == "started"; }));
  EXPECT_FALSE(Has(RunnerLog(), "service_stop"));
}

TEST_F(RegistryTest, AServiceThatIsRefusedLateIsStoppedAndSaysWhy) {
  Register(Logging({{"slow", {{"service_start", 300}}}, {"control", "refuse"}}));
  EXPECT_EQ(StartService("svc-one")["error"], "template is stale");
  EXPECT_TRUE(StatusOf()["services"].empty());
  EXPECT_EQ(StartService("svc-one", {{"wait_ms", 0}})["state"], "starting");
  EXPECT_TRUE(WaitForNoServices());
  EXPECT_TRUE(Has(DumpJson(StatusOf()["last_error"]), "template is stale"));
  EXPECT_TRUE(WasTold("service_stop"));
}

TEST_F(RegistryTest, AServiceThatStartsWhileItsRunnerDiesIsToldAgain) {
  Register(Logging({{"slow", {{"service_start", 2000}}}}));
  EXPECT_EQ(StartService("svc-one", {{"wait_ms", 0}})["state"], "starting");
  const pid_t first = RunnerPid();
  kill(first, SIGKILL);
  EXPECT_TRUE(Eventually([&] {
    const Json services = StatusOf()["services"];
    return services.size() == 1 && services[0]["state"] == "started" && RunnerPid() != first;
  }));
}

TEST_F(RegistryTest, AStartThatIsTriedAgainIsNotStoppedByTheFirstOnes) {
  Register(Logging({{"slow", {{"service_start", 600}}}, {"numbers", true}}));
  EXPECT_EQ(StartService("svc-one", {{"wait_ms", 0}})["state"], "starting");
  EXPECT_TRUE(StartService("svc-one").value("ok", false));
  EXPECT_EQ(StatusOf()["services"][0]["state"], "started");
  EXPECT_FALSE(Has(RunnerLog(), "service_stop"));
}

TEST_F(RegistryTest, APolicyWithoutServicesTakesThemAll) {
  Register({{"control", "unknown"}});
  const Json answer = StartService("svc-one");
  EXPECT_TRUE(answer.value("ok", false)) << answer;
  EXPECT_EQ(answer["mode"], "none");
  EXPECT_TRUE(Tell("service_stop", "svc-one").value("ok", false));
}

TEST_F(RegistryTest, TheEndOfTheRootProcessStopsTheService) {
  Register(Logging());
  const pid_t root = StartSleeper();
  EXPECT_TRUE(StartService("svc-one", {{"pid", root}}).value("ok", false));
  EXPECT_EQ(StatusOf()["services"].size(), 1U);
  KillAndReap(root);
  EXPECT_TRUE(WaitForNoServices());
  EXPECT_TRUE(WasTold("service_stop"));
}

TEST_F(RegistryTest, Pid0IsTheCaller) {
  Register();
  EXPECT_TRUE(StartService("svc-one", {{"pid", 0}}).value("ok", false));
  EXPECT_EQ(StatusOf()["services"][0]["pid"], getpid());
}

TEST_F(RegistryTest, MessagesGoThroughToThePolicy) {
  Register();
  const auto ask = [this](const Json& message) {
    return Ask({{"op", "policy"}, {"mount", kMount}, {"message", message}});
  };
  EXPECT_EQ(ask({{"op", "tune"}, {"x", 1}})["reply"]["echo"]["x"], 1);
  EXPECT_EQ(ask({{"x", 1}})["code"], "EINVAL");
  EXPECT_EQ(ask({{"op", "service_stop"}})["code"], "EINVAL");
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
  Tell("service_ready", "svc-one");
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
  constexpr size_t kServices = 100;
  Register(Logging());
  for (size_t i = 0; i < kServices; ++i) {
    ASSERT_TRUE(StartService("svc-" + std::to_string(i), {}).value("ok", false)) << i;
  }
  Tell("service_ready", "svc-99");
  std::filesystem::remove(dir_ + "/runner.log");
  kill(RunnerPid(), SIGKILL);
  const auto resumed = [this] { return CountOf("\"resumed\":true", RunnerLog()); };
  EXPECT_TRUE(Eventually([&] { return resumed() == kServices; })) << resumed();
  EXPECT_TRUE(WasTold("service_ready"));
  EXPECT_FALSE(Has(StatusOf()["last_error"].get<std::string>(), "not taken up"));
}

TEST_F(RegistryTest, ServicesWithLongParametersOutliveARestart) {
  Register({{"reply", {{"mode", "record"}}}});
  const std::string text(250000, 'x');
  for (const char* id : {"svc-a", "svc-b", "svc-c", "svc-d", "svc-e"}) {
    ASSERT_TRUE(StartService(id, {{"params", {{"text", text}}}}).value("ok", false));
  }
  RestartDaemon();
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
  EXPECT_TRUE(Has(DaemonLog(), "set aside"));
}

}  // namespace
}  // namespace ppc::control
