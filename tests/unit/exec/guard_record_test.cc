// SPDX-License-Identifier: Apache-2.0
// What the guard counts, and when it forgets.
#include <vector>

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
  EXPECT_EQ(View().credit, 0u) << "it may still be reported";
  Wait(10 * kSecond);
  EXPECT_EQ(View().credit, Guard::kUnmapCredit - 2 * kMiB);
}

TEST_F(GuardTest, WhatALoadMayHaveDisplacedIsCounted) {
  EXPECT_EQ(Load(0, 4 * kMiB), 4 * kMiB);
  Read(0, 8 * kMiB, /*file=*/2);
  EXPECT_EQ(View().displaced, 0u);
  Read(0, 8 * kMiB, /*file=*/2);
  EXPECT_EQ(View().displaced, 8 * kMiB) << "page by page, of no more than lies unread";
  guard_.Begin(kSlot, "svc", now_);
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
  guard_.NoteAccess(kSlot, {.file = 1, .file_bytes = kModel, .is_open = true}, now_);
  EXPECT_EQ(guard_.PlanBytes(kSlot, 0), all - 4 * kMiB);
  EXPECT_EQ(Load(0, 2 * kMiB, 2), 2 * kMiB);
  guard_.NoteAccess(kSlot, {.file = 2, .file_bytes = 2 * kMiB, .is_open = true}, now_);
  EXPECT_EQ(guard_.PlanBytes(kSlot, 0), all - 4 * kMiB);
  EXPECT_EQ(guard_.ReadBytes(kSlot), 0u);
}

// The kernel evicts a page after it has inserted as much as there is room for since its last use.
TEST_F(GuardTest, ADropIsRegretUntilMoreThanTheRoomWasReadSince) {
  constexpr uint64_t kRoom = 256 * kMiB;
  for (const bool is_more : {false, true}) {
    guard_.Begin(kSlot, "svc", now_);
    guard_.SetRoom(kSlot, kRoom, kRoom);
    Read(0, 8 * kMiB);
    EXPECT_EQ(Drop(0, 8 * kMiB, /*unmap=*/false), 8 * kMiB);
    Read(512 * kMiB, is_more ? kRoom + 2 * kMiB : kRoom - 16 * kMiB);
    Read(0, 8 * kMiB);
    EXPECT_EQ(View().regret, is_more ? 0 : 8 * kMiB);
  }
}

// The reader's event may be older than the load.
TEST_F(GuardTest, AMissAtTheTimeOfTheLoadDoesNotSayThatItVanished) {
  EXPECT_EQ(Load(0, 8 * kMiB), 8 * kMiB);
  Miss(0, kMiB);
  EXPECT_EQ(View().vanished, 0u);
  now_ += kSecond;
  Miss(2 * kMiB, kMiB);
  EXPECT_EQ(View().vanished, kMiB);
}

TEST_F(GuardTest, AReaderSeenAtTwoNearPlacesHasReadWhatLiesBetween) {
  constexpr uint64_t kBegin = 256 * kMiB;
  constexpr uint64_t kBytes = 62 * kMiB;
  for (const bool is_near : {true, false}) {
    const uint64_t file = is_near ? 1 : 2;
    const uint64_t before = Unread();
    EXPECT_EQ(Load(kBegin, kBytes, file), kBytes);
    See(kBegin - 2 * kMiB, file);
    See(kBegin + kBytes + (is_near ? 0 : 2 * kMiB), file);
    EXPECT_EQ(Unread() - before, is_near ? 0 : kBytes);
  }
}

// A reader so close to the end may reach it without an event; a first look there says nothing.
TEST_F(GuardTest, AReaderThatComesWithin8MiBOfTheEndHasReadTheRest) {
  constexpr uint64_t kBegin = kModel - 8 * kMiB;
  const auto unread_after = [&](uint64_t file, std::vector<uint64_t> places) {
    const uint64_t before = Unread();
    EXPECT_EQ(Load(kBegin, 8 * kMiB, file), 8 * kMiB);
    for (const uint64_t place : places) See(place, file);
    return Unread() - before;
  };
  EXPECT_EQ(unread_after(1, {kBegin - 4 * kMiB, kBegin - 2 * kMiB}), 0u) << "step by step";
  EXPECT_EQ(unread_after(2, {kBegin - 32 * kMiB, kBegin - 2 * kMiB}), 0u) << "from afar";
  EXPECT_EQ(unread_after(3, {kBegin - 6 * kMiB, kBegin - 4 * kMiB}), 8 * kMiB);
  EXPECT_EQ(unread_after(4, {kBegin - 2 * kMiB}), 8 * kMiB);
}

