// SPDX-License-Identifier: Apache-2.0
// What the guard counts, and when it forgets.
#include "tests/unit/exec/guard_fixture.h"

namespace ppc {
namespace {

TEST_F(GuardTest, ALoadWhoseReadersAreSilentIsOver) {
  EXPECT_EQ(Load(0, 8 * kMiB), 8 * kMiB);
  Progress(512 * kMiB, 8 * kMiB);
  Wait(55 * kSecond);
  EXPECT_EQ(View().waste, 0u) << "it may still be read";
  Wait(10 * kSecond);
  EXPECT_EQ(View().waste, 8 * kMiB);
}

TEST_F(GuardTest, ADropThatIsNeverReportedIsGivenBack) {
  Read(0, kModel);
  EXPECT_EQ(Drop(0, 2 * kMiB), 2 * kMiB);
  (void)guard_.AllowDrop(kSlot, 2 * kMiB, Guard::kUnmapCredit, /*unmap=*/true);
  Wait(5 * kSecond);
  EXPECT_EQ(View().credit, 0u);
  Wait(10 * kSecond);
  EXPECT_EQ(View().credit, Guard::kUnmapCredit - 2 * kMiB);
}

TEST_F(GuardTest, ADropThatIsNotReportedYetIsOfTheCredit) {
  (void)guard_.AllowDrop(kSlot, 0, Guard::kUnmapCredit, /*unmap=*/true);
  Wait(kSecond);
  EXPECT_EQ(View().credit, 0u);
}

TEST_F(GuardTest, WhatALoadMayHaveDisplacedIsCounted) {
  EXPECT_EQ(Load(0, 4 * kMiB), 4 * kMiB);
  Read(0, 8 * kMiB, /*file=*/2);
  EXPECT_EQ(View().displaced, 0u);
  Read(0, 8 * kMiB, /*file=*/2);
  EXPECT_EQ(View().displaced, 8 * kMiB) << "page by page, of no more than lies unread";
  guard_.Begin(kSlot, "svc");
  Read(0, 8 * kMiB, /*file=*/3);
  Read(0, 8 * kMiB, /*file=*/3);
  EXPECT_EQ(View().displaced, 0u) << "nothing was loaded";
}

TEST_F(GuardTest, RegretIsForgottenByHalves) {
  Read(0, kModel);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Drop(0, 12 * kMiB), 12 * kMiB) << i;
    Read(0, 12 * kMiB);
    EXPECT_EQ(View().state, "open") << i;
    Wait(3 * Guard::kBackOffNs);
  }
}

// The window that is left grows with what of it is read, and then the limit goes.
TEST_F(GuardTest, LoadsThatAreReadLiftTheirLimit) {
  for (uint64_t at = 0; at < 512 * kMiB; at += 8 * kMiB) (void)Load(at, 8 * kMiB, 2);
  Read(0, 128 * kMiB);
  Wait(kSecond);
  ASSERT_EQ(View().state, "small_window");
  Progress(0, 520 * kMiB, 2);
  Wait(kSecond);
  EXPECT_EQ(View().state, "open");
  EXPECT_LT(View().window, kGiB) << "another limit may follow at once";
  Wait(3 * Guard::kBackOffNs);
  EXPECT_GT(View().window, kGiB);
}

TEST_F(GuardTest, HitsAreWantedWhileMuchLiesUnread) {
  EXPECT_EQ(Load(0, Guard::kSmallWindow - 2 * kMiB), Guard::kSmallWindow - 2 * kMiB);
  EXPECT_FALSE(guard_.WantsHits());
  EXPECT_EQ(Load(Guard::kSmallWindow - 2 * kMiB, 2 * kMiB), 2 * kMiB);
  EXPECT_TRUE(guard_.WantsHits());
  Progress(0, Guard::kSmallWindow / 2);
  Wait(kSecond);
  EXPECT_TRUE(guard_.WantsHits());
  Progress(0, Guard::kSmallWindow);
  Wait(kSecond);
  EXPECT_FALSE(guard_.WantsHits());
}

// A policy that has no more use for hits has ended its loads.
TEST_F(GuardTest, WhatLiesUnreadWhenAllLoadsEndIsWaste) {
  EXPECT_EQ(Load(0, Guard::kSmallWindow), Guard::kSmallWindow);
  Progress(0, 16 * kMiB);
  guard_.EndLoads();
  EXPECT_GT(View().waste, 32 * kMiB);
  Wait(kSecond);
  EXPECT_FALSE(guard_.WantsHits());
}

// An open says nothing of a large file, and of a small one that it may be read without an event.
TEST_F(GuardTest, AnOpenIsNoRead) {
  const uint64_t all = guard_.PlanBytes(kSlot, 0);
  EXPECT_EQ(Load(0, 4 * kMiB), 4 * kMiB);
  guard_.NoteUse(kSlot, {.file = 1, .file_bytes = kModel, .is_open = true}, now_);
  EXPECT_EQ(guard_.PlanBytes(kSlot, 0), all - 4 * kMiB);
  EXPECT_EQ(Load(0, 2 * kMiB, 2), 2 * kMiB);
  guard_.NoteUse(kSlot, {.file = 2, .file_bytes = 2 * kMiB, .is_open = true}, now_);
  EXPECT_EQ(guard_.PlanBytes(kSlot, 0), all - 4 * kMiB);
  EXPECT_EQ(guard_.ReadBytes(kSlot), 0u);
}

}  // namespace
}  // namespace ppc
