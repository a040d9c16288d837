// SPDX-License-Identifier: Apache-2.0
// Pieces and uses.
#include "policies/maio/follow/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <utility>

#include "policies/maio/follow/matcher.h"
#include "policies/maio/follow/piece_table.h"
#include "tests/unit/policies/template_samples.h"

namespace ppc::maio {
namespace {

const std::vector<uint64_t> kNumbers = {7, 8};

// The first 64 groups.
uint64_t BitsOf(const GroupSet& groups) {
  uint64_t bits = 0;
  groups.ForEach([&](uint32_t group) { bits |= uint64_t{1} << group; });
  return bits;
}

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
  Layout layout(TwoGroups(), kNumbers);
  EXPECT_EQ(layout.piece_pages(), 256u);  // 1 MiB
  uint64_t bytes = 0;
  for (const Piece& piece : layout.pieces()) {
    bytes += piece.bytes();
    EXPECT_LE(piece.pages, 256u);
    EXPECT_FALSE(layout.GroupsOf(piece).empty());
    bool shared = piece.page >= 600 && piece.page < 1100;
    if (piece.file == 0) {
      EXPECT_EQ(BitsOf(layout.GroupsOf(piece)), shared ? 3u : piece.page < 600 ? 1u : 2u);
    }
    EXPECT_EQ((piece.flags & kKeep) != 0, piece.file == 1);
  }
  EXPECT_EQ(bytes, (2 + 50 + 1500) * kPage);
  EXPECT_EQ(layout.bytes(), bytes);
}

TEST(Layout, UsesFollowTheSequence) {
  Layout layout(TwoGroups(), kNumbers);
  for (uint32_t g = 0; g < 2; g++) {
    std::map<uint64_t, uint64_t> uses;  // position, bytes
    for (uint32_t f = 0; f < layout.files().size(); f++) {
      const UseList& list = layout.ListOf(g, f);
      for (uint32_t i = 0; i < list.size(); i++) {
        const Use use = layout.UseAt(g, f, i);
        uses[use.pos] = layout.pieces()[use.piece].bytes();
      }
    }
    uint64_t pos = 0;
    for (const auto& [at, bytes] : uses) {
      EXPECT_EQ(at, pos);
      pos += bytes;
    }
    EXPECT_EQ(pos, layout.groups()[g].bytes);
  }
  EXPECT_EQ(layout.groups()[1].bytes, 1010 * kPage);  // the second pass counts again
  for (uint32_t p = 0; p < layout.pieces().size(); p++) {
    uint32_t uses = 0;
    layout.ForEachUse(p, [&](uint32_t group, uint32_t index) {
      EXPECT_EQ(layout.UseAt(group, layout.pieces()[p].file, index).piece, p);
      uses++;
    });
    EXPECT_EQ(uses, layout.pieces()[p].pending);
  }
}

// Pieces in an order that has nothing to do with the file's, some of them twice.
TEST(Layout, EveryUseOfAPieceIsFound) {
  Template t;
  t.service_id = "abcd";
  t.files.push_back({"a.safetensors", 512 << 20, 0, FileKind::kSafetensors, {}});
  TemplateGroup g;
  for (uint64_t i = 0; i < 300; i++) {
    const uint64_t page = i * 7919 % 400 * 256;
    g.extents.push_back(
        {0, page, std::min(256 * (1 + i % 3), (uint64_t{512} << 20) / kPage - page)});
  }
  t.groups = {g};
  std::vector<uint64_t> numbers = {1};
  Layout layout(t, numbers);
  std::vector<std::vector<uint32_t>> expected(layout.pieces().size());
  const UseList& list = layout.ListOf(0, 0);
  for (uint32_t i = 0; i < list.size(); i++) {
    expected[list.At(layout.pieces(), i).piece].push_back(i);
  }
  for (uint32_t p = 0; p < layout.pieces().size(); p++) {
    std::vector<uint32_t> found;
    layout.ForEachUse(p, [&](uint32_t, uint32_t index) { found.push_back(index); });
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, expected[p]);
    EXPECT_EQ(found.size(), layout.pieces()[p].pending);
  }
}

