// SPDX-License-Identifier: Apache-2.0
//
// Configurations and service messages that are damaged or made up: refused in one line, or
// something that can be worked with.  PPC_FUZZ_MUTATIONS sets how many are tried
// (tests/all/fuzz-templates).
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "policies/maio/config.h"

namespace ppc::maio {
namespace {

using Json = nlohmann::json;

int ConfigMutations() {
  const char* given = std::getenv("PPC_FUZZ_MUTATIONS");
  return given != nullptr ? std::atoi(given) : 20000;
}

const Json& OddValue(std::mt19937* rng) {
  static const std::vector<Json> kOdd = {nullptr,
                                         true,
                                         -1,
                                         0,
                                         1.5,
                                         1e308,
                                         uint64_t{1} << 63,
                                         -9223372036854775807LL,
                                         "",
                                         "64M",
                                         "9999999999999G",
                                         std::string(3000, 'x'),
                                         "a\nb",
                                         "\x01",
                                         Json::array(),
                                         {1, 2, 3},
                                         {{"a", 1}},
                                         {-1},
                                         {1e99},
                                         "auto",
                                         "all"};
  return kOdd[(*rng)() % kOdd.size()];
}

// A member replaced, removed or added, or a byte changed.
std::string Spoilt(std::mt19937* rng, const Json& sample) {
  Json json = sample;
  for (unsigned times = 1 + (*rng)() % 3; times > 0; times--) {
    auto member = json.begin();
    std::advance(member, static_cast<long>((*rng)() % json.size()));
    switch ((*rng)() % 8) {
      case 0:
        json[std::string(1, static_cast<char>('a' + (*rng)() % 26))] = OddValue(rng);
        break;
      default:
        *member = OddValue(rng);
    }
  }
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (unsigned times = (*rng)() % 4 == 0 ? 1 + (*rng)() % 3 : 0; times > 0; times--) {
    text[(*rng)() % text.size()] = static_cast<char>((*rng)());
  }
  return text;
}

void ExpectOneShortLine(const std::string& error) {
  ASSERT_NE(error, "");
  ASSERT_EQ(error.find('\n'), std::string::npos) << error;
}

TEST(ConfigFuzz, WhatIsTakenCanBeWorkedWith) {
  const Json sample = {{"distance", "64M"},
                       {"prefetch", true},
                       {"affinity", true},
                       {"bar", true},
                       {"stand_down", false},
                       {"max_pieces", 100},
                       {"record", "auto"},
                       {"at_ready", "all"},
                       {"affinity_fix", "leave"},
                       {"affinity_fix_ahead_s", 30},
                       {"store", "dir:/x"},
                       {"service_id", "svc-one"},
                       {"workers", 2},
                       {"xpus", {0, 1}},
                       {"params", {{"tp", 2}}}};
  std::mt19937 rng(1);
  int taken = 0;
  const int mutations = ConfigMutations();
  for (int i = 0; i < mutations; i++) {
    const Result<Config> parsed = ParseConfig(Spoilt(&rng, sample));
    if (!parsed) {
      ASSERT_NO_FATAL_FAILURE(ExpectOneShortLine(parsed.error().message));
      continue;
    }
    const Config& config = *parsed;
    taken++;
    ASSERT_LE(config.max_pieces, 1u << 30);
    ASSERT_LE(config.affinity_fix_ahead_s, 86400u);
    ASSERT_LE(BeaconBytes(BarDistance(config, 1 << 30, 3)), 1u << 20);
  }
  EXPECT_GT(taken, mutations / 100);
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
  std::mt19937 rng(2);
  int taken = 0;
  const int mutations = ConfigMutations();
  for (int i = 0; i < mutations; i++) {
    const Json message = Json::parse(Spoilt(&rng, sample), nullptr, false);
    if (!message.is_object()) continue;
    const Result<ServiceSpec> parsed = ParseService(message);
    if (!parsed) {
      ASSERT_NO_FATAL_FAILURE(ExpectOneShortLine(parsed.error().message));
      continue;
    }
    const ServiceSpec& spec = *parsed;
    taken++;
    ASSERT_TRUE(ValidServiceId(spec.service_id)) << spec.service_id;
    ASSERT_GE(spec.nodes, 1u);
    ASSERT_LT(spec.node, spec.nodes);
    ASSERT_LT(spec.workers, kMaxGroups);
    ASSERT_LT(spec.first_worker + spec.workers, kMaxGroups);
  }
  EXPECT_GT(taken, mutations / 100);
}

}  // namespace
}  // namespace ppc::maio
