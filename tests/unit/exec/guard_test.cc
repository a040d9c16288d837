// SPDX-License-Identifier: Apache-2.0
// Each rule of the guard and how it is lifted, by a made-up clock.
#include <cerrno>
#include <vector>

#include "tests/unit/exec/guard_fixture.h"

namespace ppc {
namespace {

// What was submitted counts, whatever became of it.
TEST_F(GuardTest, AGuessHasSoMuchAndNoMore) {
  guard_.BeginGuess(kSlot);
  EXPECT_EQ(guard_.PlanBytes(kSlot, 0), Guard::kGuessBytes);
  EXPECT_EQ(guard_.AllowLoad(kSlot, 1, 0, 16 * kMiB, 0, now_).bytes, 16 * kMiB);
  EXPECT_EQ(Load(16 * kMiB, 64 * kMiB), 48 * kMiB);
  EXPECT_EQ(guard_.PlanBytes(kSlot, 0), 0u);
  EXPECT_EQ(Load(64 * kMiB, 8 * kMiB), 0u);
  EXPECT_EQ(guard_.GuessedBytes(kSlot), Guard::kGuessBytes);
  guard_.EndGuess(kSlot);
  EXPECT_EQ(Load(64 * kMiB, 128 * kMiB), 128 * kMiB);
  guard_.BeginGuess(kSlot);
  guard_.Begin(kSlot, "svc", now_);
  EXPECT_GT(guard_.PlanBytes(kSlot, 0), Guard::kGuessBytes);
}

TEST_F(GuardTest, WhatIsReadAgainIsReadOnce) {
  for (int i = 0; i < 100; ++i) Miss(0, 4096);
  EXPECT_EQ(guard_.ReadBytes(kSlot), 4096u);
  Read(0, 64 * kMiB);
  EXPECT_GE(guard_.ReadBytes(kSlot), 62 * kMiB);
  EXPECT_LE(guard_.ReadBytes(kSlot), 66 * kMiB);
  // Cached, too.
  Progress(64 * kMiB, 64 * kMiB);
  EXPECT_GE(guard_.ReadBytes(kSlot), 120 * kMiB);
}

TEST_F(GuardTest, WhatIsDroppedAndMissedAgainIsRegret) {
  Read(0, 100 * kMiB);
  EXPECT_EQ(Drop(0, 8 * kMiB), 8 * kMiB);
  Read(0, 8 * kMiB);
  EXPECT_EQ(View().regret, 8 * kMiB);
  EXPECT_EQ(View().state, "open");
}

TEST_F(GuardTest, WhatTheKernelWouldHaveEvictedIsNone) {
  guard_.SetRoom(kSlot, 64 * kMiB, 60 * kMiB);
  Read(0, 100 * kMiB);
  EXPECT_EQ(Drop(0, 8 * kMiB), 8 * kMiB);
  Read(0, 8 * kMiB);
  EXPECT_EQ(View().regret, 0u);
}

// In a pass over more than memory the reader passes what stayed: that would have been inserted,
// too.
TEST_F(GuardTest, WhatAReaderPassesCountsAsInserted) {
  guard_.SetRoom(kSlot, 512 * kMiB, 500 * kMiB);
  Read(0, kModel);
  EXPECT_EQ(Drop(0, 8 * kMiB), 8 * kMiB);
  Progress(8 * kMiB, kModel - 8 * kMiB);
  Read(0, 8 * kMiB);
  EXPECT_EQ(View().regret, 0u);
}

TEST_F(GuardTest, OwnReloadsAreChurn) {
  Read(0, 100 * kMiB);
  EXPECT_EQ(Drop(0, 8 * kMiB), 8 * kMiB);
  EXPECT_EQ(Load(0, 8 * kMiB), 8 * kMiB);
  Progress(0, 8 * kMiB);
  EXPECT_EQ(View().churn, 8 * kMiB);
  EXPECT_EQ(View().regret, 0u);
}

TEST_F(GuardTest, RegretEndsDropsOfMappedPagesThenAllAndATimeBringsThemBack) {
  Read(0, kModel);
  EXPECT_EQ(Drop(0, 32 * kMiB), 32 * kMiB);
  Read(0, 32 * kMiB);
  EXPECT_EQ(View().state, "no_unmap");
  EXPECT_NE(View().reason, "");
  EXPECT_EQ(Drop(0, 2 * kMiB), 0u);
  Wait(5 * kSecond);
  EXPECT_EQ(Drop(0, 32 * kMiB, /*unmap=*/false), 32 * kMiB);
  Read(0, 32 * kMiB);
  EXPECT_EQ(View().state, "no_drops");
  EXPECT_FALSE(guard_.AllowDrop(kSlot, 0, kMiB, false).is_allowed);
  Wait(10 * Guard::kBackOffNs);
  EXPECT_EQ(View().state, "open");
  EXPECT_EQ(View().reason, "");
  EXPECT_EQ(Drop(0, 32 * kMiB), 32 * kMiB);
}

// What was dropped before the limit comes back for a while and is forgiven; what is dropped under
// it is not.
TEST_F(GuardTest, DropsUnderALimitCountAtOnce) {
  Read(0, kModel);
  EXPECT_EQ(Drop(0, 64 * kMiB), 64 * kMiB);
  Read(0, 64 * kMiB);
  EXPECT_EQ(View().state, "no_unmap") << "dropped before it";
  EXPECT_EQ(Drop(0, 32 * kMiB, /*unmap=*/false), 32 * kMiB);
  Read(0, 32 * kMiB);
  EXPECT_EQ(View().state, "no_drops") << "within the same second";
}

TEST_F(GuardTest, EachBackOffIsLonger) {
  Read(0, kModel);
  uint64_t before = 0;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Drop(0, 32 * kMiB), 32 * kMiB) << i;
    Read(0, 32 * kMiB);
    ASSERT_EQ(View().state, "no_unmap");
    const uint64_t start = now_;
    while (View().state != "open") Wait(kSecond);
    EXPECT_GT(now_ - start, before);
    before = now_ - start;
    Wait(2 * kSecond);
  }
}

