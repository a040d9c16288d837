// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/bandwidth_governor.h"

#include <gtest/gtest.h>

#include "tests/unit/units.h"

namespace ppc {
namespace {

constexpr uint64_t kWindow = 100 * kMs;

class GovernorTest : public testing::Test {
 protected:
  // One window in which the front end missed and we loaded so much, at so many ns per MiB.
  void Window(uint64_t demand, uint64_t loaded, uint64_t ns_per_mib) {
    now_ += kWindow;
    governor_.OnDemand(now_, demand);
    if (loaded > 0) governor_.OnLoaded(now_, loaded, loaded / kMiB * ns_per_mib);
  }
  int Allowed() { return governor_.Allowed(now_ + kWindow - 1); }

  uint64_t now_ = kWindow;
  BandwidthGovernor governor_{{}, 16};
};

TEST_F(GovernorTest, AllMayLoadWhileTheFrontEndIsSatisfied) {
  for (int i = 0; i < 20; ++i) Window(0, 100 * kMiB, kMs);
  EXPECT_EQ(Allowed(), 16);
}

TEST_F(GovernorTest, AFrontEndAheadAloneTakesNothingAway) {
  // It misses more than we load, but the device is as fast as ever.
  for (int i = 0; i < 20; ++i) Window(100 * kMiB, 50 * kMiB, kMs);
  EXPECT_EQ(Allowed(), 16);
}

TEST_F(GovernorTest, ASlowDeviceWithAFrontEndAheadDoes) {
  Window(0, 100 * kMiB, kMs);
  for (int i = 0; i < 4; ++i) Window(100 * kMiB, 10 * kMiB, 10 * kMs);
  EXPECT_LT(Allowed(), 16);
  for (int i = 0; i < 40; ++i) Window(100 * kMiB, 10 * kMiB, 10 * kMs);
  EXPECT_EQ(Allowed(), 2);  // never so few that the device idles
}

TEST_F(GovernorTest, ThreadsComeBackOneByOne) {
  Window(0, 100 * kMiB, kMs);
  for (int i = 0; i < 40; ++i) Window(100 * kMiB, 10 * kMiB, 10 * kMs);
  Window(0, 100 * kMiB, kMs);
  const int before = Allowed();
  Window(0, 100 * kMiB, kMs);
  Window(0, 100 * kMiB, kMs);
  EXPECT_GT(Allowed(), before);
  now_ += 100 * kWindow;
  EXPECT_EQ(Allowed(), 16);
}

}  // namespace
}  // namespace ppc