// Experts: two tensors that are cut among 16 workers in the middle of pages, and one that all
// read.
Template Experts(uint32_t count) {
  constexpr uint64_t kSlice = 900 << 10;
  Template t;
  t.service_id = "abcd";
  const uint64_t expert = 32 * kSlice + (14ull << 20);
  t.files.push_back({"a.safetensors", count * expert, 0, FileKind::kSafetensors, {}});
  t.groups.resize(16);
  for (uint32_t w = 0; w < 16; w++) {
    t.groups[w].id = w;
    auto list = [&](uint64_t begin, uint64_t end) {
      const uint64_t first = begin / kPage;
      t.groups[w].extents.push_back({0, first, (end + kPage - 1) / kPage - first});
    };
    for (uint64_t e = 0; e < count; e++) {
      const uint64_t at = e * expert;
      for (uint64_t tensor : {0, 1}) {
        const uint64_t begin = at + (tensor * 16 + w) * kSlice;
        list(begin, begin + kSlice - (w == 15 ? 0 : 1000));
      }
      list(at + 32 * kSlice, at + expert);
    }
  }
  return t;
}

TEST(Layout, SmallPiecesAreJoinedAndKeepTheirReaders) {
  const Template t = Experts(20);
  std::vector<uint64_t> numbers = {1};
  const Layout fine(t, numbers);
  Layout joined(t, numbers, 100);
  EXPECT_FALSE(fine.joined());
  ASSERT_TRUE(joined.joined());
  EXPECT_EQ(joined.bytes(), fine.bytes());
  EXPECT_LE(joined.pieces().size(), (joined.bytes() >> 20) + 1);  // a piece per cell
  std::vector<uint64_t> readers(t.files[0].size / kPage + 1);
  for (uint32_t g = 0; g < 16; g++) {
    for (const Extent& e : t.groups[g].extents) {
      for (uint64_t page = e.page; page < e.page + e.pages; page++) readers[page] |= 1ull << g;
    }
  }
  uint64_t misplaced = 0;
  for (uint32_t p = 0; p < joined.pieces().size(); p++) {
    const Piece& piece = joined.pieces()[p];
    EXPECT_LE(piece.pages, joined.piece_pages());
    uint64_t at = piece.page;
    uint64_t all = 0;
    joined.ForEachPart(p, [&](uint64_t first, uint64_t end, const GroupSet& set) {
      const uint64_t groups = BitsOf(set);
      EXPECT_EQ(first, at);
      EXPECT_LT(first, end);
      at = end;
      all |= groups;
      for (uint64_t page = first; page < end; page++) {
        if (std::has_single_bit(readers[page]) && readers[page] != groups) misplaced++;
        // Whoever reads it is known to be no stranger there.
        const uint64_t known = BitsOf(joined.ReadersOf(p, p + 1, page, page + 1));
        EXPECT_EQ(readers[page] & ~known, 0u) << page;
      }
    });
    EXPECT_EQ(at, piece.end_page());
    EXPECT_EQ(all, BitsOf(joined.GroupsOf(piece)));
    uint32_t uses = 0;
    joined.ForEachUse(p, [&](uint32_t, uint32_t) { uses++; });
    EXPECT_EQ(uses, piece.pending);
  }
  EXPECT_EQ(misplaced, 0u);
  // In the middle of a slice all others are strangers.
  auto [first, last] = joined.PiecesOf(0, 100, 101);
  EXPECT_EQ(joined.ReadersOf(first, last, 100, 101), GroupSet::Of(0));
}

