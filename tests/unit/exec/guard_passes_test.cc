// SPDX-License-Identifier: Apache-2.0
// Readers that the loads run close ahead of, and readers that pass over more than there is memory.
#include "tests/unit/exec/guard_fixture.h"

namespace ppc {
namespace {

// A reader that waits for a page in flight is told of before the load is.
TEST_F(GuardTest, WhatAReaderAwaitsInFlightIsRead) {
  Progress(0, 12 * kMiB);
  EXPECT_EQ(Load(0, 8 * kMiB), 8 * kMiB);
  EXPECT_EQ(Unread(), 0u);
  EXPECT_EQ(Drop(0, 8 * kMiB), 8 * kMiB);
  EXPECT_EQ(View().waste, 0u);
}

TEST_F(GuardTest, WhatIsLoadedWhereAReaderWasLongAgoIsNotRead) {
  guard_.SetRoom(kSlot, 512 * kMiB, 448 * kMiB);
  Progress(0, 8 * kMiB);
  Read(512 * kMiB, 256 * kMiB);
  const uint64_t before = guard_.PlanBytes(kSlot, 0);
  EXPECT_EQ(Load(0, 8 * kMiB), 8 * kMiB);
  EXPECT_EQ(before - guard_.PlanBytes(kSlot, 0), 8 * kMiB);
}

TEST_F(GuardTest, SoIsWhatComesBackToAReaderThatWaits) {
  EXPECT_EQ(Load(0, 8 * kMiB), 8 * kMiB);
  Progress(0, 12 * kMiB);
  EXPECT_EQ(Drop(0, 8 * kMiB), 8 * kMiB);
  EXPECT_EQ(Load(0, 4 * kMiB), 4 * kMiB);
  EXPECT_EQ(Unread(), 4 * kMiB) << "no reader is there";
  Progress(0, 8 * kMiB);
  See(6 * kMiB);
  EXPECT_EQ(Load(4 * kMiB, 4 * kMiB), 4 * kMiB);
  EXPECT_EQ(Unread(), 0u);
}

// Half of each 16 MiB stays, the rest is loaded ahead of the reader and dropped behind it.
TEST_F(GuardTest, PassesOverMoreThanThereIsRoomCostNothing) {
  constexpr uint64_t kStripe = 16 * kMiB, kRest = 8 * kMiB;
  guard_.SetRoom(kSlot, 640 * kMiB, 600 * kMiB);
  Read(0, kModel);
  guard_.SetPasses(kSlot, true, now_);
  for (int pass = 0; pass < 6; ++pass) {
    for (uint64_t at = 0; at < kModel; at += kStripe) {
      if (pass > 0) {
        ASSERT_EQ(Load(at + kRest, kRest), kRest) << pass << " at " << at / kMiB;
      }
      Progress(at + kRest, kRest);  // what stays is mapped, and silent
      ASSERT_EQ(Drop(at + kRest, kRest), kRest) << pass << " at " << at / kMiB;
      now_ += kSecond / 20;
    }
    guard_.Tick(now_);
    ASSERT_EQ(View().state, "open") << View().reason;
  }
  EXPECT_EQ(View().regret, 0u);
  EXPECT_LE(View().waste, kModel / 50) << "the ends of stripes are seen late";
}

TEST_F(GuardTest, WhatTheKernelWouldHaveEvictedComesBackToTheCredit) {
  guard_.SetRoom(kSlot, 512 * kMiB, 512 * kMiB);
  Read(0, kModel);
  const uint64_t credit = View().credit;
  EXPECT_EQ(Drop(0, 48 * kMiB), 48 * kMiB);
  EXPECT_EQ(View().credit, credit - 48 * kMiB);
  EXPECT_EQ(Load(0, 32 * kMiB), 32 * kMiB);
  EXPECT_EQ(View().credit, credit - 16 * kMiB);
  Read(32 * kMiB, 16 * kMiB);
  EXPECT_EQ(View().credit, credit - 16 * kMiB) << "a reader has waited for it";
  EXPECT_EQ(View().regret, 0u);
}

TEST_F(GuardTest, PassesBeginWithAFreshCreditOnceAMinute) {
  guard_.SetRoom(kSlot, 512 * kMiB, 512 * kMiB);
  Read(0, kModel);
  const uint64_t credit = View().credit;
  for (const bool is_fresh : {true, false}) {
    EXPECT_EQ(Drop(0, 48 * kMiB), 48 * kMiB);
    guard_.SetPasses(kSlot, true, now_);
    guard_.SetPasses(kSlot, false, now_);
    EXPECT_EQ(View().credit, is_fresh ? credit : credit - 48 * kMiB);
    now_ += Guard::kRenewalNs / 2;
  }
}

TEST_F(GuardTest, WhileThereArePassesAllMayGoInTurn) {
  guard_.SetRoom(kSlot, 512 * kMiB, 512 * kMiB);
  Read(0, kModel);
  guard_.SetPasses(kSlot, true, now_);
  EXPECT_EQ(Drop(0, kModel), kModel);
  EXPECT_EQ(Drop(0, kModel), kModel - 512 * kMiB + Guard::kUnmapCredit);
  EXPECT_EQ(Drop(0, 2 * kMiB), 0u);
  Read(0, 128 * kMiB);
  EXPECT_EQ(Drop(0, kModel), 128 * kMiB) << "it was missed, as without us";
}

TEST_F(GuardTest, WhoMakesRoomForPassesMayRegretHalfOfAModelThatDoesNotFit) {
  for (const bool makes_passes : {true, false}) {
    guard_.Begin(kSlot, "svc");
    guard_.SetRoom(kSlot, 768 * kMiB, 768 * kMiB);
    guard_.SetPasses(kSlot, makes_passes, now_);
    Read(0, kModel);
    EXPECT_EQ(Drop(kModel - 64 * kMiB, 64 * kMiB), 64 * kMiB);
    Read(kModel - 64 * kMiB, 64 * kMiB);
    Wait(kSecond);
    EXPECT_EQ(View().regret, 64 * kMiB);
    EXPECT_EQ(View().state, makes_passes ? "open" : "no_unmap");
  }
}

// Any policy may say that it makes passes.
TEST_F(GuardTest, WhereAllFitsPassesAreNoExcuse) {
  guard_.SetPasses(kSlot, true, now_);
  Read(0, kModel);
  EXPECT_EQ(Drop(0, kModel), Guard::kUnmapCredit);
  Read(0, 64 * kMiB);
  Wait(kSecond);
  EXPECT_EQ(View().state, "no_unmap");
}

}  // namespace
}  // namespace ppc