TEST_F(GuardTest, DropsOfMappedPagesHaveACredit) {
  Read(0, kModel);
  EXPECT_EQ(Drop(0, 512 * kMiB), Guard::kUnmapCredit);
  EXPECT_EQ(Drop(64 * kMiB, 2 * kMiB), 0u);
  EXPECT_EQ(View().credit, 0u);
  EXPECT_EQ(Drop(64 * kMiB, 2 * kMiB, /*unmap=*/false), 2 * kMiB);
}

// The kernel alone evicts them, too.
// The kernel alone evicts as much.
TEST_F(GuardTest, FilesThatDoNotFitMayLoseWhatDoesNotFit) {
  guard_.SetRoom(kSlot, 768 * kMiB, 512 * kMiB);
  Read(0, kModel);
  EXPECT_EQ(Drop(0, kModel), kModel - 512 * kMiB + Guard::kUnmapCredit);
  Wait(10 * kSecond);  // a load that nobody has come back to may be computed from next
  EXPECT_EQ(Drop(kModel / 2 + 64 * kMiB, 64 * kMiB), 0u);
}

TEST_F(GuardTest, TheCreditIsRenewedWhenLittleReturns) {
  Read(0, kModel);
  EXPECT_EQ(Drop(0, 512 * kMiB), Guard::kUnmapCredit);
  EXPECT_EQ(Drop(64 * kMiB, 512 * kMiB), 0u);
  Wait(70 * kSecond);
  EXPECT_EQ(Drop(64 * kMiB, 512 * kMiB), Guard::kUnmapCredit);
}

TEST_F(GuardTest, OfFilesThatDoNotFitTheCreditCountsOnceDropsReturn) {
  guard_.SetRoom(kSlot, 512 * kMiB, 500 * kMiB);
  Read(0, kModel);
  EXPECT_EQ(Drop(0, 600 * kMiB), kModel - 500 * kMiB + Guard::kUnmapCredit);
  Read(0, 500 * kMiB);
  Wait(kSecond);
  EXPECT_EQ(View().regret, 0u);
  EXPECT_EQ(View().state, "no_unmap");
  EXPECT_EQ(Drop(600 * kMiB, 256 * kMiB), 0u);
  Wait(130 * kSecond);
  EXPECT_EQ(View().state, "open");
  EXPECT_GT(Drop(600 * kMiB, 256 * kMiB), 0u);
}

