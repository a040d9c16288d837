// SPDX-License-Identifier: Apache-2.0
// How fast may be read, and is: limits of control groups, neighbours, the device.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "daemon/backend/backend.h"
#include "daemon/base/clock.h"
#include "daemon/cache/bandwidth_governor.h"
#include "daemon/cache/device_meter.h"
#include "daemon/cache/read_rate.h"
#include "tests/unit/temp_tree.h"
#include "tests/unit/units.h"

namespace ppc {
namespace {

constexpr BlockDevice kDisk{8, 0};

class ReadRateTest : public testing::Test {
 protected:
  void Max(const std::string& group, uint64_t rbps) {
    tree_.Write("/sys/fs/cgroup" + group + "/io.max",
                rbps == 0 ? "" : "8:0 rbps=" + std::to_string(rbps) + " riops=max\n");
  }
  std::unique_ptr<ReadRate> Make(const std::string& group) {
    auto rate =
        std::make_unique<ReadRate>(std::make_unique<IoLimit>(SysRoots{tree_.Root(), tree_.Root()},
                                                             tree_.Path("/sys/fs/cgroup" + group)),
                                   &buckets_);
    rate->SetDevice(kDisk);
    return rate;
  }
  // As a loader's thread does.
  static uint64_t Take(ReadRate* rate, uint64_t now_ns, uint64_t bytes) {
    if (!rate->IsKnown(now_ns)) rate->Refresh(now_ns);
    return rate->Take(now_ns, bytes);
  }
  // Takes whatever it gets, every 10 ms.
  uint64_t TakenIn(uint64_t seconds, std::initializer_list<ReadRate*> rates) {
    uint64_t taken = 0;
    for (const uint64_t end = now_ns_ + seconds * kNsPerSec; now_ns_ < end;
         now_ns_ += 10 * kNsPerMs) {
      for (ReadRate* rate : rates) taken += Take(rate, now_ns_, 8 * kMiB);
    }
    return taken;
  }
  TempTree tree_;
  TokenBuckets buckets_;
  uint64_t now_ns_ = kNsPerSec;
};

TEST_F(ReadRateTest, WithoutALimitAllIsGranted) {
  Max("/a", 0);
  EXPECT_EQ(Take(Make("/a").get(), now_ns_, 8 * kMiB), 8 * kMiB);
  EXPECT_EQ(Make("/a")->Limit(), 0u);
}

TEST_F(ReadRateTest, KeepsToTheLimitAndUsesIt) {
  Max("/a", 50 * kMiB);
  const auto rate = Make("/a");
  const uint64_t taken = TakenIn(10, {rate.get()});
  EXPECT_LE(taken, (500 + 5) * kMiB);  // and a tenth of a second at the start
  EXPECT_GE(taken, 490 * kMiB);
  EXPECT_EQ(rate->Limit(), 50 * kMiB);
}

// A limit below a step a second still lets whole steps through, rarely.
TEST_F(ReadRateTest, ASmallLimit) {
  Max("/a", kMiB);
  const auto rate = Make("/a");
  EXPECT_EQ(Take(rate.get(), now_ns_, 8 * kMiB), kStepBytes);
  EXPECT_EQ(Take(rate.get(), now_ns_, 8 * kMiB), 0u);
  EXPECT_LE(TakenIn(10, {rate.get()}), 10 * kMiB);
}

TEST_F(ReadRateTest, ServicesShareAnAncestorsLimit) {
  Max("/a", 50 * kMiB);
  Max("/a/one", 0);
  Max("/a/two", 10 * kMiB);
  const auto one = Make("/a/one");
  const auto two = Make("/a/two");
  EXPECT_LE(TakenIn(10, {two.get(), one.get()}), 505 * kMiB);
  EXPECT_EQ(two->Limit(), 10 * kMiB);
  EXPECT_EQ(one->Limit(), 50 * kMiB);
}

TEST_F(ReadRateTest, WhatWasNotReadComesBack) {
  Max("/a", 50 * kMiB);
  const auto rate = Make("/a");
  const uint64_t first = Take(rate.get(), now_ns_, 4 * kMiB);
  EXPECT_EQ(first, 4 * kMiB);
  EXPECT_EQ(Take(rate.get(), now_ns_, 4 * kMiB), 0u);
  rate->GiveBack(first);
  EXPECT_EQ(Take(rate.get(), now_ns_, 4 * kMiB), 4 * kMiB);
}

TEST_F(ReadRateTest, TheServicesOwnReadsAreTakenOff) {
  Max("/a", 50 * kMiB);
  const auto rate = Make("/a");
  uint64_t taken = 0;
  rate->Refresh(now_ns_);
  for (int i = 0; i < 1000; ++i, now_ns_ += 10 * kNsPerMs) {
    if (i % 10 == 0) rate->Note(now_ns_, 2 * kMiB);  // 20 MiB a second
    taken += Take(rate.get(), now_ns_, 8 * kMiB);
  }
  EXPECT_LE(taken, 305 * kMiB);
  EXPECT_GE(taken, 280 * kMiB);
  // However much they missed at once, loads go on a fifth of a second later.
  rate->Note(now_ns_, 1000 * kMiB);
  EXPECT_EQ(Take(rate.get(), now_ns_ + 90 * kNsPerMs, 8 * kMiB), 0u);
  EXPECT_GT(Take(rate.get(), now_ns_ + 200 * kNsPerMs, 8 * kMiB), 0u);
}

TEST_F(ReadRateTest, LimitsChangeWithinASecond) {
  Max("/a", 0);
  const auto rate = Make("/a");
  EXPECT_EQ(Take(rate.get(), now_ns_, 8 * kMiB), 8 * kMiB);
  Max("/a", kMiB);
  now_ns_ += kNsPerSec;
  EXPECT_EQ(Take(rate.get(), now_ns_, 8 * kMiB), kStepBytes);
  Max("/a", 0);
  now_ns_ += kNsPerSec;
  EXPECT_EQ(Take(rate.get(), now_ns_, 8 * kMiB), 8 * kMiB);
}

// A limit that was not looked for yet may be there.
TEST_F(ReadRateTest, NothingIsGrantedBlindly) {
  Max("/a", kMiB);
  const auto rate = Make("/a");
  EXPECT_FALSE(rate->IsKnown(now_ns_));
  EXPECT_EQ(rate->Take(now_ns_, 8 * kMiB), 0u);
  rate->Refresh(now_ns_);
  EXPECT_TRUE(rate->IsKnown(now_ns_));
  EXPECT_EQ(rate->Take(now_ns_, 8 * kMiB), kStepBytes);
}

// Which device is read is known with the first load.
TEST_F(ReadRateTest, AnotherDeviceIsNotLimited) {
  Max("/a", kMiB);
  const auto rate = Make("/a");
  rate->SetDevice(BlockDevice{9, 9});
  EXPECT_EQ(Take(rate.get(), now_ns_, 8 * kMiB), 8 * kMiB);
}

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

class DeviceMeterTest : public testing::Test {
 protected:
  // `threads` loads at a time of 2 MiB each, each of which takes so long.
  void Load(int threads, uint64_t step_ns, int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (int i = 0; i < threads; ++i) meter_.Begin(now_ns_);
      now_ns_ += step_ns;
      for (int i = 0; i < threads; ++i) meter_.End(now_ns_, 2 * kMiB, step_ns);
    }
  }
  double StepNs() const { return static_cast<double>(meter_.Speed().step_ns); }
  double BytesPerS() const { return static_cast<double>(meter_.Speed().bytes_per_s); }

