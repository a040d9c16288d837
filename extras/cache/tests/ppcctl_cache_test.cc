// SPDX-License-Identifier: Apache-2.0
// residency, warm and drop.
#include <sys/vfs.h>

#include "extras/cache/page_map.h"
#include "extras/templates/tests/template_fixture.h"
#include "tests/unit/supervisor/verbs_fixture.h"

namespace ppc::control {
namespace {

constexpr long kTmpfs = 0x01021994;

TEST(PageMap, OnlyNothingIsEmptyAndOnlyAllIsFull) {
  EXPECT_EQ(ctl::Bar({0, 0.001, 0.5, 0.999, 1}, false), " .:+#");
}

TEST_F(VerbsTest, ResidencyOfAFreshFile) {
  const std::string file = dir_ + "/data";
  std::ofstream(file) << std::string(1 << 20, 'x');
  EXPECT_TRUE(Has(Out({"residency", file}), "100.0%"));
  const Json as_json = *ParseJson(Ctl({"residency", "--json", dir_}).out, "residency");
  EXPECT_GE(as_json["resident"], 1 << 20);
  ExpectJsonFailure(Ctl({"residency", "--json", dir_ + "/none"}), 1);
  ExpectFailure(Ctl({"residency"}), 2);
}

TEST_F(VerbsTest, WarmReadsWithinItsLimitAndDropLetsGo) {
  ExpectFailure(Ctl({"warm", model_, "--limit", "4M"}), 1);
  EXPECT_EQ(Told({"warm", model_, "--limit", "4M"}, 1)["read"], 4 << 20);
  const Json all = Told({"warm", file_, "--limit", "64M"});
  EXPECT_EQ(all["read"], kModelBytes);
  EXPECT_EQ(all["is_cut"], false);
  EXPECT_EQ(Told({"residency", model_})["resident"], all["resident"]);
  const Json dropped = Told({"drop", model_});
  EXPECT_EQ(Told({"residency", model_})["resident"], dropped["stayed"]);
  struct statfs info {};
  ASSERT_EQ(statfs(model_.c_str(), &info), 0);
  if (info.f_type != kTmpfs) {
    EXPECT_EQ(all["resident"], kModelBytes);
    EXPECT_EQ(dropped["stayed"], 0);
    EXPECT_EQ(dropped["dropped"], kModelBytes);
  }
  EXPECT_EQ(Ctl({"warm", model_, "--limit", "much"}).exit_status, 2);
  EXPECT_EQ(Ctl({"warm"}).exit_status, 2);
  EXPECT_EQ(Ctl({"drop", dir_ + "/none"}).exit_status, 1);
}

// Reads what the service's template names, and nothing beside it.
TEST_F(CtlTemplateTest, WhatATemplateNamesIsWarmed) {
  const std::string base = dir_ + "/base";
  MakeModel(base + "/model");
  std::ofstream(base + "/model/other.bin") << std::string(1 << 20, 'x');
  const ProcessResult made = Ctl({"template", "synth", base + "/model", "--root", base, "--id",
                                  "made-up-3", "--loader", "read"});
  ASSERT_EQ(made.exit_status, 0) << made.err;
  const ProcessResult warmed = Ctl({"warm", "--id", "made-up-3", base, "--json"});
  ASSERT_EQ(warmed.exit_status, 0) << warmed.err;
  const uint64_t read = (*ParseJson(warmed.out, "warm"))["read"];
  EXPECT_GE(read, 65536U);
  EXPECT_LT(read, 1U << 20);
  ExpectFailure(Ctl({"warm", "--id", "made-up-9", base}), 1);
}

}  // namespace
}  // namespace ppc::control
