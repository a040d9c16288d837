// SPDX-License-Identifier: Apache-2.0
// Packed extents, and the life of a piece.
#include "policies/maio/follow/piece_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

#include "policies/maio/template/edges.h"
#include "policies/maio/template/extent_list.h"
#include "policies/maio/template/template_format.h"
#include "tests/unit/has.h"
#include "tests/unit/policies/template_samples.h"
#include "tests/unit/units.h"

namespace ppc::maio {
namespace {

// Packed extents, and their edges a window at a time.

TEST(ExtentList, GivesBackWhatWasAdded) {
  std::mt19937_64 random(7);
  std::vector<Extent> extents;
  for (int i = 0; i < 5000; i++) {
    const Extent last = extents.empty() ? Extent() : extents.back();
    switch (random() % 4) {
      case 0:
        extents.push_back(
            {static_cast<uint32_t>(random() % 65536), random() % (1ull << 32), random() % 1000});
        break;
      case 1:  // backwards, and what no template may have
        extents.push_back({last.file, last.page - random() % 100, random()});
        break;
      default:  // series of every length
        extents.push_back({last.file, last.page + last.pages + 7, last.pages});
    }
  }
  extents.push_back({0, ~0ull, ~0ull});
  extents.push_back({~0u, 0, 0});
  const ExtentList list(extents);
  EXPECT_EQ(list.size(), extents.size());
  EXPECT_EQ(list.ToVector(), extents);
  EXPECT_EQ(list.back(), extents.back());
  EXPECT_EQ(list[2345], extents[2345]);
  EXPECT_TRUE(ExtentList().empty());
  EXPECT_EQ(ExtentList().begin(), ExtentList().end());
}

TEST(ExtentList, SeriesStaySmallAndEqualWhatWasAddedOneByOne) {
  ExtentList series;
  series.AppendSeries({3, 10, 4}, 16, 1u << 20);
  series.push_back({4, 0, 1});
  EXPECT_LT(series.held_bytes(), 64u);
  EXPECT_EQ(series.size(), (1u << 20) + 1);
  EXPECT_EQ(series[(1u << 20) - 1], (Extent{3, 10 + 16 * ((1ull << 20) - 1), 4}));
  ExtentList one_by_one;
  for (uint64_t i = 0; i < 1u << 20; i++) one_by_one.push_back({3, 10 + 16 * i, 4});
  one_by_one.push_back({4, 0, 1});
  EXPECT_EQ(series, one_by_one);
}

// A few bytes of file that stand for four million extents take no memory.
TEST(ExtentList, AShortTemplateStaysShort) {
  Template t = OneFile(kMaxFileBytes, std::vector<std::vector<Extent>>(4));
  for (uint32_t g = 0; g < 4; g++) t.groups[g].extents.AppendSeries({0, g, 1}, 64, kMaxExtents);
  const std::vector<uint8_t> bytes = Encode(t);
  EXPECT_LT(bytes.size(), 400u);
  std::string error;
  const std::optional<Template> back = Decode(bytes, &error);
  ASSERT_TRUE(back) << error;
  for (const TemplateGroup& group : back->groups) {
    EXPECT_EQ(group.extents.size(), kMaxExtents);
    EXPECT_LT(group.extents.held_bytes(), 64u);
  }
  t.groups.emplace_back().id = 4;
  t.groups.back().extents.push_back({0, 0, 1});
  EXPECT_FALSE(Decode(Encode(t), &error));
  EXPECT_TRUE(Has(error, "extents"));
}

using Key = std::tuple<uint32_t, uint64_t, bool, uint32_t>;

TEST(EdgeReader, WindowsGiveTheEdgesInOrder) {
  std::mt19937_64 random(11);
  Template t;
  for (int f = 0; f < 5; f++) t.files.emplace_back().size = 1ull << 30;
  std::vector<Key> expected;
  for (uint32_t g = 0; g < 3; g++) {
    t.groups.emplace_back().id = g;
    for (int i = 0; i < 700; i++) {
      const Extent e = {static_cast<uint32_t>(random() % 5), random() % 500, 1 + random() % 40};
      // Of one page many more than a window holds.
      for (int again = i == 300 ? 50 : 1; again > 0; again--) {
        t.groups[g].extents.push_back(e);
        if (e.file == 2) continue;
        expected.emplace_back(e.file, e.page, false, g);
        expected.emplace_back(e.file, e.page + e.pages, true, g);
      }
    }
  }
  std::sort(expected.begin(), expected.end());
  for (const size_t window : {size_t{1}, size_t{16}, size_t{1000}, EdgeReader::kWindow}) {
    EdgeReader reader(
        t, [](uint32_t file) { return file != 2; }, window);
    std::vector<Key> edges;
    for (Edge edge; reader.Next(&edge);) {
      for (uint32_t i = 0; i < edge.times; i++)
        edges.emplace_back(edge.file, edge.page, edge.is_end, edge.slot);
    }
    EXPECT_EQ(edges, expected) << window;
  }
  const Template empty;
  EdgeReader none(empty, [](uint32_t) { return true; });
  Edge edge;
  EXPECT_FALSE(none.Next(&edge));
}

// The life of a piece: what is there, and who needs it.

// Two groups that read one file of four pieces, one of them twice.
class MaioPieceTableTest : public ::testing::Test {
 protected:
  static Template Make() {
    return OneFile(4 * kMiB, {{{0, 0, 4 * kMiBPages}, {0, 0, kMiBPages}}, {{0, 0, 2 * kMiBPages}}});
  }
  MaioPieceTableTest() {
    table_.OnAbsent([this](uint32_t piece) { absent_.push_back(piece); });
  }
  const Piece& At(uint32_t piece) const { return layout_.pieces()[piece]; }

