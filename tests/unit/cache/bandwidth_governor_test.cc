// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/bandwidth_governor.h"

#include <gtest/gtest.h>

#include <algorithm>

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

// Each load takes longer where more threads load at once, though the device is as fast.
TEST_F(GovernorTest, ManyThreadsAreNoSlowDevice) {
  Window(0, 100 * kMiB, kMs);
  for (int i = 0; i < 20; ++i) Window(200 * kMiB, 100 * kMiB, 16 * kMs);
  EXPECT_EQ(Allowed(), 16);
}

// As a burst from a device's own cache.
TEST_F(GovernorTest, WhatWasReachedOnceFades) {
  Window(0, 1000 * kMiB, kMs / 10);
  for (int i = 0; i < 300; ++i) Window(200 * kMiB, 100 * kMiB, kMs);
  EXPECT_EQ(Allowed(), 16);
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

// A load of a MiB takes a ms while the device serves it at once, and as much longer as more threads
// than it serves at once are in its queue.
class NeighbourTest : public GovernorTest {
 protected:
  int LoadFor(int windows, int at_once) {
    for (int i = 0; i < windows; ++i) {
      const auto threads = static_cast<uint64_t>(Allowed());
      const auto served = static_cast<uint64_t>(at_once);
      Window(0, 100 * kMiB, kMs * std::max(threads, served) / served);
    }
    return Allowed();
  }
};

TEST_F(NeighbourTest, AQueueOfOursIsCutWhileOthersWait) {
  EXPECT_EQ(LoadFor(5, 2), 16);
  governor_.OnNeighbours(true);
  LoadFor(4, 2);
  for (int i = 0; i < 40; ++i) EXPECT_LE(LoadFor(1, 2), 5) << i;
  governor_.OnNeighbours(false);
  EXPECT_EQ(LoadFor(1, 2), 16);
}

TEST_F(NeighbourTest, ADeviceThatServesManyAtOnceIsUsed) {
  governor_.OnNeighbours(true);
  EXPECT_EQ(LoadFor(2, 8), 2);
  EXPECT_EQ(LoadFor(20, 8), 16);  // twice the time
}

TEST_F(NeighbourTest, OneThatServesNoMoreIsNotIdle) {
  governor_.OnNeighbours(true);
  int least = 16;
  for (int i = 0; i < 40; ++i) least = std::min(least, LoadFor(1, 1));
  EXPECT_EQ(least, 2);
}

}  // namespace
}  // namespace ppc
