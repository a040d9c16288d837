// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/base/config.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "policies/maio/base/names.h"
#include "tests/unit/fuzz.h"
#include "tests/unit/has.h"
#include "tests/unit/units.h"

namespace ppc::maio {
namespace {

TEST(BarDistance, AllReadersTogetherKeepAnEighthOfTheBudget) {
  const Config config;
  EXPECT_EQ(BarDistance(config, 64 * kMiB, 1), 4 * kMiB);
  EXPECT_EQ(BarDistance(config, 64 * kMiB, 2), 4 * kMiB);
  EXPECT_EQ(BarDistance(config, 64 * kMiB, 8), 1 * kMiB);
  EXPECT_EQ(BarDistance(config, 8 * kMiB, 8), 1 * kMiB) << "a reader's position is not exact";
  EXPECT_EQ(BarDistance(config, 1'000'000 * kMiB, 2), 1024 * kMiB);
}

TEST(BarDistance, AConfiguredOneIsTheMost) {
  Config config;
  config.distance = 16 * kMiB;
  EXPECT_EQ(BarDistance(config, 1024 * kMiB, 2), 16 * kMiB);
  EXPECT_EQ(BarDistance(config, 64 * kMiB, 2), 4 * kMiB);
}

TEST(BeaconBytes, AnEighthOfTheDistance) {
  EXPECT_EQ(BeaconBytes(4 * kMiB), kMiB / 2);
  EXPECT_EQ(BeaconBytes(1024 * kMiB), kMiB);
  EXPECT_EQ(BeaconBytes(1 * kMiB), kMiB / 8);
}

std::string ErrorOfConfig(const std::string& config) {
  const Result<Config> parsed = ParseConfig(config);
  return parsed ? "" : parsed.error().message;
}

std::string ErrorOfService(nlohmann::json message) {
  if (!message.contains("service_id")) message["service_id"] = "svc-1";
  const Result<ServiceSpec> parsed = ParseService(message);
  return parsed ? "" : parsed.error().message;
}

TEST(ParseConfig, WhatIsNotGivenStaysAsItIs) {
  const Config config = Value(ParseConfig(R"({"record": null})"));
  EXPECT_EQ(config.recover_s, 60u);
  EXPECT_EQ(config.record, RecordMode::kAuto);
  EXPECT_TRUE(config.prefetch);
}

TEST(ParseConfig, Values) {
  const Config config = Value(ParseConfig(
      R"({"recover_s": 2, "distance": "64M", "bar": false,
          "record": "never", "at_ready": "keep", "store": "dir:/s", "store_key": "/k"})"));
  EXPECT_EQ(config.recover_s, 2u);
  EXPECT_EQ(config.distance, 64 * kMiB);
  EXPECT_FALSE(config.bar);
  EXPECT_EQ(config.record, RecordMode::kNever);
  EXPECT_EQ(config.at_ready, AtReady::kKeep);
  EXPECT_EQ(config.store, "dir:/s");
  EXPECT_EQ(config.store_key, "/k");
}

TEST(ParseConfig, AWrongValueIsNamedWithWhatItMustBeAndWhatItIs) {
  const std::pair<const char*, const char*> kWrong[] = {
      {R"([])", "maio: the configuration must be a JSON object"},
      {R"({"distance": "64Q"})",
       R"(maio: option "distance" must be a size: bytes, or text such as "16M", not "64Q")"},
      {R"({"prefetch": 1})", R"(maio: option "prefetch" must be true or false, not 1)"},
      {R"({"at_ready": "drop"})",
       R"(maio: option "at_ready" must be one of auto, keep, all, not "drop")"},
      {R"({"recover_s": -1})",
       R"(maio: option "recover_s" must be a whole number of seconds from 0 to 3600, not -1)"},
      {R"({"affinity_fix": "evict"})",
       R"(maio: option "affinity_fix" was removed; to load again what lies on another node, run ppcctl drop before the start)"},
      {R"({"stand_down": false})", R"(maio: option "stand_down" was removed; leave it out)"},
      {R"({"standby": 20})",
       R"(maio: option "standby" was removed; "at_ready": "keep" keeps the model's pages for the next start)"},
      {R"({"store": ""})", R"(maio: option "store" must be text, not "")"},
      {R"({"store_key": "/k"})", R"(maio: option "store_key" is of a "store"; name that, too)"},
  };
  for (const auto& [config, error] : kWrong) EXPECT_EQ(ErrorOfConfig(config), error);
}

TEST(ParseConfig, AnUnknownOptionIsAnErrorThatNamesTheOthers) {
  const std::string error = ErrorOfConfig(R"({"distant": "64M"})");
  EXPECT_TRUE(error.starts_with(
      R"(maio: there is no option "distant"; did you mean 'distance'? there are distance )"))
      << error;
}

TEST(ParseConfig, AnUnknownOptionIsNamedInOneLine) {
  const Result<Config> config = ParseConfig("{\"st\\nand\": 1}");
  ASSERT_FALSE(config);
  EXPECT_TRUE(config.error().message.starts_with(R"(maio: there is no option "st\nand")"))
      << config.error().message;
  EXPECT_EQ(config.error().message.find('\n'), std::string::npos);
  const std::string name(1000, 'x');
  const Result<Config> longer = ParseConfig("{\"" + name + "\": 1}");
  ASSERT_FALSE(longer);
  EXPECT_LT(longer.error().message.size(), 500u);
}

TEST(ParseConfig, OptionsOfTheRuntimeAndOfAServiceAreOthers) {
  ASSERT_TRUE(
      IsOk(ParseConfig(R"({"runtime": {"threshold": 0.5}, "service_id": "abcd", "workers": 2,
                      "xpus": [0, 1], "params": {"tp": 2}})")));
  EXPECT_FALSE(ParseConfig(R"({"service_id": "abcd", "workers": "two"})").ok());
}

TEST(ParseService, Values) {
  const ServiceSpec spec = Value(ParseService({{"op", "service_start"},
                                               {"service_id", "svc-1"},
                                               {"service", 3},
                                               {"xpus", {4, 5}},
                                               {"node", 1},
                                               {"nodes", 2},
                                               {"resumed", true},
                                               {"params", {{"model", "m"}}}}));
  EXPECT_EQ(spec.number, 3u);
  EXPECT_EQ(spec.workers, 2u) << "one on each XPU";
  EXPECT_EQ(spec.xpus, (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(spec.first_worker, 2u);
  EXPECT_TRUE(spec.is_resumed);
  EXPECT_EQ(spec.params.value("model", ""), "m");
}

TEST(ParseService, AWrongValueIsNamed) {
  const std::string k = "maio: service option ";
  EXPECT_EQ(ErrorOfService({{"service_id", "a"}}),
            k + R"("service_id" must be 4 to 64 of [0-9A-Za-z._-], not "a")");
  EXPECT_EQ(ErrorOfService({{"service_id", nullptr}}),
            k + R"("service_id" must be 4 to 64 of [0-9A-Za-z._-], not null)");
  EXPECT_EQ(ErrorOfService({{"workers", 512}}),
            k + R"("workers" must be a whole number from 0 to 511, not 512)");
  EXPECT_EQ(ErrorOfService({{"xpus", {0, -1}}}),
            k + R"("xpus" must be an array of at most 511 XPU numbers, not [0,-1])");
  EXPECT_EQ(ErrorOfService({{"node", 2}, {"nodes", 2}, {"workers", 1}}),
            k + R"("node" must be below "nodes", 2, not 2)");
  EXPECT_EQ(ErrorOfService({{"nodes", 2}}),
            "maio: a service on several nodes needs \"workers\" (of this node) or \"xpus\"");
  EXPECT_EQ(ErrorOfService({{"nodes", 32}, {"node", 31}, {"workers", 32}}), "");
  EXPECT_EQ(ErrorOfService({{"nodes", 32}, {"node", 31}, {"workers", 33}}),
            "maio: a service has at most 1024 workers on all its nodes");
}

TEST(ConfigFuzz, WhatIsTakenCanBeWorkedWith) {
  const Json sample = {{"distance", "64M"},
                       {"prefetch", true},
                       {"affinity", true},
                       {"bar", true},
                       {"max_pieces", 100},
                       {"record", "auto"},
                       {"at_ready", "all"},
                       {"recover_s", 60},
                       {"holdback", 10},
                       {"store", "dir:/x"},
                       {"store_key", "/etc/ppc/key"},
                       {"service_id", "svc-one"},
                       {"workers", 2},
                       {"xpus", {0, 1}},
                       {"params", {{"tp", 2}}}};
  FuzzJson(sample, 1, ParseConfig, [](const Config& config) {
    ASSERT_LE(config.max_pieces, 1u << 30);
    ASSERT_LE(config.recover_s, kMostRecoverS);
    ASSERT_LE(config.holdback, 100u);
    ASSERT_TRUE(config.store_key.empty() || !config.store.empty());
    ASSERT_LE(BeaconBytes(BarDistance(config, 1 << 30, 3)), 1u << 20);
  });
}

TEST(ConfigFuzz, AServiceIsWhole) {
  const Json sample = {{"op", "service_start"},
                       {"service_id", "svc-one"},
                       {"service", 1},
                       {"workers", 4},
                       {"xpus", {0, 1, 2, 3}},
                       {"node", 0},
                       {"nodes", 2},
                       {"first_worker", 0},
                       {"params", {{"model", "m"}, {"tp", 8}}},
                       {"resumed", true}};
  const auto parse = [](const std::string& text) -> Result<ServiceSpec> {
    const Json message = Json::parse(text, nullptr, false);
    if (!message.is_object()) return Error{EINVAL, "no object"};
    return ParseService(message);
  };
  FuzzJson(sample, 2, parse, [](const ServiceSpec& spec) {
    ASSERT_TRUE(ValidServiceId(spec.service_id)) << spec.service_id;
    ASSERT_GE(spec.nodes, 1u);
    ASSERT_LT(spec.node, spec.nodes);
    ASSERT_LT(spec.workers, kMaxGroups);
    ASSERT_LE(spec.nodes == 1 ? 0 : spec.first_worker + spec.workers, kMaxWorkers);
  });
}

}  // namespace
}  // namespace ppc::maio
