// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/read_rate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "daemon/backend/backend.h"
#include "daemon/base/clock.h"
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

}  // namespace
}  // namespace ppc