  DeviceMeter meter_;
  uint64_t now_ns_ = 1000 * kMs;
};

TEST_F(DeviceMeterTest, KnowsNothingAtFirst) {
  EXPECT_EQ(meter_.Speed().bytes_per_s, 0u);
  EXPECT_EQ(meter_.Speed().step_ns, 0u);
}

TEST_F(DeviceMeterTest, WhatIsLoadedWithinAWindowIsMeasured) {
  Load(4, 10 * kMs, 2);
  EXPECT_NEAR(StepNs(), 10.0 * kMs, 1000.0);
  EXPECT_NEAR(BytesPerS(), 8.0 * kMiB * 100, 1e7);
  meter_.Begin(now_ns_);
  EXPECT_EQ(meter_.Speed().bytes_per_s, 0u) << "of a load that is under way";
  EXPECT_EQ(meter_.Speed().step_ns, 0u);
  now_ns_ += 10 * kMs;
  meter_.End(now_ns_, 2 * kMiB, 10 * kMs);
  now_ns_ += 500 * kMs;
  meter_.Begin(now_ns_);
  EXPECT_NEAR(StepNs(), 10.0 * kMs, 1000.0) << "the next one";
}

TEST_F(DeviceMeterTest, LoadsSideBySideShareTheTime) {
  Load(4, 10 * kMs, 100);
  EXPECT_NEAR(StepNs(), 10.0 * kMs, 1000.0);
  EXPECT_NEAR(BytesPerS(), 8.0 * kMiB * 100, 1e7);
}

TEST_F(DeviceMeterTest, TimeWithoutLoadsDoesNotCount) {
  for (int i = 0; i < 20; ++i) {
    Load(1, 10 * kMs, 1);
    now_ns_ += 500 * kMs;
  }
  EXPECT_NEAR(BytesPerS(), 2.0 * kMiB * 100, 1e5);
}

TEST_F(DeviceMeterTest, BecomingSlowShowsSoonBecomingFastToo) {
  Load(1, kMs, 1000);
  Load(1, 200 * kMs, 2);
  EXPECT_GE(meter_.Speed().step_ns, 100 * kMs);
  Load(1, kMs, 1000);
  EXPECT_LE(meter_.Speed().step_ns, 2 * kMs);
}

TEST_F(DeviceMeterTest, CrumbsAndFailuresSayNothingOfAStep) {
  for (int i = 0; i < 100; ++i) {
    meter_.Begin(now_ns_);
    now_ns_ += 5 * kMs;
    meter_.End(now_ns_, i % 2 == 0 ? 4096 : 0, 5 * kMs);
  }
  EXPECT_EQ(meter_.Speed().step_ns, 0u);
  EXPECT_GT(meter_.Speed().bytes_per_s, 0u);
}

}  // namespace
}  // namespace ppc