TEST_F(GuardTest, AWholeModelIsLoadedBeforeItsReaderBegins) {
  for (uint64_t at = 0; at < kModel; at += 8 * kMiB) ASSERT_EQ(Load(at, 8 * kMiB), 8 * kMiB);
  Wait(30 * kSecond);
  EXPECT_EQ(View().state, "open");
  Progress(0, kModel);
  guard_.EndLoad(kSlot);
  EXPECT_EQ(View().waste, 0u);
  EXPECT_EQ(View().refused_loads, 0u);
}

TEST_F(GuardTest, LoadsThatReadersDoNotReadShrinkTheWindow) {
  for (uint64_t at = 0; at < 512 * kMiB; at += 8 * kMiB) ASSERT_EQ(Load(at, 8 * kMiB, 2), 8 * kMiB);
  Read(0, 128 * kMiB);
  Wait(kSecond);
  EXPECT_EQ(View().state, "small_window");
  EXPECT_EQ(Load(512 * kMiB, 8 * kMiB, 2), 0u);
  EXPECT_EQ(View().refused_loads, 8 * kMiB);
  EXPECT_EQ(guard_.PlanBytes(kSlot, 0), 0u);
}

TEST_F(GuardTest, WhatVanishesShrinksTheWindowThenEndsLoading) {
  for (uint64_t at = 0; at < 64 * kMiB; at += 8 * kMiB) ASSERT_EQ(Load(at, 8 * kMiB), 8 * kMiB);
  Lose();
  EXPECT_EQ(View().state, "small_window");
  Wait(5 * kSecond);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Load(0, 16 * kMiB), Guard::kNearWindow);
    Lose();
    Read(0, Guard::kVanishShare * (Guard::kNearWindow + kMiB), /*file=*/2);
  }
  EXPECT_EQ(View().state, "no_loads");
  EXPECT_EQ(Load(0, 8 * kMiB), 0u);
  EXPECT_GE(View().vanished, 32 * kMiB);
  Wait(10 * Guard::kBackOffNs);
  EXPECT_EQ(View().state, "open");
  EXPECT_EQ(Load(0, 8 * kMiB), 8 * kMiB);
}

// A neighbour that drops the page cache again and again takes little of what readers read.
TEST_F(GuardTest, WhatVanishesIsPaidForByReading) {
  for (uint64_t at = 0; at < 256 * kMiB; at += 8 * kMiB) ASSERT_EQ(Load(at, 8 * kMiB), 8 * kMiB);
  Lose();
  EXPECT_EQ(guard_.PlanBytes(kSlot, 0), Guard::kNearWindow) << "the first mistake is forgiven";
  now_ += kSecond;
  (void)Load(0, 8 * kMiB);
  Lose();
  EXPECT_EQ(guard_.PlanBytes(kSlot, 0), 0u);
  Read(0, Guard::kVanishShare * Guard::kNearWindow / 2, /*file=*/2);
  EXPECT_LE(guard_.PlanBytes(kSlot, 0), Guard::kNearWindow / 2);
  EXPECT_GT(guard_.PlanBytes(kSlot, 0), Guard::kNearWindow / 2 - kMiB);
}

TEST_F(GuardTest, AMissInWhatWasLoadedSaysThatItVanished) {
  EXPECT_EQ(Load(0, 8 * kMiB), 8 * kMiB);
  now_ += kSecond;
  Miss(0, kMiB);
  EXPECT_EQ(View().vanished, kMiB);
}

TEST_F(GuardTest, TwoStartsThatWastedMakeASmallWindowAtTheNext) {
  for (int start = 0; start < 3; ++start) {
    EXPECT_EQ(guard_.PlanBytes(kSlot, 0) <= Guard::kSmallWindow, start == 2) << start;
    for (uint64_t at = 0; at < 64 * kMiB; at += 8 * kMiB) (void)Load(at, 8 * kMiB);
    Progress(512 * kMiB, 8 * kMiB);
    guard_.Begin(kSlot, "svc", now_);
    guard_.SetRoom(kSlot, 8 * kGiB, 7 * kGiB);
  }
}

