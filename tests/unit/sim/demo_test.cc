// SPDX-License-Identifier: Apache-2.0
// The model puts the systems of the demo in the order that the emulated machine measured
// (tools/demo).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/experiment.h"

namespace ppc::sim {
namespace {

// Faster ones first.  What each takes is in its scenario, and held there.
void ExpectOrder(const std::vector<std::string>& scenarios) {
  double before = 0;
  for (const std::string& name : scenarios) {
    SCOPED_TRACE(name);
    const Result<Scenario> scenario =
        ReadScenario(std::string(PPC_TEST_SCENARIOS "/demo-") + name + ".json");
    ASSERT_TRUE(scenario.ok());
    const Result<Outcome> outcome = RunScenario(*scenario, 1);
    ASSERT_TRUE(outcome.ok());
    const double startup = outcome->metrics.at("startup_s");
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

}  // namespace
}  // namespace ppc::sim
