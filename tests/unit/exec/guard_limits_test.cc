// SPDX-License-Identifier: Apache-2.0
// Where each limit of the guard begins, and when it is lifted.
#include <utility>

#include "tests/unit/exec/guard_fixture.h"

namespace ppc {
namespace {

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
    guard_.Begin(kSlot, "svc");
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
      guard_.Begin(kSlot, id);
      LoadAndRead(loaded, read);
    }
    guard_.Begin(kSlot, id);
    return guard_.PlanBytes(kSlot, 0);
  };
  EXPECT_GT(start_twice("a quarter", 64 * kMiB, 48 * kMiB), kGiB);
  EXPECT_EQ(start_twice("more", 64 * kMiB, 46 * kMiB), Guard::kSmallWindow);
  EXPECT_GT(start_twice("little", Guard::kLeastLimit - 2 * kMiB, 0), kGiB);
  EXPECT_EQ(start_twice("enough", Guard::kLeastLimit, 0), Guard::kSmallWindow);
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

}  // namespace
}  // namespace ppc