TEST(Layout, LargeNeighboursOfDifferentReadersAreNotJoined) {
  Template t;
  t.service_id = "abcd";
  t.files.push_back({"a.safetensors", 600 << 20, 0, FileKind::kSafetensors, {}});
  t.groups.resize(2);
  t.groups[1].id = 1;
  // 5 MiB in turns.
  for (uint64_t i = 0; i < 120; i++) t.groups[i % 2].extents.push_back({0, i * 1280, 1280});
  std::vector<uint64_t> numbers = {1};
  Layout layout(t, numbers, 10);
  ASSERT_TRUE(layout.joined());
  for (const Piece& piece : layout.pieces()) EXPECT_TRUE(layout.GroupsOf(piece).IsOne());
}

// A slice of 64 KiB for each worker, and 4 MiB that all of them read.
Template ManyWorkers(uint32_t workers) {
  constexpr uint64_t kSlicePages = 16;
  Template t;
  t.service_id = "abcd";
  const uint64_t shared = workers * kSlicePages;
  t.files.push_back({"a.safetensors", (shared + 1024) * kPage, 0, FileKind::kSafetensors, {}});
  t.groups.resize(workers);
  for (uint32_t w = 0; w < workers; w++) {
    t.groups[w].id = w;
    t.groups[w].extents = {{0, w * kSlicePages, kSlicePages}, {0, shared, 1024}};
  }
  return t;
}

TEST(Layout, HundredsOfWorkersHaveSetsOfTheirOwn) {
  for (const uint32_t workers : {63u, 64u, 65u, 256u, kMaxGroups - 1}) {
    std::vector<uint64_t> numbers = {1};
    for (const size_t max_pieces : {size_t{1000}, size_t{10}}) {
      const Layout layout(ManyWorkers(workers), numbers, max_pieces);
      EXPECT_EQ(layout.joined(), max_pieces == 10);
      ASSERT_EQ(layout.groups().size(), workers);
      for (uint32_t w = 0; w < workers; w++) {
        const auto [first, last] = layout.PiecesOf(0, w * 16 + 7, w * 16 + 8);
        EXPECT_EQ(layout.ReadersOf(first, last, w * 16 + 7, w * 16 + 8), GroupSet::Of(w));
        EXPECT_TRUE(layout.GroupsOf(layout.pieces()[first]).Has(w));
      }
      EXPECT_EQ(layout.GroupsOf(layout.pieces().back()), GroupSet::Below(workers));
      for (uint32_t p = 0; p < layout.pieces().size(); p++) {
        GroupSet users;
        uint32_t uses = 0;
        layout.ForEachUse(p, [&](uint32_t group, uint32_t) {
          users.Add(group);
          uses++;
        });
        EXPECT_EQ(uses, layout.pieces()[p].pending);
        EXPECT_EQ(users, layout.GroupsOf(layout.pieces()[p]));
      }
    }
  }
}

TEST(Layout, WhoReadsWhatAnotherOfHundredsListsIsTold) {
  std::vector<uint64_t> numbers = {1};
  Layout layout(ManyWorkers(256), numbers);
  PieceTable table(&layout);
  Matcher matcher(&table, 1 << 20, 1 << 20);
  Observation o;
  o.group = 65;
  o.first_page = 200 * 16;
  o.end_page = o.first_page + 1;
  EXPECT_EQ(matcher.Observe(o).foreign, 200);
  o.group = 200;
  EXPECT_TRUE(matcher.Observe(o).known);
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
  Layout layout(TwoGroups(), kNumbers);
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
  Layout layout(TwoGroups(), kNumbers);
  EXPECT_EQ(layout.SlotOf(0), 0);
  EXPECT_EQ(layout.SlotOf(1), 1);
  EXPECT_EQ(layout.SlotOf(2), -1);
  EXPECT_EQ(layout.SlotOf(kCommonGroup), -1);
}

TEST(Layout, FindsPiecesByPage) {
  Layout layout(TwoGroups(), kNumbers);
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
