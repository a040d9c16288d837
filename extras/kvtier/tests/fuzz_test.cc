// SPDX-License-Identifier: Apache-2.0
// Damaged and random configurations of kvtier.
#include "tests/unit/fuzz.h"

#include <gtest/gtest.h>

#include <bit>

#include "extras/kvtier/config.h"

namespace ppc::kvtier {
namespace {

TEST(ConfigFuzz, WhatKvtierTakesCanBeWorkedWith) {
  const Json sample = {{"block", "1M"},
                       {"ahead", "64M"},
                       {"table", "24M"},
                       {"reader", "thread"},
                       {"runtime", {{"threshold", 0.5}}}};
  std::mt19937 rng(3);
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
    taken++;
    ASSERT_TRUE(std::has_single_bit(parsed->block)) << parsed->block;
    ASSERT_GE(parsed->block, 64u << 10);
    ASSERT_LE(parsed->block, 64u << 20);
    ASSERT_GE(parsed->table, 64u << 10);
    ASSERT_LE(parsed->table, 1u << 30);
  }
  EXPECT_GT(taken, mutations / 100);
}

}  // namespace
}  // namespace ppc::kvtier
