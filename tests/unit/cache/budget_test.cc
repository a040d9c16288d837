// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/budget.h"

#include <gtest/gtest.h>

#include "daemon/backend/backend.h"
#include "tests/unit/units.h"

namespace ppc {
namespace {

class FixedMemory : public MemorySource {
 public:
  MemoryReading Read(bool) override {
    return MemoryReading{.limit = 1000 * kMiB, .used = used, .threshold = 800 * kMiB};
  }
  uint64_t used = 0;
};

class BudgetTest : public testing::Test {
 protected:
  uint64_t Reserve(uint64_t bytes) {
    budget_.Refresh(++now_ns_);
    return budget_.Reserve(bytes);
  }
  uint64_t now_ns_ = 0;
  std::shared_ptr<FixedMemory> memory_ = std::make_shared<FixedMemory>();
  Budget budget_{memory_};
};

TEST_F(BudgetTest, InFlightStaysWithinAnEighth) {
  uint64_t granted = 0;
  while (const uint64_t part = Reserve(8 * kMiB)) granted += part;
  EXPECT_EQ(granted, 100 * kMiB);
  budget_.Release(8 * kMiB);
  EXPECT_EQ(Reserve(8 * kMiB), 8 * kMiB);
}

TEST_F(BudgetTest, GrantsOnlyWhatFits) {
  memory_->used = 795 * kMiB;
  EXPECT_EQ(Reserve(8 * kMiB), 4 * kMiB);  // whole steps
  EXPECT_EQ(Reserve(8 * kMiB), 0u);
  EXPECT_EQ(Reserve(kMiB), kMiB);  // all of what was asked fits
  EXPECT_EQ(budget_.Read(false).room, 0u);
  EXPECT_EQ(budget_.Read(false).inflight, 5 * kMiB);
}

// For a policy that makes room before it loads.
TEST_F(BudgetTest, MayUseTheLimitButForAMargin) {
  memory_->used = 900 * kMiB;
  EXPECT_EQ(Reserve(8 * kMiB), 0u);
  budget_.SetUsesLimit(true);
  EXPECT_EQ(Reserve(8 * kMiB), 8 * kMiB);
  EXPECT_EQ(budget_.Read(false).memory.threshold, 968 * kMiB);
  memory_->used = 967 * kMiB;
  EXPECT_EQ(Reserve(8 * kMiB), 0u);
  budget_.SetUsesLimit(false);
  EXPECT_EQ(budget_.Read(false).memory.threshold, 800 * kMiB);
}

// Reading again for every chunk would be one lock for all threads.
TEST_F(BudgetTest, WhatCameSinceTheReadingCountsAsUsed) {
  memory_->used = 784 * kMiB;
  budget_.Refresh(1);
  EXPECT_EQ(budget_.Reserve(8 * kMiB), 8 * kMiB);
  budget_.Release(8 * kMiB);
  EXPECT_EQ(budget_.Reserve(8 * kMiB), 8 * kMiB);
  EXPECT_EQ(budget_.Reserve(8 * kMiB), 0u);
  budget_.Release(8 * kMiB);
  EXPECT_EQ(budget_.Reserve(8 * kMiB), 0u);
  EXPECT_EQ(Reserve(8 * kMiB), 8 * kMiB);  // the reading says it was not loaded
}

TEST_F(BudgetTest, AReadingGrowsOld) {
  EXPECT_FALSE(budget_.IsKnown(0, 100));
  EXPECT_EQ(budget_.Reserve(8 * kMiB), 0u);  // nothing is known
  budget_.Refresh(50);
  EXPECT_TRUE(budget_.IsKnown(149, 100));
  EXPECT_FALSE(budget_.IsKnown(150, 100));
}

TEST_F(BudgetTest, NothingAboveTheThreshold) {
  memory_->used = 801 * kMiB;
  EXPECT_TRUE(budget_.IsAbove());
  EXPECT_EQ(Reserve(4096), 0u);
}

TEST_F(BudgetTest, ALookHasAnAge) {
  memory_->used = 700 * kMiB;
  EXPECT_EQ(Reserve(8 * kMiB), 8 * kMiB);
  EXPECT_EQ(Reserve(8 * kMiB), 8 * kMiB);
  budget_.Release(8 * kMiB);
  budget_.NoteDropped(kMiB);
  const Budget::State look = budget_.Read(true);
  EXPECT_EQ(budget_.Now(look).memory.used, 700 * kMiB) << "what was before it is in it";
  EXPECT_EQ(budget_.Now(look).room, 92 * kMiB);
  EXPECT_FALSE(budget_.HasChangedSince(look));
  budget_.NoteDropped(30 * kMiB);
  EXPECT_EQ(budget_.Now(look).memory.used, 670 * kMiB);
  EXPECT_EQ(budget_.Now(look).room, 122 * kMiB);
  budget_.Release(8 * kMiB);  // settled, for all that is known as page cache
  EXPECT_EQ(budget_.Now(look).memory.used, 670 * kMiB);
  EXPECT_EQ(budget_.Now(look).room, 122 * kMiB);
  EXPECT_EQ(budget_.Read(true).room, 100 * kMiB);
  EXPECT_TRUE(budget_.HasChangedSince(look));
}

}  // namespace
}  // namespace ppc