TEST_F(GuardTest, AStartThatReadsWhatWasLoadedMakesUpForThem) {
  for (int start = 0; start < 4; ++start) {
    for (uint64_t at = 0; at < 64 * kMiB; at += 8 * kMiB) (void)Load(at, 8 * kMiB);
    Progress(start < 2 ? 512 * kMiB : 0, 64 * kMiB);
    guard_.Begin(kSlot, "svc", now_);
    guard_.SetRoom(kSlot, 8 * kGiB, 7 * kGiB);
  }
  EXPECT_GT(guard_.PlanBytes(kSlot, 0), kGiB);
}

// Before a limit comes to light, and while it is fresh, a policy that drops its own loads could
// load again and again.
TEST_F(GuardTest, WhatIsLoadedAndDroppedUnreadStaysInTheWindow) {
  constexpr uint64_t kRoom = 256 * kMiB;
  guard_.SetRoom(kSlot, kRoom, kRoom);
  Read(0, 64 * kMiB, /*file=*/2);
  uint64_t loaded = 0;
  const auto harm = [&] {
    for (int i = 0; i < 50; ++i) {
      loaded += Load(0, 32 * kMiB);
      (void)Drop(0, 32 * kMiB, /*unmap=*/false);
      Wait(kSecond / 5);
    }
  };
  harm();
  EXPECT_NE(View().state, "open");
  EXPECT_LE(loaded, kRoom);
  const uint64_t before = loaded;
  harm();
  EXPECT_EQ(loaded, before);
}

TEST_F(GuardTest, LoadsThatAreReadMakeUpForWaste) {
  guard_.SetRoom(kSlot, 512 * kMiB, 512 * kMiB);
  const uint64_t all = guard_.PlanBytes(kSlot, 0);
  Read(0, 16 * kMiB, /*file=*/2);
  EXPECT_EQ(Load(0, 16 * kMiB), 16 * kMiB);
  (void)Drop(0, 16 * kMiB, /*unmap=*/false);
  EXPECT_EQ(guard_.PlanBytes(kSlot, 0), all - 16 * kMiB);
  EXPECT_EQ(Load(16 * kMiB, 16 * kMiB), 16 * kMiB);
  Progress(16 * kMiB, 20 * kMiB);
  EXPECT_EQ(guard_.PlanBytes(kSlot, 0), all);
}

TEST_F(GuardTest, ARangeThatFailsIsTriedTwiceAMinute) {
  guard_.NoteLoaded(kSlot, {.file = 1, .offset = 0, .size = 2 * kMiB, .failed = true}, now_);
  int tries = 0;
  const auto try_often = [&] {
    for (int i = 0; i < 10; ++i)
      tries += guard_.AllowLoad(kSlot, 1, 0, 2 * kMiB, 0, now_).is_allowed ? 1 : 0;
  };
  try_often();
  EXPECT_EQ(tries, Guard::kFailuresAMinute);
  EXPECT_EQ(View().failing, 8 * 2 * kMiB);
  // The range beside it is not concerned.
  const Guard::Verdict beside = guard_.AllowLoad(kSlot, 1, 2 * kMiB, 8 * kMiB, 0, now_);
  EXPECT_TRUE(beside.is_allowed);
  EXPECT_EQ(beside.bytes, 8 * kMiB);
  now_ += 61 * kSecond;
  try_often();
  EXPECT_EQ(tries, 2 * Guard::kFailuresAMinute);
}

TEST_F(GuardTest, WhichFileCannotBeReadIsTold) {
  const auto fail = [&](uint64_t file, int error) {
    guard_.NoteLoaded(kSlot, {.file = file, .size = kMiB, .failed = true, .error = error}, now_);
    return View().state;
  };
  EXPECT_EQ(fail(1, EOPNOTSUPP), "open");
  EXPECT_EQ(fail(2, 0), "open") << "pages that were reclaimed at once, perhaps";
  EXPECT_EQ(fail(2, 0), "read_errors");
  EXPECT_EQ(View().failed_file, 2u);
  guard_.Begin(kSlot, "next", now_);
  EXPECT_EQ(View().state, "open");
  EXPECT_EQ(fail(3, EIO), "read_errors");
  EXPECT_EQ(View().failed_error, EIO);
}

