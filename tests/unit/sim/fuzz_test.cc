// SPDX-License-Identifier: Apache-2.0
#include "sim/fuzz.h"

#include <gtest/gtest.h>

#include <set>

namespace ppc::sim {
namespace {

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
  const Harm one = RunCell(cell, 1);
  const Harm two = RunCell(cell, 1);
  EXPECT_EQ(one.why, "");
  EXPECT_GT(one.measured.bytes, 64u << 20) << "a load and two passes over more than memory";
  EXPECT_EQ(one.measured.bytes, two.measured.bytes);
  EXPECT_EQ(one.measured.s, two.measured.s);
}

TEST(Fuzz, AnErrorIsTold) {
  const Harm harm = RunCell(Json::parse(R"({"model": "nothing-1b"})"), 1);
  EXPECT_EQ(harm.what, "error");
  EXPECT_NE(harm.why.find("nothing-1b"), std::string::npos);
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

}  // namespace
}  // namespace ppc::sim