  Layout layout_{Make(), std::vector<uint64_t>{1}};
  PieceTable table_{&layout_};
  std::vector<uint32_t> absent_;
};

TEST_F(MaioPieceTableTest, WhatIsThereIsSummedUp) {
  table_.Queue(0);
  EXPECT_EQ(table_.resident_bytes(), 0u);
  table_.Load(0);
  EXPECT_EQ(At(0).state, PieceState::kResident);
  EXPECT_NE(At(0).flags & kPrefetched, 0);
  table_.LoadPart(1);
  table_.Touch(2);
  table_.Touch(0);
  EXPECT_EQ(At(0).state, PieceState::kResident) << "it is there already";
  EXPECT_EQ(table_.resident_bytes(), 3 * kMiB);
  table_.Find(1);
  EXPECT_EQ(table_.resident_bytes(), 3 * kMiB);
  table_.Lose(1);
  table_.Release(0, 5'000);
  EXPECT_EQ(table_.resident_bytes(), 1 * kMiB);
}

TEST_F(MaioPieceTableTest, WhatBecomesAbsentIsToldOf) {
  table_.Lose(3);
  EXPECT_TRUE(absent_.empty()) << "it was absent";
  table_.Queue(3);
  table_.Lose(3);
  table_.Load(2);
  table_.Release(2, 1);
  EXPECT_EQ(absent_, (std::vector<uint32_t>{3, 2}));
}

TEST_F(MaioPieceTableTest, ItIsFreeWhenTheLastUseIsBurnt) {
  ASSERT_EQ(At(0).pending, 3u);
  EXPECT_EQ(table_.Pass(0, 0, 0), table_.layout().pieces()[0].bytes());
  EXPECT_EQ(table_.Pass(0, 0, 0), 0u);
  EXPECT_NE(At(0).flags & kConsumed, 0);
  EXPECT_FALSE(table_.Burn(0, 0, 0));
  EXPECT_FALSE(table_.Burn(1, 0, 0)) << "the first group reads it again";
  EXPECT_FALSE(table_.Burn(1, 0, 0));
  EXPECT_EQ(At(0).pending, 1u) << "a use is burnt once";
  EXPECT_TRUE(table_.Burn(0, 0, 4));
  EXPECT_EQ(At(0).pending, 0u);
}

TEST_F(MaioPieceTableTest, OnlyWhatNobodyNeedsCountsAsReleased) {
  table_.Load(0);
  table_.Release(0, 1'000);
  EXPECT_EQ(At(0).flags & kReleased, 0) << "dropped ahead of its readers: a miss is no mistake";
  for (const uint32_t index : {0u, 4u}) table_.Burn(0, 0, index);
  table_.Burn(1, 0, 0);
  table_.Release(0, 2'000);
  EXPECT_NE(At(0).flags & kReleased, 0);
  EXPECT_EQ(At(0).release_us, 2u);
  table_.Unpass(1, 0, 0);
  EXPECT_EQ(At(0).flags & kReleased, 0) << "to be read again";
  EXPECT_EQ(At(0).pending, 1u);
}

TEST_F(MaioPieceTableTest, AReaderThatStartsAnewNeedsAllOfIt) {
  table_.Pass(1, 0, 0);
  table_.Burn(1, 0, 0);
  table_.Pass(1, 0, 1);
  for (const uint32_t index : {0u, 1u}) table_.Renew(1, 0, index);
  for (const uint32_t index : {0u, 1u}) {
    EXPECT_EQ(layout_.UseAt(1, 0, index).state, UseState::kPending);
    EXPECT_EQ(At(index).flags & kConsumed, 0);
  }
  EXPECT_EQ(At(0).pending, 3u);
  EXPECT_EQ(At(1).pending, 2u);
  table_.ReleaseAllUses();
  for (uint32_t p = 0; p < 4; p++) EXPECT_EQ(At(p).pending, 0u);
}

}  // namespace
}  // namespace ppc::maio
