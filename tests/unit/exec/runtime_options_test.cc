// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/runtime_options.h"

#include <gtest/gtest.h>

#include <bit>

#include "tests/unit/fuzz.h"
#include "tests/unit/has.h"

namespace ppc {
namespace {

TEST(RuntimeOptions, DefaultsAndValues) {
  const Result<RuntimeOptions> plain = ParseRuntimeOptions(Json());
  EXPECT_EQ(plain->lease_ms, 2000u);
  EXPECT_DOUBLE_EQ(plain->threshold, 0.85);
  const RuntimeOptions set = Value(ParseRuntimeOptions(Json{{"lease_ms", 500},
                                                            {"threshold", 0.5},
                                                            {"limit", "16M"},
                                                            {"trace_file", "/t"},
                                                            {"blind", true}}));
  EXPECT_EQ(set.lease_ms, 500u);
  EXPECT_EQ(set.limit_bytes, 16u << 20);
  EXPECT_EQ(set.trace_file, "/t");
  EXPECT_EQ(plain->reserve_bytes, 0u);
  const RuntimeOptions share = Value(ParseRuntimeOptions(Json{{"reserve", "10%"}}));
  EXPECT_DOUBLE_EQ(share.reserve_share, 0.1);
  EXPECT_EQ(share.reserve_bytes, 0u);
  EXPECT_EQ(ParseRuntimeOptions(Json{{"window", "32M"}})->window_bytes, 32u << 20);
  EXPECT_EQ(ParseRuntimeOptions(Json{{"reserve", "2G"}})->reserve_bytes, 2ull << 30);
  EXPECT_FALSE(plain->is_blind);
  EXPECT_FALSE(plain->learnt_starts);
  EXPECT_TRUE(ParseRuntimeOptions(Json{{"learnt_starts", true}})->learnt_starts);
  EXPECT_TRUE(set.is_blind);
  EXPECT_TRUE(plain->guard);
  EXPECT_FALSE(ParseRuntimeOptions(Json{{"guard", false}})->guard);
  EXPECT_FALSE(ParseRuntimeOptions(Json{{"blind", true}})->guard);
}

TEST(RuntimeOptions, WrongOnesAreNamed) {
  const std::pair<Json, const char*> kWrong[] = {
      {Json{{"leas_ms", 500}}, "leas_ms"},
      {Json{{"lease_ms", 5}}, "lease_ms"},
      {Json{{"lease_ms", "x"}}, "lease_ms"},
      {Json{{"threshold", 0}}, "threshold"},
      {Json{{"threshold", 1.5}}, "threshold"},
      {Json{{"chunk", "3M"}}, "chunk"},
      {Json{{"window", "3M"}}, "window"},
      {Json{{"window", "64M"}}, "window"},
      {Json{{"window", 512}}, "window"},
      {Json{{"window", (1ull << 32) + (1 << 20)}}, "window"},
      {Json{{"window", 1ull << 32}}, "window"},
      {Json{{"trace_file", "rel"}}, "trace_file"},
      {Json{{"limit", "many"}}, "limit"},
      {Json{{"blind", 1}}, "blind"},
      {Json{{"guard", "off"}}, "guard"},
      {Json{{"learnt_starts", "yes"}}, "learnt_starts"},
      {Json{{"learnt_starts", true}, {"guard", false}}, "guard"},
      {Json{{"learnt_starts", true}, {"auto_service", false}}, "auto_service"},
      {Json{{"learnt_starts", true}, {"blind", true}}, "blind"},
      {Json{{"reserve", "100%"}}, "reserve"},
      {Json{{"reserve", "%"}}, "reserve"},
      {Json{{"reserve", "1x%"}}, "reserve"},
      {Json{{"reserve", "-1%"}}, "reserve"},
      {Json::array(), "runtime"}};
  for (const auto& [json, name] : kWrong) {
    const Result<RuntimeOptions> refused = ParseRuntimeOptions(json);
    ASSERT_FALSE(refused.ok()) << json;
    EXPECT_TRUE(Has(refused.error().message, name));
  }
}

// Damaged or made up: refused in one line, or something that can be worked with.
TEST(ConfigFuzz, RuntimeOptionsThatAreTakenAreInTheirBounds) {
  const Json sample = {{"lease_ms", 500},
                       {"threads_per_node", 4},
                       {"threshold", 0.5},
                       {"blind", false},
                       {"hook_timeout_ms", 1000},
                       {"cgroup", "/kubepods/a"},
                       {"trace_file", "/tmp/t.jsonl"},
                       {"template_dir", "/var/lib/ppc"},
                       {"limit", "16M"},
                       {"reserve", "10%"},
                       {"window", "1M"},
                       {"chunk", "4M"},
                       {"auto_service", true},
                       {"learnt_starts", true}};
  const auto parse = [](const std::string& text) -> Result<RuntimeOptions> {
    const Json runtime = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (runtime.is_discarded()) return Error{EINVAL, "no JSON"};
    const Status supervised = CheckSupervised(runtime);
    if (!supervised) ExpectOneShortLine(supervised.error().message);
    return ParseRuntimeOptions(runtime);
  };
  FuzzJson(sample, 4, parse, [](const RuntimeOptions& parsed) {
    ASSERT_GE(parsed.lease_ms, 100u);
    ASSERT_LE(parsed.lease_ms, 600000u);
    ASSERT_TRUE(parsed.threads_per_node >= 0 && parsed.threads_per_node <= 64);
    ASSERT_TRUE(parsed.threshold > 0 && parsed.threshold <= 1) << parsed.threshold;
    ASSERT_TRUE(parsed.reserve_share >= 0 && parsed.reserve_share < 1) << parsed.reserve_share;
    ASSERT_GE(parsed.hook_timeout_ms, 1u);
    ASSERT_TRUE(parsed.window_bytes == 0 || std::has_single_bit(parsed.window_bytes));
    ASSERT_LE(parsed.chunk_bytes, 8u << 20);
    for (const std::string& path : {parsed.trace_file, parsed.template_dir})
      ASSERT_TRUE(path.empty() || path.front() == '/') << path;
  });
}

TEST(RuntimeOptions, WhoRegistersMayNotChooseWhatRootWrites) {
  EXPECT_TRUE(CheckSupervised(Json{{"trace_file", "/run/x/t.jsonl"}}).ok());
  EXPECT_TRUE(CheckSupervised(Json{{"lease_ms", 500}}).ok());
  for (const char* path : {"/etc/cron.d/x", "/etc/x.jsonl", "/run/../etc/x.jsonl", "/run/x"}) {
    EXPECT_FALSE(CheckSupervised(Json{{"trace_file", path}}).ok()) << path;
  }
  EXPECT_FALSE(CheckSupervised(Json{{"template_dir", "/etc"}}).ok());
}

}  // namespace
}  // namespace ppc
