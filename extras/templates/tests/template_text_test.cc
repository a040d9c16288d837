// SPDX-License-Identifier: Apache-2.0
#include "extras/templates/template_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/policies/template_samples.h"

namespace ppc::maio {
namespace {

TEST(TemplateText, JsonNamesEverything) {
  auto json = nlohmann::json::parse(ToJson(SampleTemplate(), true));
  EXPECT_EQ(json["files"].size(), 5u);
  EXPECT_EQ(json["groups"][2]["group"], "common");
  EXPECT_EQ(json["groups"][0]["sequence"].size(), 47u);
  EXPECT_EQ(json["groups"][0]["sequence"][1]["offset"], 200 * 4096);
  EXPECT_FALSE(
      nlohmann::json::parse(ToJson(SampleTemplate(), false))["groups"][0].contains("sequence"));
  Template odd = SampleTemplate();
  odd.files[0].path =
      "bad\xff"
      "name";
  odd.meta = "not json";
  EXPECT_NO_THROW(ToJson(odd, true));
  odd.flags = kComplete | kOverflow;
  const std::vector<std::string> names = {"complete", "overflow"};
  EXPECT_EQ(nlohmann::json::parse(ToJson(odd, false))["flags"], names);
}

TEST(TemplateText, PhasesAreShown) {
  Template t = SampleTemplate();
  t.phases = {{Phase::kInit, true, 0, {}},
              {Phase::kWeights, false, 1500, {{kCommonGroup, 8192}, {0, 4096}}}};
  const nlohmann::json json = nlohmann::json::parse(ToJson(t, false));
  ASSERT_EQ(json["phases"].size(), 2u);
  EXPECT_EQ(json["phases"][1]["phase"], "weights");
  EXPECT_EQ(json["phases"][1]["ms"], 1500);
  EXPECT_EQ(json["phases"][1]["bytes"], 8192 + 4096);
  EXPECT_EQ(json["phases"][1]["told"], false);
  EXPECT_FALSE(nlohmann::json::parse(ToJson(SampleTemplate(), false)).contains("phases"));
}

TEST(TemplateDiff, NamesFilesAndBytes) {
  Template a = SampleTemplate();
  Template b = SampleTemplate();
  bool same = false;
  b.created_ns++;
  b.files[0].mtime_ns++;
  nlohmann::json json = nlohmann::json::parse(DiffJson(a, b, &same));
  EXPECT_TRUE(same);
  ChangeExtents(&b.groups[1], [](std::vector<Extent>& extents) { extents[0].pages += 2; });
  b.files[1].size++;
  b.files[2].path = "other";
  json = nlohmann::json::parse(DiffJson(a, b, &same));
  EXPECT_FALSE(same);
  EXPECT_EQ(json["files"].size(), 3u);
  EXPECT_EQ(json["groups"][1]["only_in_second"], 2 * kPage);
  EXPECT_EQ(json["groups"][1]["only_in_first"], 0);
}

}  // namespace
}  // namespace ppc::maio
