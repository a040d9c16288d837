// SPDX-License-Identifier: Apache-2.0
// The service that a registration names, with a runner that behaves.
#include <signal.h>

#include <string>

#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {
namespace {

class OwnServiceTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    StartDaemon();
  }
  // What the runner was told, one "PID {...}" per line.
  Json Logging() { return {{"log", dir_ + "/runner.log"}}; }
};

TEST_F(OwnServiceTest, ItsOwnServiceStartsWithTheRegistration) {
  const auto reg = [this](const Json& id) {
    Json config{{"fake", Logging()}, {"service_id", id}, {"xpus", {1, 0}}};
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
  EXPECT_NE(RunnerLog().find("\"by_cgroup\":false"), std::string::npos) << RunnerLog();
  EXPECT_EQ(RunnerLog().find("resumed"), std::string::npos) << RunnerLog();
  const auto ask = [this](const char* op) {
    return Ask({{"op", op}, {"mount", kMount}, {"service_id", "svc-own"}}).value("ok", false);
  };
  EXPECT_TRUE(ask("service_ready"));
  EXPECT_EQ(state(), "ready");
  StopDaemon(SIGKILL);
  StartDaemon();
  ASSERT_TRUE(WaitForState("running"));
  EXPECT_TRUE(WasTold("resumed"));
  EXPECT_EQ(state(), "ready");
  EXPECT_TRUE(ask("service_stop"));
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
  EXPECT_TRUE(Ask({{"op", "service_ready"}, {"mount", kMount}, {"service_id", "svc-own"}})
                  .value("ok", false));
  EXPECT_TRUE(Eventually([this] { return StatusOf()["services"][0]["state"] == "started"; }));
}

}  // namespace
}  // namespace ppc::control
