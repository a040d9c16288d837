// SPDX-License-Identifier: Apache-2.0
// What the guard bears before it limits a policy.
#include <utility>

#include "tests/unit/exec/guard_fixture.h"

namespace ppc {
namespace {

// Where each limit of the guard begins, and when it is lifted.

class GuardLimitsTest : public GuardTest {
 protected:
  // Drops pages that were read, loads and reads them again, a little at a time.
  void Churn(uint64_t bytes) {
    constexpr uint64_t kPart = 2 * kMiB;
    for (uint64_t at = 0; at < bytes; at += kPart) {
      EXPECT_EQ(Drop(at, kPart, /*unmap=*/false), kPart);
      EXPECT_EQ(Load(at, kPart), kPart);
      See(at);
    }
  }
  // Loads the beginning of the model; its reader reads `read` bytes of that.
  void LoadAndRead(uint64_t loaded, uint64_t read) {
    for (uint64_t at = 0; at < loaded; at += 2 * kMiB) EXPECT_EQ(Load(at, 2 * kMiB), 2 * kMiB);
    for (uint64_t at = 0; at < read; at += 2 * kMiB) See(at);
    if (read == 0) See(512 * kMiB);
  }
  void StartAgain() {
    guard_.Begin(kSlot, "svc", now_);
    guard_.SetRoom(kSlot, 8 * kGiB, 7 * kGiB);
  }
};

// No reader waits for pages that are loaded again in time, so much churn is borne before a limit.
TEST_F(GuardLimitsTest, ChurnIsLimitedAbove64MiBAndAQuarterOfTheModel) {
  for (const auto& [model, limit] :
       {std::pair{128 * kMiB, 64 * kMiB}, std::pair{512 * kMiB, 128 * kMiB}}) {
    StartAgain();
    Read(0, model);
    Churn(limit);
    EXPECT_EQ(View().state, "open") << model;
    Churn(2 * kMiB);
    EXPECT_EQ(View().state, "no_unmap") << model;
  }
}

// Pages that move to another node are dropped and loaded again for a while.
TEST_F(GuardLimitsTest, ChurnDoesNotCountWhileItsLimitIsFresh) {
  constexpr uint64_t kLimit = 64 * kMiB;
  Read(0, 128 * kMiB);
  Churn(kLimit + 2 * kMiB);
  ASSERT_EQ(View().state, "no_unmap");
  for (int i = 0; i < 4; ++i) Churn(kLimit);
  EXPECT_EQ(View().state, "no_unmap");
  Wait(5 * kSecond);
  Churn(kLimit);
  EXPECT_EQ(View().state, "no_unmap") << "what came before has been forgotten";
  Churn(2 * kMiB);
  EXPECT_EQ(View().state, "no_drops");
}

// Readers are seen now and then: some pages that look unread were read.
TEST_F(GuardLimitsTest, UnreadDropsCountAbove64MiBAndAQuarterOfTheLoads) {
  for (const auto& [loaded, borne] :
       {std::pair{128 * kMiB, 64 * kMiB}, std::pair{512 * kMiB, 128 * kMiB}}) {
    StartAgain();
    LoadAndRead(loaded, 0);
    EXPECT_EQ(Drop(0, borne, /*unmap=*/false), borne);
    Wait(kSecond);
    EXPECT_EQ(View().waste, borne);
    EXPECT_EQ(View().state, "open") << loaded;
    EXPECT_EQ(Drop(borne, Guard::kLeastLimit, /*unmap=*/false), Guard::kLeastLimit);
    Wait(kSecond);
    EXPECT_EQ(View().state, "open") << loaded;
    EXPECT_EQ(Drop(borne + Guard::kLeastLimit, 2 * kMiB, /*unmap=*/false), 2 * kMiB);
    Wait(kSecond);
    EXPECT_EQ(View().state, "small_window") << loaded;
  }
}

TEST_F(GuardLimitsTest, AnEndedLoadCountsIfMoreThanAQuarterOfItIsUnread) {
  for (const bool is_more : {false, true}) {
    StartAgain();
    LoadAndRead(128 * kMiB, (is_more ? 94 : 96) * kMiB);
    guard_.EndLoad(kSlot);
    Wait(kSecond);
    EXPECT_EQ(View().waste, (is_more ? 34 : 32) * kMiB);
    EXPECT_EQ(View().state, is_more ? "small_window" : "open");
  }
}

TEST_F(GuardLimitsTest, AStartThatLeavesAQuarterOrLoadsLittleHasNotWasted) {
  const auto start_twice = [&](const char* id, uint64_t loaded, uint64_t read) {
    for (int start = 0; start < 2; ++start) {
      guard_.Begin(kSlot, id, now_);
      LoadAndRead(loaded, read);
    }
    guard_.Begin(kSlot, id, now_);
    return guard_.PlanBytes(kSlot, 0);
  };
  EXPECT_GT(start_twice("a quarter", 64 * kMiB, 48 * kMiB), kGiB);
  EXPECT_EQ(start_twice("more", 64 * kMiB, 46 * kMiB), Guard::kSmallWindow);
  EXPECT_GT(start_twice("little", Guard::kLeastLimit - 2 * kMiB, 0), kGiB);
  EXPECT_EQ(start_twice("enough", Guard::kLeastLimit, 0), Guard::kSmallWindow);
}

// A rollout that is rolled back, say, in the midst of its imports.
TEST_F(GuardLimitsTest, AStartThatIsStoppedBeforeItReadsSaysNothingOfTheNext) {
  for (int start = 0; start < 3; ++start) {
    guard_.Begin(kSlot, "stopped", now_);
    EXPECT_GT(guard_.PlanBytes(kSlot, 0), kGiB);
    (void)Load(0, Guard::kSmallWindow);
  }
}

// A loader that reads with O_DIRECT, or none at all; but a start that did not come, or was guessed,
// could have none.
TEST_F(GuardLimitsTest, AStartWhoseReaderNeverCameHasWastedItsLoads) {
  const auto expect = [&](const char* id, bool is_waste, auto begin) {
    for (int start = 0; start < 2; ++start) {
      guard_.Begin(kSlot, id, now_);
      begin();
      (void)Load(0, Guard::kSmallWindow);
      guard_.EndLoad(kSlot);
      guard_.Tick(now_);
      EXPECT_EQ(guard_.WantsHits(), !is_waste) << id;
    }
    guard_.Begin(kSlot, id, now_);
    EXPECT_EQ(guard_.PlanBytes(kSlot, 0) == Guard::kSmallWindow, is_waste) << id;
  };
  expect("told", true, [] {});
  expect("awaited", false, [&] { guard_.Await(kSlot); });
  expect("guessed", false, [&] { guard_.BeginGuess(kSlot); });
}

TEST_F(GuardLimitsTest, OfFilesThatDoNotFitAUsedCreditDoublesWhenNothingReturns) {
  constexpr uint64_t kUsable = 500 * kMiB;
  guard_.SetRoom(kSlot, 512 * kMiB, kUsable);
  Read(0, kModel);
  const uint64_t excess = kModel - kUsable;
  EXPECT_EQ(Drop(0, kModel), excess + Guard::kUnmapCredit);
  Wait(59 * kSecond);
  EXPECT_EQ(View().credit, 0u);
  Wait(2 * kSecond);
  EXPECT_EQ(View().credit, excess + 2 * Guard::kUnmapCredit);
  Wait(2 * Guard::kRenewalNs);
  EXPECT_EQ(View().credit, excess + 2 * Guard::kUnmapCredit) << "nothing of it was used";
}

// Loads come step by step, and none says how large its file is.
TEST_F(GuardLimitsTest, AFileIsAsLargeAsItsLoadsHaveShown) {
  constexpr uint64_t kUsable = 192 * kMiB;
  guard_.SetRoom(kSlot, 256 * kMiB, kUsable);
  for (uint64_t at = 0; at < kModel; at += 2 * kMiB)
    guard_.NoteLoaded(kSlot, {.file = 1, .offset = at, .size = 2 * kMiB, .bytes = 2 * kMiB}, now_);
  EXPECT_EQ(View().credit, kModel - kUsable + Guard::kUnmapCredit);
}

TEST_F(GuardLimitsTest, DropsThatReturnResetTheCreditAndDelayItsRenewal) {
  guard_.SetRoom(kSlot, 512 * kMiB, 500 * kMiB);
  Read(0, kModel);
  const uint64_t all = View().credit;
  EXPECT_EQ(Drop(0, kModel), all);
  Wait(Guard::kRenewalNs + kSecond);
  EXPECT_EQ(View().credit, all + Guard::kUnmapCredit);
  EXPECT_EQ(Drop(0, all), all);
  Read(0, all * 3 / 4);
  Wait(kSecond);
  EXPECT_EQ(View().credit, 0u) << "it is as small as at first";
  Wait(Guard::kRenewalNs + 5 * kSecond);
  EXPECT_EQ(View().credit, 0u) << "it is renewed later than without them";
  Wait(Guard::kRenewalNs);
  EXPECT_EQ(View().credit, all) << "it has not doubled";
}

// Readers that the loads run close ahead of, and readers that pass over more than there is memory.

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
    guard_.Begin(kSlot, "svc", now_);
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

// The kernel makes room for them from what is read.
TEST_F(GuardTest, LoadsThatAreWaitedForGoAsFarAsTheyAreRead) {
  const auto waited = [this](uint64_t offset, uint64_t bytes) {
    const Guard::Verdict verdict =
        guard_.AllowLoad(kSlot, 1, offset, bytes, 0, now_, /*is_waited=*/true);
    return verdict.is_allowed ? verdict.bytes : 0;
  };
  EXPECT_EQ(waited(0, 256 * kMiB), Guard::kSmallWindow);
  EXPECT_EQ(Load(0, 64 * kMiB), 64 * kMiB);
  EXPECT_EQ(waited(64 * kMiB, 64 * kMiB), 0u);
  EXPECT_EQ(guard_.AllowLoad(kSlot, 1, 64 * kMiB, 64 * kMiB, 0, now_).bytes, 64 * kMiB);
  Progress(0, 64 * kMiB);
  EXPECT_GE(waited(64 * kMiB, 512 * kMiB), 256 * kMiB);
  guard_.SetHitsSeen(false);
  EXPECT_EQ(waited(64 * kMiB, 512 * kMiB), 512 * kMiB) << "what is read is not known";
}

// A neighbour drops the page cache each second, until it stops.
TEST_F(GuardTest, WhereLoadsVanishedTheNextStartBeginsWithFewUntilTheySurvive) {
  std::vector<bool> told;
  guard_.ExpectVanishing(false, [&told](bool on) { told.push_back(on); });
  const auto start = [this] {
    guard_.Begin(kSlot, "svc", now_);
    guard_.SetRoom(kSlot, 8 * kGiB, 7 * kGiB);
    return Load(0, 256 * kMiB);
  };
  EXPECT_EQ(start(), 256 * kMiB);
  Lose();
  EXPECT_EQ(start(), Guard::kNearWindow);
  Lose();
  Wait(2 * Guard::kSurvivalNs);
  EXPECT_LE(guard_.PlanBytes(kSlot, 0), Guard::kNearWindow);
  EXPECT_EQ(told, std::vector{true});

  EXPECT_EQ(start(), Guard::kNearWindow);
  Wait(Guard::kSurvivalNs / 2);
  EXPECT_EQ(guard_.PlanBytes(kSlot, 0), 0u);
  Wait(Guard::kSurvivalNs);
  EXPECT_EQ(guard_.PlanBytes(kSlot, 0), Guard::kSmallWindow - Guard::kNearWindow);
  Progress(0, Guard::kNearWindow);
  guard_.EndLoad(kSlot);
  EXPECT_EQ(told, (std::vector{true, false}));
  EXPECT_EQ(start(), 256 * kMiB);
}

// The kernel's reclaim takes them, from more than there is room for.
TEST_F(GuardTest, LoadsThatVanishForWantOfMemorySayNothingOfTheNextStart) {
  guard_.SetRoom(kSlot, kModel / 2, kModel / 2);
  See(kModel / 2);
  EXPECT_EQ(Load(0, 256 * kMiB), 256 * kMiB);
  Lose();
  EXPECT_EQ(View().state, "small_window");
  guard_.Begin(kSlot, "svc", now_);
  guard_.SetRoom(kSlot, 8 * kGiB, 7 * kGiB);
  EXPECT_GT(guard_.PlanBytes(kSlot, 0), kGiB);
}

}  // namespace
}  // namespace ppc
