// SPDX-License-Identifier: Apache-2.0
//
// The life of a piece: what is there, and who needs it.
#include "policies/maio/follow/piece_table.h"

#include <gtest/gtest.h>

#include "tests/unit/units.h"

namespace ppc::maio {
namespace {

// Two groups that read one file of four pieces, one of them twice.
class MaioPieceTableTest : public ::testing::Test {
 protected:
  static Template Make() {
    Template t;
    t.service_id = "abcd";
    t.files.push_back({"f", 4 * kMiB, 0, FileKind::kSafetensors, {}});
    TemplateGroup one;
    one.extents = {{0, 0, 4 * kMiBPages}, {0, 0, kMiBPages}};
    TemplateGroup two;
    two.id = 1;
    two.extents = {{0, 0, 2 * kMiBPages}};
    t.groups = {one, two};
    return t;
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
  table_.ForgoAll();
  for (uint32_t p = 0; p < 4; p++) EXPECT_EQ(At(p).pending, 0u);
}

}  // namespace
}  // namespace ppc::maio
