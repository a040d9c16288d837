// SPDX-License-Identifier: Apache-2.0
// Packed extents, and their edges a window at a time.
#include "policies/maio/template/extent_list.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <vector>

#include "policies/maio/template/edges.h"
#include "policies/maio/template/template_format.h"

namespace ppc::maio {
namespace {

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
  Template t;
  t.service_id = "abcd";
  t.files.push_back({"f", kMaxFileBytes, 0, FileKind::kSafetensors, {}});
  for (uint32_t g = 0; g < 4; g++) {
    t.groups.emplace_back().id = g;
    t.groups.back().extents.AppendSeries({0, g, 1}, 64, kMaxExtents);
  }
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
  EXPECT_NE(error.find("extents"), std::string::npos) << error;
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

}  // namespace
}  // namespace ppc::maio
