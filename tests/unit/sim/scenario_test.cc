// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario.h"

#include <gtest/gtest.h>

#include "sim/experiment.h"

namespace ppc::sim {
namespace {

std::string ErrorOf(const char* text) {
  const Result<Scenario> scenario = ParseScenario(Json::parse(text), "s");
  return scenario.ok() ? "" : scenario.error().message;
}

TEST(Scenario, MistakesAreNamed) {
  EXPECT_EQ(ErrorOf("{}"), "");
  EXPECT_NE(ErrorOf(R"({"model_name": "x"})").find("model_name"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"scale": "x"})").find("scale"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"service": {"mode": "mapped"}})").find("direct, mmap, read"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"service": {"workers": 0}})").find("workers"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"service": {"workers": 2, "ranks": [1]}})").find("ranks"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"others": [{"service": {"worker": 1}}]})").find("worker"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"others": {"after_s": 1}})").find("others is not an array"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"service": {"workers": 20}, "others": [{"service": {"workers": 5}}]})")
                .find("1 to 24"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"strangers": [{"way": "stare"}]})").find("map, read, touch"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"service": {"on_node": 2, "of_nodes": 2}})").find("on_node"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"service": {"of_nodes": 2}, "node_records": [[0, 1]]})")
                .find("one list for each"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"system": {"dies_at": 0.5}})").find("only a \"policy\" can die"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"system": {"policy": "maio", "fault": "sleepy"}})").find("runner_stopped"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"others": [{"has_own_policy": true}]})").find("needs a \"model\""),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"folder": {"models": 30}})").find("1 to 26 models"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"service": {"part": 1.5}})").find("part"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"neighbours": [{"way": "sings"}]})").find("drops, grows, reads"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"neighbours": [{"way": "reads", "mib": 0}]})").find("above 0"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"system": {"is_told": false}, "others": [{}]})").find("is_told"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"machine": {"mbps": 0}})").find("above 0"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"expect": {"load_s": {"less": 1}}})").find("less"), std::string::npos);
}

TEST(Scenario, AnExpectationOfNoMetricDoesNotHold) {
  Scenario scenario;
  scenario.expect["laod_s"] = {.max = 1};
  scenario.expect["load_s"] = {.min = 1, .max = 2};
  Outcome outcome;
  outcome.metrics["load_s"] = 1.5;
  const std::vector<Verdict> verdicts = Judge(scenario, outcome);
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_FALSE(verdicts[0].holds);
  EXPECT_TRUE(verdicts[1].holds);
}

TEST(Scenario, UnknownModelAndPolicyAreErrors) {
  Scenario scenario;
  scenario.model = "nothing-1b";
  EXPECT_FALSE(RunScenario(scenario, 1).ok());
  scenario = Scenario{};
  scenario.system.policy = "nothing";
  EXPECT_FALSE(RunScenario(scenario, 1).ok());
}

TEST(Scenario, ASeedDecidesEverything) {
  Scenario scenario;
  scenario.model = "qwen2.5-7b";
  scenario.service.jitter = 0.3;
  scenario.service.swap_tensors = 0.2;
  scenario.limit_share = 0.45;
  scenario.system.policy = "maio";
  scenario.system.records_first = true;
  const Result<Outcome> first = RunScenario(scenario, 5);
  const Result<Outcome> second = RunScenario(scenario, 5);
  const Result<Outcome> other = RunScenario(scenario, 6);
  ASSERT_TRUE(first.ok() && second.ok() && other.ok());
  EXPECT_EQ(first->metrics, second->metrics);
  EXPECT_NE(first->metrics, other->metrics);
}

TEST(Scenario, WhetherTemplatesChangeIsSeen) {
  Scenario scenario;
  scenario.model = "qwen2.5-7b";
  scenario.system.policy = "maio";
  const Result<Outcome> records = RunScenario(scenario, 1);
  ASSERT_TRUE(records.ok());
  EXPECT_EQ(records->metrics.at("template_changed"), 1);
  scenario.system.records_first = true;
  const Result<Outcome> uses = RunScenario(scenario, 1);
  ASSERT_TRUE(uses.ok());
  EXPECT_EQ(uses->metrics.at("template_changed"), 0);
}

}  // namespace
}  // namespace ppc::sim
