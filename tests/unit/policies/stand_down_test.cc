// SPDX-License-Identifier: Apache-2.0
//
// When misses are cheap enough.
#include "policies/maio/follow/stand_down.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace ppc::maio {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kMB = 1'000'000;

class StandDownTest : public ::testing::Test {
 protected:
  // From now on readers of so many MB/s.
  void Readers(std::vector<double> mbps) {
    rates_ = std::move(mbps);
    cursors_.resize(rates_.size());
  }
  // One load gets `alone` MB/s, all together `together`, for so long.
  void Device(double alone, double together, uint64_t ms) {
    for (uint64_t t = 0; t < ms; t += 10) {
      now_ns_ += 10 * kMs;
      for (size_t g = 0; g < rates_.size(); g++) {
        cursors_[g].consumed += static_cast<uint64_t>(rates_[g] * 10 * 1e3);
      }
      stand_down_.Update(static_cast<uint64_t>(together * kMB),
                         static_cast<uint64_t>(2.0 * kMiB / alone * 1e3), cursors_, now_ns_);
    }
  }
  static constexpr uint64_t kMiB = 1 << 20;
  std::vector<double> rates_;
  std::vector<Cursor> cursors_;
  StandDown stand_down_{true};
  uint64_t now_ns_ = 1000 * kMs;
};

TEST_F(StandDownTest, AfterASecondOfCheapMisses) {
  Readers({100, 100});
  Device(10, 20, 1100);  // the readers are known now
  Device(2000, 4000, 900);
  EXPECT_FALSE(stand_down_.active());
  EXPECT_EQ(stand_down_.window(), ~0ull);
  Device(2000, 4000, 300);
  EXPECT_TRUE(stand_down_.active());
  EXPECT_EQ(stand_down_.window(), 8 * kMiB);
  EXPECT_EQ(stand_down_.times(), 1u);
  Device(2000, 4000, 2000);
  EXPECT_GE(stand_down_.total_ns(now_ns_), 2000 * kMs);
}

TEST_F(StandDownTest, NotWithABreak) {
  Readers({100});
  for (int i = 0; i < 10; i++) {
    Device(2000, 4000, 900);
    Device(1000, 4000, 10);
  }
  EXPECT_FALSE(stand_down_.active());
}

TEST_F(StandDownTest, NeitherOneLoadNorAllMayBeSlow) {
  Readers({100, 100});
  Device(1500, 4000, 5000);  // below 16 times a reader
  EXPECT_FALSE(stand_down_.active());
  Device(2000, 700, 5000);  // below 4 times all readers
  EXPECT_FALSE(stand_down_.active());
}

TEST_F(StandDownTest, WhoIsNotKnownMayBeAsFastAsAny) {
  Readers({100, 0, 0});
  Device(2000, 1100, 5000);
  EXPECT_FALSE(stand_down_.active());
  cursors_[1].dropped = cursors_[2].dropped = true;
  Device(2000, 1100, 5000);
  EXPECT_TRUE(stand_down_.active());
}

TEST_F(StandDownTest, ComesBackAtOnceButNotForALittle) {
  Readers({100, 100});
  Device(2000, 4000, 4000);
  Device(900, 500, 1000);  // between the thresholds
  EXPECT_TRUE(stand_down_.active());
  Device(700, 500, 10);
  EXPECT_FALSE(stand_down_.active());
  EXPECT_EQ(stand_down_.window(), ~0ull);
  Device(900, 500, 5000);
  EXPECT_FALSE(stand_down_.active());
  Device(2000, 4000, 2000);
  EXPECT_TRUE(stand_down_.active());
  Device(2000, 300, 10);
  EXPECT_FALSE(stand_down_.active());
  EXPECT_EQ(stand_down_.times(), 2u);
}

TEST_F(StandDownTest, AReaderThatSpeedsUpBringsItBack) {
  Readers({100});
  Device(2000, 4000, 4000);
  EXPECT_TRUE(stand_down_.active());
  Readers({400});
  Device(2000, 4000, 2100);
  EXPECT_FALSE(stand_down_.active());
}

TEST_F(StandDownTest, APauseIsNoSlowReader) {
  Readers({400});
  Device(2000, 4000, 2500);
  Readers({0});
  Device(2000, 4000, 10000);
  Readers({1});
  Device(2000, 4000, 10000);
  EXPECT_FALSE(stand_down_.active());
}

TEST_F(StandDownTest, ABurstIsNoFastReader) {
  for (int i = 0; i < 50; i++) {
    Readers({1000});
    Device(2000, 4000, 10);
    Readers({0});
    Device(2000, 4000, 90);
  }
  EXPECT_TRUE(stand_down_.active());
}

TEST_F(StandDownTest, NothingIsKnownAtFirst) {
  Device(2000, 4000, 5000);  // nobody reads
  EXPECT_FALSE(stand_down_.active());
  Readers({0.5});
  Device(2000, 4000, 5000);  // too little
  EXPECT_FALSE(stand_down_.active());
  Readers({10});
  for (int i = 0; i < 5000; i++) {
    cursors_[0].consumed += 1 << 20;
    stand_down_.Update(0, 0, cursors_, now_ns_ += 100 * kMs);
  }
  EXPECT_FALSE(stand_down_.active());
}

TEST_F(StandDownTest, SwitchedOff) {
  Readers({100});
  StandDown off(false);
  for (int i = 0; i < 100; i++) {
    cursors_[0].consumed += 10 * kMiB;
    off.Update(4000 * kMB, kMs, cursors_, now_ns_ += 100 * kMs);
  }
  EXPECT_FALSE(off.active());
  EXPECT_EQ(off.device_rate(), 4000 * kMB);  // shown all the same
}

}  // namespace
}  // namespace ppc::maio
