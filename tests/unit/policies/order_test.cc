// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/order.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/units.h"

namespace ppc::maio {
namespace {

constexpr uint64_t kNear = 4 * kMiB;

// Two workers of one file of 100 MiB: the first reads it twice, the second its last half.
class MaioOrderTest : public ::testing::Test {
 protected:
  static Template TwoReaders() {
    Template t;
    t.service_id = "abcd";
    t.files.push_back({"f", 100 << 20, 0, FileKind::kSafetensors, {}});
    t.groups.resize(2);
    t.groups[1].id = 1;
    t.groups[0].extents = {{0, 0, 100 * kMiBPages}, {0, 0, 100 * kMiBPages}};
    t.groups[1].extents = {{0, 50 * kMiBPages, 50 * kMiBPages}};
    return t;
  }
  void Read(uint32_t group, uint64_t mib) {
    Observation o;
    o.group = group;
    o.first_page = mib * kMiBPages;
    o.end_page = o.first_page + kMiBPages;
    matcher_.Observe(o);
  }
  std::vector<uint32_t> Furthest(uint64_t bytes, uint64_t nearest, uint64_t now_ns) {
    std::vector<uint32_t> pieces;
    (void)order_.Furthest(bytes, nearest, kNear, now_ns, &pieces);
    return pieces;
  }

  Layout layout_{TwoReaders(), std::vector<uint64_t>{1}};
  PieceTable table_{&layout_};
  Matcher matcher_{&table_, kMiB, kMiB};
  Order order_{&layout_, &matcher_};
};

TEST_F(MaioOrderTest, TheNearestReaderCounts) {
  EXPECT_EQ(order_.NextUse(60, kNear), 10 * kMiB);  // of the second reader's sequence
  EXPECT_EQ(order_.NextUse(40, kNear), 40 * kMiB);
  for (uint64_t mib = 0; mib < 20; mib++) Read(0, mib);
  EXPECT_EQ(order_.NextUse(40, kNear), 20 * kMiB);
  EXPECT_EQ(order_.NextUse(19, kNear), 0u);  // its reader is in it
}

TEST_F(MaioOrderTest, WhatHasBeenReadIsUsedInTheNextPassOrNever) {
  for (uint64_t mib = 0; mib < 20; mib++) Read(0, mib);
  table_.Burn(0, 0, 3);
  EXPECT_EQ(order_.NextUse(3, kNear), (103 - 20) * kMiB);
  table_.Burn(0, 0, 103);
  EXPECT_EQ(order_.NextUse(3, kNear), Order::kNever);
}

TEST_F(MaioOrderTest, WhatAReaderHasGonePastIsLeftOut) {
  for (uint64_t mib = 50; mib < 53; mib++) Read(1, mib);
  for (uint64_t mib = 80; mib < 90; mib++) Read(1, mib);
  table_.Burn(0, 0, 60);
  table_.Burn(0, 0, 160);
  EXPECT_EQ(order_.NextUse(60, kNear), Order::kLeftOut);
  table_.Burn(0, 0, 88);
  table_.Burn(0, 0, 188);
  EXPECT_EQ(order_.NextUse(88, kNear), 0u);  // so close behind it may still come
}

// After a crash of the runner its reader may be in it, and nothing has told so.
TEST_F(MaioOrderTest, WhatAnotherHasReadIsNotLeftOut) {
  for (uint64_t mib = 0; mib < 62; mib++) Read(0, mib);
  for (uint64_t mib = 50; mib < 53; mib++) Read(1, mib);
  for (uint64_t mib = 80; mib < 90; mib++) Read(1, mib);
  table_.Burn(0, 0, 60);
  table_.Burn(0, 0, 160);
  EXPECT_EQ(order_.NextUse(60, kNear), 0u);
}

TEST_F(MaioOrderTest, TheFurthestGoFirstAndTheNearStay) {
  for (uint32_t p = 0; p < 100; p++) table_.Find(p);
  EXPECT_EQ(Furthest(2 * kMiB, 0, 1), (std::vector<uint32_t>{99, 49}));
  EXPECT_EQ(Furthest(100 * kMiB, 48 * kMiB, 1), (std::vector<uint32_t>{98, 48}));
}

// The piece was far ahead of its reader when all pieces were sorted.
TEST_F(MaioOrderTest, APieceThatItsReaderReachedSinceTheSortStays) {
  for (uint32_t p = 0; p < 100; p++) table_.Find(p);
  EXPECT_EQ(Furthest(2 * kMiB, 0, 1), (std::vector<uint32_t>{99, 49}));
  for (uint64_t mib = 0; mib < 49; mib++) Read(0, mib);
  EXPECT_EQ(Furthest(100 * kMiB, 48 * kMiB, 2), (std::vector<uint32_t>{98}));
}

// The drop may have left the piece mapped, and its reader is in what it has missed since.
TEST_F(MaioOrderTest, ADroppedPieceStaysForASecondAndAMissedOneForARest) {
  constexpr uint64_t kBackNs = kMs;
  for (const uint32_t p : {10u, 20u}) {
    table_.Find(p);
    table_.Return(p, kBackNs);
  }
  table_.LeaveMapped(20);
  EXPECT_TRUE(Furthest(2 * kMiB, kMiB, kBackNs + kReleasedNs - kMs).empty());
  EXPECT_EQ(Furthest(2 * kMiB, kMiB, kBackNs + kRestNs / 2), (std::vector<uint32_t>{10}));
  EXPECT_EQ(Furthest(2 * kMiB, kMiB, kBackNs + kRestNs), (std::vector<uint32_t>{20, 10}));
}

// All pieces are looked at: as seldom as their number asks for.
TEST_F(MaioOrderTest, WhatWasLoadedSinceIsFoundAtTheNextSort) {
  table_.Find(10);
  EXPECT_EQ(Furthest(2 * kMiB, kMiB, 1), (std::vector<uint32_t>{10}));
  table_.Find(99);
  EXPECT_TRUE(Furthest(kMiB, kMiB, 2).empty());
  EXPECT_EQ(Furthest(kMiB, kMiB, 1 + kSortNs), (std::vector<uint32_t>{99}));
}

}  // namespace
}  // namespace ppc::maio
