// SPDX-License-Identifier: Apache-2.0
// What is dropped when memory is short.
#include "policies/maio/follow/evictor.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "policies/maio/follow/affinity.h"
#include "tests/unit/policies/follow_fixture.h"
#include "tests/unit/units.h"

namespace ppc::maio {
namespace {

TEST_F(MaioEvictorTest, WhatIsReadFromTheDistanceOnIsDropped) {
  See(100, true);
  const uint64_t dropped = DropPassed();
  EXPECT_GE(dropped, 84 * kMiB);
  EXPECT_LE(dropped, 92 * kMiB);
  EXPECT_EQ(first_, 0u);
}

TEST_F(MaioEvictorTest, ALittleAboveTheThresholdNothingAheadIsDropped) {
  See(6, true);  // all of it within the distance
  EXPECT_EQ(Over(4 * kMiB), 0u);
}

TEST_F(MaioEvictorTest, MoreThanIsSoonBurntIsDroppedFromTheEnd) {
  See(6, true);
  const uint64_t dropped = Over(20 * kMiB);
  EXPECT_GE(dropped, 14 * kMiB);
  EXPECT_LE(dropped, 22 * kMiB);
  EXPECT_GE(first_, (kFileMiB - 24) * kMiB);
}

// The evictor's threads take their time; memory says the same until they are through.
TEST_F(MaioEvictorTest, WhatIsBeingDroppedIsNotAskedForAgain) {
  const uint64_t dropped = Over(20 * kMiB);
  EXPECT_GE(dropped, 20 * kMiB);
  EXPECT_EQ(Over(20 * kMiB), 0u);
  EXPECT_GE(Over(30 * kMiB), 8 * kMiB);
}

TEST_F(MaioEvictorTest, WhatWasDroppedOrRefusedCountsNoMore) {
  const uint64_t dropped = Over(20 * kMiB);
  Report();
  EXPECT_EQ(evictor_->stats().dropped, dropped);
  EXPECT_GE(Over(20 * kMiB), 20 * kMiB);
  now_ns_ += 3'000'000'000;  // no answer
  EXPECT_GE(Over(20 * kMiB), 20 * kMiB);
}

// The kernel reads a window for a miss of a page: the piece comes back, and goes again once its
// reader has had time to use it.
TEST_F(MaioEvictorTest, WhatIsMissedAgainIsDroppedAgain) {
  See(100, true);
  DropPassed();
  evictor_->SetContended(true);
  now_ns_ += 2 * kRestNs;
  for (const uint64_t window : {0, 1}) {
    evictor_->Refault(4, 64 << 10, now_ns_);
    table_->LoadPart(4);
    EXPECT_EQ(evictor_->stats().refaults, (window + 1) << 16);
    EXPECT_NE(layout_->pieces()[4].flags & kReleased, 0);
  }
  (void)Over(0);
  EXPECT_NE(layout_->pieces()[4].state, PieceState::kAbsent);
  now_ns_ += kRestNs;
  (void)Over(0);
  EXPECT_EQ(layout_->pieces()[4].state, PieceState::kAbsent);
}

TEST_F(MaioEvictorTest, WhatADeadReaderHeldIsDroppedWhenTheRoomIsNeeded) {
  See(100, true);
  matcher_->Drop(0);
  EXPECT_EQ(Over(0), 0u);  // it may come back
  EXPECT_EQ(Over(4 * kMiB), 4 * kMiB);
  EXPECT_EQ(first_, (kFileMiB - 4) * kMiB);  // what it would need last
  evictor_->SetContended(true);
  uint64_t dropped = 4 * kMiB;
  for (int i = 0; i < 40; i++) {
    now_ns_ += 3'000'000'000;  // what was dropped has been reported, or never will be
    dropped += Over(0);
  }
  EXPECT_EQ(dropped, kFileMiB * kMiB);
}

// It comes back before anything is dropped.
TEST_F(MaioEvictorTest, AReaderThatReturnsHoldsItsPiecesAgain) {
  matcher_->Drop(0);
  See(0, true);
  EXPECT_EQ(Over(0), 0u);
}

// Left by an earlier run, and never asked for.
TEST_F(MaioEvictorTest, WhatWasThereBeforeIsDroppedWhenItIsRead) {
  for (uint32_t p = 0; p < layout_->pieces().size(); p++) table_->Lose(p);
  See(100, true);
  EXPECT_GE(DropPassed(), 84 * kMiB);
  EXPECT_EQ(DropPassed(), 0u);  // once
}

// No more than is asked for, and what was passed first.
TEST_F(MaioEvictorTest, WhatWasReadGoesAsRoomIsNeeded) {
  See(100, true);
  EXPECT_EQ(Over(0), 0u);  // nobody needs the room
  EXPECT_EQ(Over(10 * kMiB), 10 * kMiB);
  EXPECT_EQ(first_, 0u);
  Report();
  EXPECT_EQ(Over(5 * kMiB), 5 * kMiB);
  EXPECT_EQ(first_, 10 * kMiB);
}

// Its last reader has passed it while it is on its way.
TEST_F(MaioEvictorTest, WhatComesLateIsDroppedThen) {
  table_->Queue(3);
  See(100, true);
  DropPassed();
  table_->Find(3);
  EXPECT_EQ(DropPassed(), kMiB);
  EXPECT_EQ(first_, 3 * kMiB);
}

// Tasks stall for memory: the threshold is lower for a while.
TEST_F(MaioEvictorTest, WithheldRoomCostsOnlyWhatWasRead) {
  See(100, true);
  EXPECT_LE(Over(400 * kMiB, 400 * kMiB, 400 * kMiB), 92 * kMiB);
  EXPECT_EQ(first_, 0u);
  EXPECT_GE(Over(420 * kMiB, 400 * kMiB, 300 * kMiB), 20 * kMiB);
}

// A search walks all that is there.
TEST_F(MaioEvictorTest, WithNothingLeftToDropItDoesNotSearchAtEachEvent) {
  See(6, true);
  for (uint32_t p = 1; p < layout_->pieces().size(); p++) table_->Lose(p);
  EXPECT_EQ(Over(100 * kMiB), 0u);
  planner_->Found(800);
  EXPECT_EQ(Over(100 * kMiB), 0u);
  now_ns_ += layout_->pieces().size() * kSortNsPerPiece;
  EXPECT_EQ(Over(100 * kMiB), kMiB);
}

// Where a reader is about to wait for want of room, what it needs last makes some.
TEST_F(MaioEvictorTest, TheFurthestMakesRoomForTheNearest) {
  constexpr uint64_t kSwap = kEvictStepBytes / kSwapShare;
  See(6, true);
  table_->Lose(10);
  EXPECT_EQ(Over(0), kSwap);
  EXPECT_EQ(first_, kFileMiB * kMiB - kSwap);
  Report();
  EXPECT_EQ(Over(0), kSwap);
  EXPECT_EQ(Over(0), 0u);  // it is on its way
}

// The nearest absent piece would take the place of the furthest without end.
TEST_F(MaioEvictorTest, NothingMakesRoomForWhatIsFarAhead) {
  See(6, true);
  table_->Lose(7 + kEvictStepBytes / kSwapShare / kMiB);
  EXPECT_EQ(Over(0), 0u);
}

// Out of order, further than the distance: what is left out for now has not been read.
TEST_F(MaioEvictorTest, WhatWasSkippedStaysForTheDistance) {
  See(20, true);
  DropPassed();
  seen_mib_ = 60;  // out of order by no more than 64 MiB
  See(60, true);
  EXPECT_LE(DropPassed(), kDistance);
  EXPECT_EQ(layout_->pieces()[30].state, PieceState::kResident);
  See(66, true);
  DropPassed();
  EXPECT_EQ(layout_->pieces()[30].state, PieceState::kResident);
  See(100, true);
  DropPassed();
  EXPECT_EQ(layout_->pieces()[30].state, PieceState::kAbsent);
}

TEST_F(MaioEvictorTest, AtTheEndWhatIsMappedOrOnItsWayIsTriedAgain) {
  table_->Queue(3);
  IoList list;
  evictor_->EvictAll(now_ns_, true, NoneHeld, &list);
  ASSERT_FALSE(list.empty());
  for (const ppc_io& io : list.ios()) EXPECT_EQ(io.flags, PPC_IO_UNMAP);
  ppc_result result = {};
  result.file = 1;
  result.offset = 10 * kMiB;
  result.size = result.mapped = 2 * kMiB;
  result.cookie = evictor_->cookie();
  evictor_->Done(result, now_ns_);
  table_->Find(3);
  EXPECT_FALSE(evictor_->HasEnded(now_ns_));
  now_ns_ += kFirstRetryNs;
  list.Clear();
  evictor_->EvictAll(now_ns_, true, NoneHeld, &list);
  uint64_t again = 0;
  for (const ppc_io& io : list.ios()) again += io.size;
  EXPECT_EQ(again, 3 * kMiB);
  // Still mapped: the next time comes after twice as long.
  result.cookie = evictor_->cookie() + 1;
  evictor_->Done(result, now_ns_);
  for (const bool is_due : {false, true}) {
    now_ns_ += kFirstRetryNs;
    list.Clear();
    evictor_->EvictAll(now_ns_, true, NoneHeld, &list);
    EXPECT_NE(list.empty(), is_due);
  }
}

// A drop that came back once: neither it nor what is tried again of it unmaps anything.
TEST_F(MaioEvictorTest, ARetryLeavesAloneWhatItsFirstRequestDid) {
  table_->LeaveMapped(4);
  See(100, true);
  ppc_memory memory = Above(92 * kMiB);
  IoList list;
  evictor_->Evict(memory, now_ns_, /*can_unmap=*/true, NoneHeld, &list);
  const auto check = [&](uint64_t retries) {
    EXPECT_EQ(evictor_->stats().retries, retries);
    ASSERT_FALSE(list.empty());
    for (const ppc_io& io : list.ios()) {
      const bool has_it = io.offset <= 4 * kMiB && io.offset + io.size > 4 * kMiB;
      EXPECT_EQ(io.flags, has_it ? 0u : PPC_IO_UNMAP) << io.offset;
      ppc_result mapped = Evicted(io);
      mapped.mapped = mapped.resident = io.size;
      evictor_->Done(mapped, now_ns_);
    }
  };
  check(0);
  const uint64_t requests = list.size();
  memory.used = memory.threshold;
  for (uint64_t retry = 1; retry <= 3; retry++) {
    now_ns_ += kFirstRetryNs << (retry - 1);
    list.Clear();
    evictor_->Evict(memory, now_ns_, true, NoneHeld, &list);
    check(retry * requests);
  }
}

// Another service began meanwhile.
TEST_F(MaioEvictorTest, ARetryAsksWhetherAnotherNeedsIt) {
  bool is_needed = false;
  const auto held = [&](uint64_t, uint64_t, uint64_t) { return is_needed; };
  See(100, true);
  ppc_memory memory = Above(92 * kMiB);
  IoList list;
  evictor_->Evict(memory, now_ns_, true, held, &list);
  ASSERT_FALSE(list.empty());
  ppc_result mapped = Evicted(list.ios()[0]);
  mapped.mapped = mapped.size;
  evictor_->Done(mapped, now_ns_);
  is_needed = true;
  memory.used = memory.threshold;
  now_ns_ += kFirstRetryNs;
  list.Clear();
  evictor_->Evict(memory, now_ns_, true, held, &list);
  EXPECT_TRUE(list.empty());
}

TEST_F(MaioEvictorTest, LittleMemoryToleratesLittle) {
  See(6, true);
  EXPECT_GE(Over(4 * kMiB, 16 * kMiB), 3 * kMiB);
}

// Populated pages are not used: nothing will be burnt soon.
TEST_F(MaioEvictorTest, PopulatingPromisesNoRoom) {
  See(6, false);
  EXPECT_GE(Over(4 * kMiB), 4 * kMiB);
}

// A worker that reads two files side by side, as its threads do.
// A loader with a prefetch of its own reads ahead of itself up to the limit, whatever we load.
TEST_F(MaioEvictorTest, WhatAReaderLoadsFarAheadByItselfMakesRoom) {
  for (uint32_t p = 0; p < layout_->pieces().size(); p++) {
    table_->Lose(p);
    table_->Touch(p);
  }
  See(100, /*user=*/true);
  const uint64_t behind = DropPassed();
  EXPECT_EQ(behind, (100 - 8) * kMiB);
  EXPECT_EQ(Over(100 * kMiB), (100 - 7) * kMiB);  // what it is in goes soon, too
  EXPECT_EQ(first_, (1024 - 93) * kMiB);
  // What is near it stays, however much is wanted.
  Report();
  (void)Over(2048 * kMiB);
  EXPECT_GE(first_, (100 + 8) * kMiB);
}

// What is dropped of files that are read side by side.

TEST(MaioEvictorStreams, WhatIsNextInEachFileStays) {
  Template t;
  t.service_id = "abcd";
  t.groups.resize(1);
  for (uint32_t f = 0; f < 3; f++) {
    t.files.push_back({"f" + std::to_string(f), 200 << 20, 0, FileKind::kSafetensors, {}});
    t.groups[0].extents.push_back({f, 0, 200 * kMiBPages});
  }
  Layout layout(t, std::vector<uint64_t>{1, 2, 3});
  PieceTable table(&layout);
  Matcher matcher(&table, kMiB, kMiB);
  ppc_context context = {};
  Affinity affinity(&context, layout, false);
  Planner planner(&table, &matcher, &affinity, 0, 1);
  Evictor evictor(&table, &matcher, &planner, 8 * kMiB, 1);
  // All of the third file, which a thread has just begun, and some of the first.
  for (uint32_t p = 0; p < layout.pieces().size(); p++) {
    const Piece& piece = layout.pieces()[p];
    if (piece.file == 2 || (piece.file == 0 && piece.page < 100 * kMiBPages)) planner.Found(p);
  }
  for (uint64_t mib = 0; mib < 40; mib++) {
    for (const uint32_t file : {0u, 2u}) {
      Observation o;
      o.file = file;
      o.first_page = mib * kMiBPages;
      o.end_page = o.first_page + 1;
      matcher.Observe(o);
    }
  }
  ppc_memory memory = {};
  memory.threshold = 800 * kMiB;
  memory.used = memory.threshold + 400 * kMiB;
  IoList list;
  evictor.Evict(
      memory, 1, false, [](uint64_t, uint64_t, uint64_t) { return false; }, &list);
  uint64_t unneeded = 0;
  for (const ppc_io& io : list.ios()) {
    const uint64_t from = 40 * kMiB;
    if (io.offset < from) continue;  // has been read
    unneeded += io.size;
    EXPECT_GE(io.offset, from + 8 * kMiB) << "file " << io.file;
  }
  EXPECT_GT(unneeded, 0u);
}

}  // namespace
}  // namespace ppc::maio