TEST_F(GuardTest, AReaderFirstSeenWithin8MiBOfTheBeginningHasReadWhatLiesBefore) {
  EXPECT_EQ(Load(0, 8 * kMiB, 1), 8 * kMiB);
  See(8 * kMiB, 1);
  EXPECT_EQ(Unread(), 0u);
  EXPECT_EQ(Load(0, 8 * kMiB, 2), 8 * kMiB);
  See(10 * kMiB, 2);
  EXPECT_EQ(Unread(), 8 * kMiB);
}

// A policy that was right for long is judged by what it loads now.
TEST_F(GuardTest, OldHitsDoNotExcuseNewLoadsForEver) {
  EXPECT_EQ(Load(0, kModel, 1), kModel);
  Progress(0, kModel, 1);
  EXPECT_EQ(Load(0, 64 * kMiB, 2), 64 * kMiB);
  for (uint64_t file = 3; file < 8; ++file) {
    EXPECT_EQ(View().state, "open") << file;
    Read(0, kModel, file);
    Wait(kSecond / 5);
  }
  EXPECT_EQ(View().state, "small_window");
}

TEST_F(GuardTest, ATableFullOfFailuresIsEmptied) {
  constexpr uint64_t kStep = 2 * kMiB;
  constexpr uint64_t kMost = 4096;
  const auto tries = [&](uint64_t file) {
    int allowed = 0;
    for (int i = 0; i < 10; ++i)
      allowed += guard_.AllowLoad(kSlot, file, 0, kStep, 0, now_).is_allowed ? 1 : 0;
    return allowed;
  };
  const auto fail = [&](uint64_t file) {
    guard_.NoteLoaded(kSlot, {.file = file, .size = kStep, .failed = true}, now_);
  };
  fail(1);
  EXPECT_EQ(tries(1), Guard::kFailuresAMinute);
  for (uint64_t file = 2; file <= kMost; ++file) fail(file);
  EXPECT_EQ(tries(1), 0) << "it is full";
  fail(kMost + 1);
  EXPECT_EQ(tries(kMost + 1), Guard::kFailuresAMinute);
  EXPECT_EQ(tries(1), 10) << "its failure has been forgotten";
}

TEST_F(GuardTest, FewSamplesAreTakenAndManyOnceSomethingHasVanished) {
  EXPECT_EQ(Load(0, 512 * kMiB), 512 * kMiB);
  std::vector<Guard::Sample> found;
  guard_.TakeSamples(&found);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_TRUE(found[0].has_service);
  guard_.NoteSample(found[0], 0, now_);
  EXPECT_EQ(View().vanished, 2 * kMiB);
  EXPECT_TRUE(guard_.HasVanished());
  guard_.TakeSamples(&found);
  EXPECT_EQ(found.size(), 64u);
  for (const Guard::Sample& sample : found) guard_.NoteSample(sample, sample.length, now_);
  guard_.TakeSamples(&found);
  EXPECT_EQ(found.size(), 2u) << "all of them were still there";
}

// Files of such samples may be closed: no policy asks for them.
TEST_F(GuardTest, ASampleSaysWhetherTheLoadWasForAService) {
  guard_.NoteLoaded(0, {.file = 1, .size = 2 * kMiB, .bytes = 2 * kMiB}, now_);
  std::vector<Guard::Sample> found;
  guard_.TakeSamples(&found);
  ASSERT_FALSE(found.empty());
  EXPECT_FALSE(found[0].has_service);
}

TEST_F(GuardTest, ASampleOfWhatWasReadOrLoadedMeanwhileSaysNothing) {
  EXPECT_EQ(Load(0, 2 * kMiB), 2 * kMiB);
  EXPECT_EQ(Load(64 * kMiB, kMiB), kMiB);
  std::vector<Guard::Sample> found;
  guard_.TakeSamples(&found);
  ASSERT_EQ(found.size(), 2u);
  See(0);
  EXPECT_EQ(Load(65 * kMiB, kMiB), kMiB);
  for (const Guard::Sample& sample : found) guard_.NoteSample(sample, 0, now_);
  EXPECT_EQ(View().vanished, 0u);
  EXPECT_FALSE(guard_.HasVanished());
  EXPECT_EQ(Unread(), 2 * kMiB);
}

}  // namespace
}  // namespace ppc
