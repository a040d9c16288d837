// SPDX-License-Identifier: Apache-2.0
// Events to positions.
#include "policies/maio/follow/matcher.h"

#include <gtest/gtest.h>

#include "tests/unit/policies/template_samples.h"
#include "tests/unit/units.h"

namespace ppc::maio {
namespace {

class MatcherTest : public ::testing::Test {
 protected:
  // One worker, files read one after the other.
  MatcherTest() {
    Template t;
    t.service_id = "abcd";
    TemplateGroup g;
    for (uint32_t f = 0; f < 4; f++) {
      t.files.push_back({"f" + std::to_string(f), 100 << 20, 0, FileKind::kSafetensors, {}});
      g.extents.push_back({f, 0, 100 * kMiBPages});
    }
    TemplateGroup other;
    other.id = 1;
    t.files.push_back({"other", 100 << 20, 0, FileKind::kSafetensors, {}});
    other.extents.push_back({4, 0, 100 * kMiBPages});
    t.groups = {g, other};
    std::vector<uint64_t> numbers = {1, 2, 3, 4, 5};
    layout_ = std::make_unique<Layout>(t, numbers);
    table_ = std::make_unique<PieceTable>(layout_.get());
    matcher_ = std::make_unique<Matcher>(table_.get(), 1 << 20, 1 << 20);
  }
  MatchResult See(uint32_t file, uint64_t mib, bool miss = false, bool user = true) {
    Observation o;
    o.file = file;
    o.first_page = mib * kMiBPages;
    o.end_page = o.first_page + 1;
    o.miss = miss;
    o.user = user;
    o.now_ns = now_ += 1'000'000;
    return matcher_->Observe(o);
  }
  uint64_t pos_mib() { return matcher_->cursors()[0].pos >> 20; }
  uint64_t consumed_mib() { return matcher_->cursors()[0].consumed >> 20; }

