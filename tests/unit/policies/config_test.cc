// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/config.h"

#include <gtest/gtest.h>

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

TEST(ParseConfig, AnUnknownOptionIsAnErrorThatNamesTheOthers) {
  Config config;
  std::string error;
  EXPECT_FALSE(ParseConfig(R"({"distant": "64M"})", &config, &error));
  EXPECT_TRUE(error.starts_with("maio: there is no option \"distant\"; there are distance "))
      << error;
}

TEST(ParseConfig, OptionsOfTheRuntimeAndOfAServiceAreOthers) {
  Config config;
  std::string error;
  EXPECT_TRUE(ParseConfig(R"({"runtime": {"threshold": 0.5}, "service_id": "abcd", "workers": 2,
                              "xpus": [0, 1], "params": {"tp": 2}})",
                          &config, &error))
      << error;
  EXPECT_EQ(config.service.value("service_id", ""), "abcd");
}

}  // namespace
}  // namespace ppc::maio