TEST_F(GuardTest, TheRecordIsBoundedAndItsUnitDoubles) {
  const uint64_t huge = uint64_t{4} << 40;
  guard_.NoteAccess(
      kSlot,
      {.file = 7, .file_bytes = huge, .offset = huge - kMiB, .length = kMiB, .is_miss = true},
      now_);
  EXPECT_LE(guard_.Cells(), Guard::kMaxCells);
  EXPECT_GT(guard_.CellBytes(), 2 * kMiB);
  for (uint64_t file = 10; file < 40000; ++file)
    guard_.NoteAccess(kSlot, {.file = file, .file_bytes = 4096, .length = 4096, .is_miss = true},
                      now_);
  EXPECT_LE(guard_.Cells(), Guard::kMaxCells);
}

// 16 bits count the pages of a cell: too few would say that loads vanish.
TEST_F(GuardTest, ASparseFileOfAnySizeChangesNothingForOthers) {
  for (uint64_t file = 10; file < 100; ++file) {
    for (const uint64_t offset : {uint64_t{0}, uint64_t{1} << 62}) {
      const Guard::ReaderAccess access{.file = file,
                                       .file_bytes = uint64_t{1} << 63,
                                       .offset = offset,
                                       .length = kMiB,
                                       .is_miss = file % 2 == 0};
      guard_.NoteAccess(kSlot, access, now_);
    }
  }
  EXPECT_LE(guard_.Cells(), Guard::kMaxCells);
  EXPECT_LE(guard_.CellBytes(), 256 * kMiB);
  EXPECT_EQ(Load(0, 512 * kMiB, 2), 512 * kMiB);
  now_ += kSecond;
  Miss(768 * kMiB, kMiB, 2);
  EXPECT_EQ(View().vanished, 0u);
}

TEST_F(GuardTest, WhatAServiceHasReadIsForgottenAtItsEnd) {
  constexpr Guard::Slot kOther = 2;
  guard_.Begin(kOther, "other", now_);
  guard_.NoteAccess(kOther, {.file = 1, .file_bytes = kModel, .length = kMiB, .is_miss = true},
                    now_);
  for (uint64_t file = 10; file < 1000; ++file)
    guard_.NoteAccess(kSlot, {.file = file, .file_bytes = kModel, .length = kMiB, .is_miss = true},
                      now_);
  const uint64_t unit = guard_.CellBytes();
  EXPECT_GT(unit, 2 * kMiB);
  guard_.End(kSlot);
  EXPECT_EQ(guard_.Cells(), kModel / unit) << "the other's";
  guard_.End(kOther);
  EXPECT_EQ(guard_.Cells(), 0u);
  EXPECT_EQ(guard_.CellBytes(), 2 * kMiB);
}

// What of two services lies in one cell then is one's.
TEST_F(GuardTest, WhereTheUnitDoublesNothingLiesUnreadOfNobody) {
  constexpr Guard::Slot kOther = 2;
  guard_.Begin(kOther, "other", now_);
  guard_.SetRoom(kOther, kGiB, kGiB);
  const auto load = [&](Guard::Slot slot, uint64_t offset, uint64_t bytes) {
    guard_.NoteLoaded(slot, {.file = 1, .offset = offset, .size = bytes, .bytes = bytes}, now_);
  };
  load(kSlot, 0, 2 * kMiB);
  load(kOther, 2 * kMiB, kMiB);
  load(kOther, 64 * kMiB, 2 * kMiB);
  for (uint64_t file = 10; file < 1000; ++file) Miss(0, kMiB, file);
  ASSERT_EQ(guard_.CellBytes(), 8 * kMiB);
  EXPECT_EQ(guard_.PlanBytes(kOther, 0), kGiB - 2 * kMiB);
  EXPECT_EQ(Unread(), 2 * kMiB);
}

TEST_F(GuardTest, AServiceThatEndsLeavesNothingToTheNext) {
  Read(0, kModel);
  (void)Drop(0, 32 * kMiB);
  Read(0, 32 * kMiB);
  guard_.End(kSlot);
  EXPECT_EQ(View().state, "open");
  EXPECT_EQ(View().regret, 0u);
}

}  // namespace
}  // namespace ppc
