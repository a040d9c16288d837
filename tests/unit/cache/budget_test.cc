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
  std::shared_ptr<FixedMemory> memory_ = std::make_shared<FixedMemory>();
  Budget budget_{memory_};
};

TEST_F(BudgetTest, InFlightStaysWithinAnEighth) {
  uint64_t granted = 0;
  while (const uint64_t part = budget_.Reserve(8 * kMiB)) granted += part;
  EXPECT_EQ(granted, 100 * kMiB);
  budget_.Release(8 * kMiB);
  EXPECT_EQ(budget_.Reserve(8 * kMiB), 8 * kMiB);
}

TEST_F(BudgetTest, GrantsOnlyWhatFits) {
  memory_->used = 795 * kMiB;
  EXPECT_EQ(budget_.Reserve(8 * kMiB), 4 * kMiB);  // whole steps
  EXPECT_EQ(budget_.Reserve(8 * kMiB), 0u);
  EXPECT_EQ(budget_.Reserve(kMiB), kMiB);  // all of what was asked fits
  EXPECT_EQ(budget_.Read(false).room, 0u);
  EXPECT_EQ(budget_.Read(false).inflight, 5 * kMiB);
}

TEST_F(BudgetTest, NothingAboveTheThreshold) {
  memory_->used = 801 * kMiB;
  EXPECT_TRUE(budget_.IsAbove());
  EXPECT_EQ(budget_.Reserve(4096), 0u);
}

}  // namespace
}  // namespace ppc
