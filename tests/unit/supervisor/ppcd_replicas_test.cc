// SPDX-License-Identifier: Apache-2.0
// Several starts of one service at a time: each is a service of its own, the first's name is what
// all of them are learnt by.
#include <signal.h>

#include "tests/unit/supervisor/rights_fixture.h"

namespace ppc::control {
namespace {

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
  EXPECT_NE(RunnerLog().find("\"template\":\"svc-one\""), std::string::npos) << RunnerLog();
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
  EXPECT_NE(refused["error"].get<std::string>().find("4 to 64"), std::string::npos) << refused;
}

}  // namespace
}  // namespace ppc::control
