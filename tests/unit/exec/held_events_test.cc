// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/held_events.h"

#include <gtest/gtest.h>

#include "daemon/exec/event_intake.h"

namespace ppc {
namespace {

// What several processes did comes in the order in which it was done.
TEST(HeldEventsTest, EachProcessWaitsForItselfAlone) {
  HeldEvents held;
  const auto event = [](int tgid, uint64_t offset) {
    Event one;
    one.tgid = tgid;
    one.offset = offset;
    return one;
  };
  const auto no_ask = [](const Event&) {};
  uint64_t at = 0;
  for (const int tgid : {3, 1, 2, 1, 3, 2}) ASSERT_FALSE(held.Add(event(tgid, at++), 5, no_ask));
  std::vector<uint64_t> taken;
  size_t asked = 0;
  const auto take_but = [&](int blocked) {
    return [&, blocked](const Event& one, const Arrival&) {
      ++asked;
      if (one.tgid == blocked) return false;
      taken.push_back(one.offset);
      return true;
    };
  };
  held.Release(9, take_but(1), no_ask);
  EXPECT_EQ(taken, (std::vector<uint64_t>{0, 2, 4, 5}));
  EXPECT_EQ(asked, 5u);
  EXPECT_TRUE(held.Holds(1));
  EXPECT_FALSE(held.Holds(2));
  const auto any = [](int) { return true; };
  EXPECT_TRUE(held.HoldsSince(5, any));
  EXPECT_FALSE(held.HoldsSince(6, any)) << "1 has waited since then";
  held.Release(10, take_but(0), no_ask);
  EXPECT_EQ(taken.size(), 6u);
  EXPECT_TRUE(held.empty());
}

}  // namespace

namespace {

Event Miss(int tid, uint64_t file, uint64_t page, uint64_t pages, uint64_t time_ns) {
  return Event{.file = file,
               .offset = page * kPageBytes,
               .length = pages * kPageBytes,
               .time_ns = time_ns,
               .tid = tid};
}

class AggregatorTest : public testing::Test {
 protected:
  std::vector<Event> Merge(std::vector<Event> events) {
    const std::span<const Event> merged = aggregator_.Merge(events);
    return {merged.begin(), merged.end()};
  }
  Aggregator aggregator_{512};
};

TEST_F(AggregatorTest, ContiguousMissesOfOneThreadMerge) {
  const auto merged = Merge({Miss(1, 5, 0, 4, 1), Miss(1, 5, 4, 4, 2), Miss(1, 5, 8, 1, 3)});
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_EQ(merged[0].length, 9 * kPageBytes);
  EXPECT_EQ(merged[0].time_ns, 3u);
  EXPECT_EQ(aggregator_.Merged(), 2u);
}

TEST_F(AggregatorTest, InterleavedThreadsMergeEachForItself) {
  const auto merged = Merge(
      {Miss(1, 5, 0, 4, 1), Miss(2, 5, 100, 4, 2), Miss(1, 5, 4, 4, 3), Miss(2, 5, 104, 4, 4)});
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_EQ(merged[0].tid, 1);
  EXPECT_EQ(merged[0].length, 8 * kPageBytes);
  EXPECT_EQ(merged[1].length, 8 * kPageBytes);
}

TEST_F(AggregatorTest, RingsOutOfOrderAreSorted) {
  const auto merged = Merge({Miss(1, 5, 4, 4, 20), Miss(1, 5, 0, 4, 10)});
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_EQ(merged[0].offset, 0u);
}

TEST_F(AggregatorTest, WhatDiffersStaysApart) {
  Event other_kind = Miss(1, 5, 4, 4, 2);
  other_kind.kind = EventKind::kMissFault;
  EXPECT_EQ(Merge({Miss(1, 5, 0, 4, 1), other_kind}).size(), 2u);
  Event after_loss = Miss(1, 5, 4, 4, 2);
  after_loss.flags = kEventLost;
  EXPECT_EQ(Merge({Miss(1, 5, 0, 4, 1), after_loss}).size(), 2u);
  Event other_open = Miss(1, 5, 4, 4, 2);
  other_open.open_id = 9;
  EXPECT_EQ(Merge({Miss(1, 5, 0, 4, 1), other_open}).size(), 2u);
  EXPECT_EQ(Merge({Miss(1, 5, 0, 4, 1), Miss(1, 6, 4, 4, 2)}).size(), 2u);
  EXPECT_EQ(Merge({Miss(1, 5, 0, 4, 1), Miss(1, 5, 5, 4, 2)}).size(), 2u);
}

TEST_F(AggregatorTest, NotAcrossBatchesAndNotOtherKinds) {
  EXPECT_EQ(Merge({Miss(1, 5, 0, 4, 1)}).size(), 1u);
  EXPECT_EQ(Merge({Miss(1, 5, 4, 4, 2)}).size(), 1u);
  Event progress = Miss(1, 5, 0, 4, 1);
  progress.kind = EventKind::kProgress;
  Event next = Miss(1, 5, 4, 4, 2);
  next.kind = EventKind::kProgress;
  EXPECT_EQ(Merge({progress, next}).size(), 2u);
}

}  // namespace
}  // namespace ppc
