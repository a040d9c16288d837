// SPDX-License-Identifier: Apache-2.0
//
// Pieces and uses.
#include "policies/maio/layout.h"

#include <gtest/gtest.h>

#include "tests/unit/policies/template_samples.h"

namespace ppc::maio {
namespace {

Template TwoGroups() {
  Template t;
  t.service_id = "abcd";
  t.files.push_back({"a.safetensors", 64 << 20, 0, FileKind::kSafetensors, {}});
  t.files.push_back({"b.json", 8192, 0, FileKind::kSmall, {}});
  TemplateGroup a;
  a.extents = {{1, 0, 2}, {0, 100, 1000}, {0, 0, 50}};
  TemplateGroup b;
  b.id = 1;
  b.extents = {{0, 600, 1000}, {0, 600, 10}};
  t.groups = {a, b};
  return t;
}

TEST(Layout, PiecesHaveOneSetOfGroups) {
  std::vector<uint64_t> numbers = {7, 8};
  Layout layout(TwoGroups(), numbers);
  EXPECT_EQ(layout.piece_pages(), 256u);  // 1 MiB
  uint64_t bytes = 0;
  for (Piece& piece : layout.pieces()) {
    bytes += piece.bytes();
    EXPECT_LE(piece.pages, 256u);
    EXPECT_NE(piece.groups, 0u);
    bool shared = piece.page >= 600 && piece.page < 1100;
    if (piece.file == 0) {
      EXPECT_EQ(piece.groups, shared ? 3u : piece.page < 600 ? 1u : 2u);
    }
    EXPECT_EQ((piece.flags & kKeep) != 0, piece.file == 1);
  }
  EXPECT_EQ(bytes, (2 + 50 + 1500) * kPage);
  EXPECT_EQ(layout.bytes(), bytes);
}

TEST(Layout, UsesFollowTheSequence) {
  std::vector<uint64_t> numbers = {7, 8};
  Layout layout(TwoGroups(), numbers);
  for (const LayoutGroup& group : layout.groups()) {
    uint64_t pos = 0;
    for (const Use& use : group.uses) {
      EXPECT_EQ(use.pos, pos);
      pos += layout.pieces()[use.piece].bytes();
    }
    EXPECT_EQ(pos, group.bytes);
  }
  EXPECT_EQ(layout.groups()[1].bytes, 1010 * kPage);  // the second pass counts again
  for (uint32_t p = 0; p < layout.pieces().size(); p++) {
    EXPECT_EQ(layout.RefsOf(p).size(), layout.pieces()[p].pending);
    for (const Ref& ref : layout.RefsOf(p)) EXPECT_EQ(layout.UseOf(ref).piece, p);
  }
}

TEST(Layout, FilesWithoutNumberAreLeftOut) {
  std::vector<uint64_t> numbers = {0, 8};
  Layout layout(TwoGroups(), numbers);
  EXPECT_EQ(layout.bytes(), 2 * kPage);
  EXPECT_EQ(layout.FileOf(7), -1);
  EXPECT_EQ(layout.FileOf(8), 1);
  EXPECT_EQ(layout.groups()[1].bytes, 0u);
}

TEST(Layout, EveryRangeHasThePiecesThatMeetIt) {
  std::vector<uint64_t> numbers = {7, 8};
  Layout layout(TwoGroups(), numbers);
  const LayoutFile& file = layout.files()[0];
  for (uint64_t first = 0; first < 1700; first += 7) {
    for (uint64_t pages : {1, 3, 256, 700, 20000}) {
      auto [from, to] = layout.PiecesOf(0, first, first + pages);
      ASSERT_LE(from, to);
      for (uint32_t p = file.first_piece; p < file.last_piece; p++) {
        const Piece& piece = layout.pieces()[p];
        bool meets = piece.page < first + pages && piece.end_page() > first;
        EXPECT_EQ(p >= from && p < to, meets) << first << " " << pages << " " << p;
      }
    }
  }
  auto [from, to] = layout.PiecesOf(0, 0, 0);
  EXPECT_EQ(from, to);
}

TEST(Layout, SlotsOfGroups) {
  std::vector<uint64_t> numbers = {7, 8};
  Layout layout(TwoGroups(), numbers);
  EXPECT_EQ(layout.SlotOf(0), 0);
  EXPECT_EQ(layout.SlotOf(1), 1);
  EXPECT_EQ(layout.SlotOf(2), -1);
  EXPECT_EQ(layout.SlotOf(kCommonGroup), -1);
}

TEST(Layout, FindsPiecesByPage) {
  std::vector<uint64_t> numbers = {7, 8};
  Layout layout(TwoGroups(), numbers);
  auto [first, last] = layout.PiecesOf(0, 60, 100);  // a hole
  EXPECT_EQ(first, last);
  std::tie(first, last) = layout.PiecesOf(0, 0, 1ull << 40);
  EXPECT_EQ(first, layout.files()[0].first_piece);
  EXPECT_EQ(last, layout.files()[0].last_piece);
  std::tie(first, last) = layout.PiecesOf(0, 120, 121);
  ASSERT_EQ(last, first + 1);
  EXPECT_LE(layout.pieces()[first].page, 120u);
  EXPECT_GT(layout.pieces()[first].end_page(), 120u);
}

}  // namespace
}  // namespace ppc::maio