  std::unique_ptr<Layout> layout_;
  std::unique_ptr<PieceTable> table_;
  std::unique_ptr<Matcher> matcher_;
  uint64_t now_ = 0;
};

TEST_F(MatcherTest, FollowsASequentialReader) {
  for (uint64_t i = 0; i < 100; i += 4) EXPECT_FALSE(See(0, i).moved);
  EXPECT_EQ(pos_mib(), 96u);
  EXPECT_EQ(consumed_mib(), 96u);
  EXPECT_FALSE(See(1, 0).moved);
  EXPECT_EQ(pos_mib(), 100u);
}

TEST_F(MatcherTest, LeavingAFileFinishesItsTail) {
  for (uint64_t i = 0; i < 100; i++) See(0, i);
  for (uint64_t i = 0; i < 20; i++) See(1, i);
  EXPECT_EQ(consumed_mib(), 119u);  // all of the first file, the last piece is being read
}

// Every other half MiB of a file, so that the second worker's slices hold no beacon.
TEST(MatcherBeacons, AClosedFileIsReadUpToTheNextPieceThatWouldHaveTold) {
  constexpr uint64_t kHalf = kMiBPages / 2;
  std::vector<Extent> extents;
  for (uint64_t mib = 0; mib < 100; mib++)
    extents.push_back({0, mib * kMiBPages + (mib < 50 ? kHalf : 0), kHalf});
  Layout layout(OneReader(101 << 20, extents), std::vector<uint64_t>{1});
  PieceTable table(&layout);
  Matcher matcher(&table, 1 << 20, 1 << 20);
  Observation o;
  o.first_page = kHalf;
  o.end_page = o.first_page + 1;
  o.miss = true;  // the only thing it tells
  matcher.Observe(o);
  EXPECT_EQ(matcher.cursors()[0].consumed, 0u);
  matcher.Close(0, 0, 7);  // another open file
  EXPECT_EQ(matcher.cursors()[0].consumed, 0u);
  matcher.Close(0, 0, 0);
  EXPECT_EQ(matcher.cursors()[0].consumed, 50u * kHalf * kPage);
}

TEST_F(MatcherTest, ADistantEventIsNotBelievedAtOnce) {
  See(0, 0);
  See(0, 1);
  EXPECT_FALSE(See(0, 80).moved);
  EXPECT_EQ(pos_mib(), 1u);
  EXPECT_FALSE(See(0, 2).moved);
  EXPECT_EQ(pos_mib(), 2u);
}

TEST_F(MatcherTest, ThreeDistantEventsAreAJumpAndTheGapIsNotRead) {
  for (uint64_t i = 0; i < 4; i++) See(0, i);
  See(0, 80);
  See(0, 81);
  EXPECT_TRUE(See(0, 82).moved);
  EXPECT_EQ(consumed_mib(), 3u);
  See(0, 84);
  EXPECT_EQ(consumed_mib(), 5u);
}

TEST_F(MatcherTest, FilesInAnotherOrder) {
  for (uint32_t f : {2u, 0u, 3u, 1u}) {
    for (uint64_t i = 0; i < 100; i += 2) See(f, i);
  }
  matcher_->Rest(0);
  EXPECT_GE(consumed_mib(), 396u);
}

TEST_F(MatcherTest, FilesSideBySide) {
  for (uint64_t i = 0; i < 100; i++) {
    for (uint32_t f = 0; f < 4; f++) See(f, i);
  }
  matcher_->Rest(0);
  EXPECT_EQ(consumed_mib(), 400u);
}

// Threads: each stream is a jump once, however often they take the lead from each other.
TEST_F(MatcherTest, TakingTheLeadAgainIsNoJump) {
  int moved = 0;
  for (uint64_t i = 0; i < 100; i += 4) {
    for (uint32_t f = 0; f < 4; f++) {
      for (uint64_t k = 0; k < 4; k++) moved += See(f, i + k).moved;
    }
  }
  EXPECT_LE(moved, 3);
  EXPECT_EQ(matcher_->jumps(), static_cast<uint64_t>(moved));
}

TEST_F(MatcherTest, PopulateMovesFrontOnly) {
  for (uint64_t i = 0; i < 100; i++) See(0, i, true, false);
  EXPECT_EQ(consumed_mib(), 0u);
  EXPECT_EQ(matcher_->cursors()[0].streams[0].front, 99u);
  matcher_->Rest(0);
  EXPECT_EQ(consumed_mib(), 0u);
  See(0, 10);
  EXPECT_EQ(consumed_mib(), 0u);
}

TEST_F(MatcherTest, AgainFromTheStartByMisses) {
  for (uint64_t i = 0; i < 100; i++) See(0, i);
  See(0, 0, true);
  See(0, 1, true);
  EXPECT_TRUE(See(0, 2, true).moved);
  EXPECT_EQ(matcher_->cursors()[0].streams[0].front, 2u);
}

TEST_F(MatcherTest, MissesInOnePieceAreNoSecondPass) {
  for (uint64_t i = 0; i < 100; i++) See(0, i);
  for (int i = 0; i < 8; i++) EXPECT_FALSE(See(0, 10, true).moved);
  EXPECT_EQ(matcher_->cursors()[0].streams[0].front, 99u);
}

TEST_F(MatcherTest, WhatWasPassedIsKeptInRunsThatARewindCuts) {
  auto& passed_runs = matcher_->cursors()[0].passed_runs;
  for (uint64_t i = 0; i <= 60; i++) See(0, i);
  for (uint64_t i = 0; i <= 10; i++) See(1, i);
  ASSERT_EQ(passed_runs.size(), 2u);
  EXPECT_EQ(passed_runs[0].stamp, 1u << 20);
  EXPECT_EQ(passed_runs[0].count, 60u);
  EXPECT_EQ(passed_runs[1].stamp, 61u << 20);
  EXPECT_EQ(passed_runs[1].count, 10u);
  for (uint64_t i : {20, 21, 22}) See(0, i, true);
  ASSERT_EQ(passed_runs.size(), 2u);
  EXPECT_EQ(passed_runs[0].count, 22u);
  // What is read again is as old as its second reading.
  const uint64_t consumed = matcher_->cursors()[0].consumed;
  See(0, 24);
  ASSERT_EQ(passed_runs.size(), 3u);
  EXPECT_EQ(passed_runs[2].index, 22u);
  EXPECT_EQ(passed_runs[2].count, 2u);
  EXPECT_EQ(passed_runs[2].stamp, consumed + (1 << 20));
}

// Two workers' slices in one joined piece: each is at home in its own.
TEST(MatcherJoined, AnothersPartOfAPieceIsForeign) {
  Template t = OneFile(100 << 20, std::vector<std::vector<Extent>>(2));
  for (uint64_t i = 0; i < 200; i++) t.groups[i % 2].extents.push_back({0, i * 128, 128});
  std::vector<uint64_t> numbers = {1};
  Layout layout(t, numbers, 0);
  PieceTable table(&layout);
  Matcher matcher(&table, 1 << 20, 1 << 20);
  Observation o;
  o.first_page = 10;
  o.end_page = 11;
  EXPECT_TRUE(matcher.Observe(o).known);
  o.first_page = 200;
  o.end_page = 201;
  MatchResult result = matcher.Observe(o);
  EXPECT_FALSE(result.known);
  EXPECT_EQ(result.foreign, 1);
  o.group = 1;
  EXPECT_TRUE(matcher.Observe(o).known);
}

TEST_F(MatcherTest, ForeignAndUnknown) {
  EXPECT_EQ(See(4, 0).foreign, 1);
  for (int i = 0; i < 10; i++) EXPECT_FALSE(See(0, 100).known);  // beyond what is listed
  EXPECT_EQ(matcher_->cursors()[0].state, SyncState::kDrift);
  for (int i = 0; i < 30; i++) See(0, 100);
  EXPECT_EQ(matcher_->cursors()[0].state, SyncState::kLost);
  for (uint64_t i = 0; i < 64; i++) See(0, i);
  EXPECT_EQ(matcher_->cursors()[0].state, SyncState::kSync);
}

TEST_F(MatcherTest, RestartAndDrop) {
  for (uint64_t i = 0; i < 100; i++) See(0, i);
  matcher_->Restart(0);
  EXPECT_EQ(pos_mib(), 0u);
  EXPECT_EQ(consumed_mib(), 0u);
  matcher_->Drop(0);
  for (const Piece& piece : layout_->pieces()) {
    if (piece.file < 4) {
      EXPECT_EQ(piece.pending, 0u);
    }
  }
  EXPECT_TRUE(See(0, 0).moved);  // it lives after all
  EXPECT_EQ(layout_->pieces()[0].pending, 1u);
}

}  // namespace
}  // namespace ppc::maio
