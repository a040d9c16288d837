// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "sim/experiment.h"
#include "sim/fuzz.h"
#include "sim/replay.h"
#include "sim/temp_dir.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"
#include "tests/unit/units.h"

namespace ppc::sim {
namespace {

std::string ErrorOf(const char* text) {
  const Result<Scenario> scenario = ParseScenario(Json::parse(text), "s");
  return scenario.ok() ? "" : scenario.error().message;
}

TEST(Scenario, MistakesAreNamed) {
  EXPECT_EQ(ErrorOf("{}"), "");
  EXPECT_TRUE(Has(ErrorOf(R"({"model_name": "x"})"), "model_name"));
  EXPECT_TRUE(Has(ErrorOf(R"({"scale": "x"})"), "scale"));
  EXPECT_TRUE(Has(ErrorOf(R"({"service": {"mode": "mapped"}})"), "direct, mmap, read"));
  EXPECT_TRUE(Has(ErrorOf(R"({"service": {"workers": 0}})"), "workers"));
  EXPECT_TRUE(Has(ErrorOf(R"({"service": {"workers": 2, "ranks": [1]}})"), "ranks"));
  EXPECT_TRUE(Has(ErrorOf(R"({"others": [{"service": {"worker": 1}}]})"), "worker"));
  EXPECT_TRUE(Has(ErrorOf(R"({"others": {"after_s": 1}})"), "others is not an array"));
  EXPECT_TRUE(
      Has(ErrorOf(R"({"service": {"workers": 252}, "others": [{"service": {"workers": 5}}]})"),
          "1 to 256"));
  EXPECT_TRUE(Has(ErrorOf(R"({"strangers": [{"way": "stare"}]})"), "map, read, touch"));
  EXPECT_TRUE(Has(ErrorOf(R"({"service": {"on_node": 2, "of_nodes": 2}})"), "on_node"));
  EXPECT_TRUE(Has(ErrorOf(R"({"service": {"of_nodes": 2}, "node_records": [[0, 1]]})"),
                  "one list for each"));
  EXPECT_TRUE(Has(ErrorOf(R"({"system": {"dies_at": 0.5}})"), "only a \"policy\" can die"));
  EXPECT_TRUE(
      Has(ErrorOf(R"({"system": {"policy": "maio", "fault": "sleepy"}})"), "runner_stopped"));
  EXPECT_TRUE(Has(ErrorOf(R"({"others": [{"has_own_policy": true}]})"), "needs a \"model\""));
  EXPECT_TRUE(Has(ErrorOf(R"({"folder": {"models": 30}})"), "1 to 26 models"));
  EXPECT_TRUE(Has(ErrorOf(R"({"service": {"part": 1.5}})"), "part"));
  EXPECT_TRUE(Has(ErrorOf(R"({"neighbours": [{"way": "sings"}]})"), "drops, grows, reads"));
  EXPECT_TRUE(Has(ErrorOf(R"({"neighbours": [{"way": "reads", "mib": 0}]})"), "above 0"));
  EXPECT_TRUE(Has(ErrorOf(R"({"system": {"is_told": false}, "others": [{}]})"), "is_told"));
  EXPECT_TRUE(Has(ErrorOf(R"({"machine": {"mbps": 0}})"), "above 0"));
  EXPECT_TRUE(Has(ErrorOf(R"({"expect": {"load_s": {"less": 1}}})"), "less"));
}

TEST(Scenario, OneThatIsLikeAnotherSaysWhatDiffers) {
  const TempDir dir;
  const auto keep = [&](const std::string& name, const std::string& text) {
    std::ofstream(dir.path() + "/" + name + ".json") << text;
    return ReadScenario(dir.path() + "/" + name + ".json");
  };
  const Result<Scenario> plain =
      keep("plain", R"({"scale": 7, "consumer": 2, "service": {"workers": 3, "part": 0.5}})");
  ASSERT_TRUE(plain);
  const Scenario other = Value(
      keep("other", R"({"like": "plain", "scale": 9, "service": {"part": null, "on_node": 0}})"));
  EXPECT_EQ(other.name, "other");
  EXPECT_EQ(other.scale, 9u);
  EXPECT_EQ(other.consumer, plain->consumer);
  EXPECT_EQ(other.service.workers, 3u);
  EXPECT_EQ(other.service.part, ServiceOptions().part);
  EXPECT_TRUE(Has(keep("third", R"({"like": "other"})").error().message, "that has none"));
  EXPECT_FALSE(keep("fourth", R"({"like": "nothing"})"));
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

// LRU reads A B A B, 128 MiB, the optimum 80 MiB with room for 48.
TEST(Scenario, TurnsAreComparedWithBeladysOptimum) {
  Scenario scenario = Value(ParseScenario(Json::parse(R"({
    "folder": {"models": 2, "shards": 1, "shard_mib": 32}, "limit_share": 1.5, "margin_mib": 0,
    "service": {"workers": 1, "reads": [0, 1, 0, 1]}})"),
                                          "turns"));
  const auto turns = Value(RunScenario(scenario, 1)).metrics;
  EXPECT_NEAR(turns.at("belady_ratio"), 1.6, 0.05);
  scenario.service.rest_s = 30;
  const auto rested = Value(RunScenario(scenario, 1)).metrics;
  for (const char* metric : {"load_s", "life_s"})
    EXPECT_NEAR(rested.at(metric), turns.at(metric), turns.at(metric) / 20) << metric;
  EXPECT_GT(rested.at("startup_s"), turns.at("startup_s") + 89);
}

TEST(Scenario, WhetherTemplatesChangeIsSeen) {
  Scenario scenario;
  scenario.model = "qwen2.5-7b";
  scenario.system.policy = "maio";
  EXPECT_EQ(Value(RunScenario(scenario, 1)).metrics.at("template_changed"), 1);
  scenario.system.records_first = true;
  EXPECT_EQ(Value(RunScenario(scenario, 1)).metrics.at("template_changed"), 0);
}

// The model puts the systems of the demo in the order that the emulated machine measured
// (tools/demo).

// Faster ones first.  What each takes is in its scenario, and held there.
void ExpectOrder(const std::vector<std::string>& scenarios) {
  double before = 0;
  for (const std::string& name : scenarios) {
    SCOPED_TRACE(name);
    const Scenario scenario =
        Value(ReadScenario(std::string(PPC_TEST_SCENARIOS "/demo-") + name + ".json"));
    const Outcome outcome = Value(RunScenario(scenario, 1));
    const double startup = outcome.metrics.at("startup_s");
    // The first two differ by less than a tenth of a second here, and by 1% there.
    EXPECT_GE(startup, before - 0.1);
    before = startup;
  }
}

TEST(Demo, MemoryRich) {
  ExpectOrder({"rich-eager", "rich-maio", "rich-maio-record", "rich-native-ra", "rich-precache",
               "rich-native"});
}
TEST(Demo, Limited) {
  ExpectOrder({"limit-maio", "limit-native-ra", "limit-eager", "limit-native", "limit-precache"});
}

TEST(Fuzz, SeedAndNumberDecideACell) {
  const FuzzOptions options;
  EXPECT_EQ(FuzzCell(3, 17, options), FuzzCell(3, 17, options));
  std::set<std::string> cells;
  for (uint64_t cell = 0; cell < 200; ++cell) {
    Json json = FuzzCell(3, cell, options);
    json.erase("about");
    cells.insert(json.dump());
  }
  EXPECT_GT(cells.size(), 195u);
}

TEST(Fuzz, EveryCellIsAScenario) {
  const FuzzOptions options;
  for (uint64_t cell = 0; cell < 2000; ++cell) {
    const Json json = FuzzCell(1, cell, options);
    const Result<Scenario> scenario = ParseScenario(json, "cell");
    ASSERT_TRUE(scenario.ok()) << scenario.error().message << "\n" << json.dump(1);
  }
}

TEST(Fuzz, ACellMeasuresTheSameEachTime) {
  const Json cell = Json::parse(R"({"margin_mib": 1, "consumer": 4, "init_share": 0,
      "machine": {"nodes": 1, "observer": true}, "folder": {"shards": 2, "shard_mib": 16},
      "service": {"workers": 1, "serve_passes": 2}, "limit_share": 0.8,
      "system": {"policy": "readahead", "hook_s": 0}})");
  const CellResult one = RunCell(cell, 1);
  const CellResult two = RunCell(cell, 1);
  EXPECT_EQ(one.why, "");
  EXPECT_GT(one.measured.bytes, 64u << 20) << "a load and two passes over more than memory";
  EXPECT_EQ(one.measured.bytes, two.measured.bytes);
  EXPECT_EQ(one.measured.s, two.measured.s);
}

TEST(Fuzz, AnErrorIsTold) {
  const CellResult harm = RunCell(Json::parse(R"({"model": "nothing-1b"})"), 1);
  EXPECT_EQ(harm.what, "error");
  EXPECT_TRUE(Has(harm.why, "nothing-1b"));
}

// What does not matter to the error goes.
TEST(Fuzz, AHarmIsMadeSmaller) {
  Json cell = FuzzCell(1, 0, FuzzOptions{});
  cell["neighbours"] = {{{"way", "drops"}}};
  cell["limit_share"] = 0.7;
  cell["folder"]["shards"] = 8;
  cell["system"] = {{"policy", "missing"}};
  const Json smaller = ShrinkCell(cell, "error", 1);
  EXPECT_FALSE(smaller.contains("neighbours"));
  EXPECT_FALSE(smaller.contains("limit_share"));
  EXPECT_EQ(smaller["folder"]["shards"], 1);
  EXPECT_EQ(smaller["system"]["policy"], "missing");
  EXPECT_EQ(RunCell(smaller, 1).what, "error");
}

// Two workers that map a file each, as a tracing ppc-runner writes it down.
void WriteLog(const std::string& path, uint64_t gap_ns) {
  EventLogWriter writer = Value(EventLogWriter::Create(path));
  std::vector<Event> events;
  for (const int worker : {0, 1}) {
    const uint64_t file = 10 + static_cast<uint64_t>(worker);
    writer.AddFile({file, 64 * kMiB, "m/model-" + std::to_string(worker) + ".safetensors"});
    for (uint64_t i = 0; i < 64; ++i) {
      events.push_back(Event{.file = file,
                             .offset = i * kMiB,
                             .length = kMiB,
                             .time_ns = 1'000'000'000 + i * gap_ns,
                             .tgid = 100 + worker,
                             .tid = 100 + worker,
                             .kind = EventKind::kAccess,
                             .flags = kEventMmap | kEventHit});
    }
  }
  writer.AddEvents(events);
  ASSERT_TRUE(writer.Finish().ok());
}

class ReplayTest : public ::testing::Test {
 protected:
  Outcome Run(const System& system) {
    Scenario scenario;
    scenario.log = tree_.Path("/log");
    scenario.system = system;
    const Result<Outcome> outcome = RunScenario(scenario, 1);
    EXPECT_TRUE(outcome.ok());
    return outcome.ok() ? *outcome : Outcome{};
  }
  TempTree tree_;
};

TEST_F(ReplayTest, ALogIsAService) {
  WriteLog(tree_.Path("/log"), 5'000'000);
  const Outcome native = Run(System{});
  EXPECT_NEAR(native.metrics.at("disk_share"), 1, 0.02);
  // The consumer's own time is kept.
  EXPECT_GE(native.metrics.at("startup_s"), 63 * 0.005);
  const Outcome maio = Run(System{.policy = "maio", .records_first = true});
  EXPECT_LT(maio.metrics.at("startup_s"), 0.6 * native.metrics.at("startup_s"));
  EXPECT_NEAR(maio.metrics.at("redundant_share"), 0, 0.001);
}

TEST_F(ReplayTest, AMissingLogIsAnError) {
  Scenario scenario;
  scenario.log = tree_.Path("/absent");
  EXPECT_FALSE(RunScenario(scenario, 1).ok());
}

}  // namespace
}  // namespace ppc::sim
