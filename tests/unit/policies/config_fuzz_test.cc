// SPDX-License-Identifier: Apache-2.0
//
// Configurations and service messages that are damaged or made up: refused in one line, or
// something that can be worked with.
#include <gtest/gtest.h>

#include "policies/maio/base/config.h"
#include "policies/maio/base/names.h"
#include "tests/unit/fuzz.h"

namespace ppc::maio {
namespace {

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
  std::mt19937 rng(1);
  int taken = 0;
  const int mutations = Mutations(20000);
  GrowthCheck growth(mutations);
  for (int i = 0; i < mutations; i++) {
    growth.Round();
    const Result<Config> parsed = ParseConfig(Spoilt(&rng, sample));
    if (!parsed) {
      ASSERT_NO_FATAL_FAILURE(ExpectOneShortLine(parsed.error().message));
      continue;
    }
    const Config& config = *parsed;
    taken++;
    ASSERT_LE(config.max_pieces, 1u << 30);
    ASSERT_LE(config.recover_s, kMostRecoverS);
    ASSERT_LE(config.holdback, 100u);
    ASSERT_TRUE(config.store_key.empty() || !config.store.empty());
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
  const int mutations = Mutations(20000);
  GrowthCheck growth(mutations);
  for (int i = 0; i < mutations; i++) {
    growth.Round();
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
    ASSERT_LE(spec.nodes == 1 ? 0 : spec.first_worker + spec.workers, kMaxWorkers);
  }
  EXPECT_GT(taken, mutations / 100);
}

}  // namespace
}  // namespace ppc::maio
