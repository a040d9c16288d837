// SPDX-License-Identifier: Apache-2.0
//
// Templates for another number of workers.
#include "policies/maio/record/regroup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "bench/template/simulated_recording.h"

namespace ppc::maio {
namespace {

// Tensors of 80 pages, each split evenly and then one page that all read, as `workers` recorded it.
Template Recorded(uint32_t workers, uint32_t tensors = 3) {
  Template t;
  t.service_id = "abcd";
  t.meta = "{\"recorder\":\"maio 1\",\"workers\":" + std::to_string(workers) + "}";
  t.files.push_back({"f", 100 << 20, 0, FileKind::kSafetensors, {}});
  for (uint32_t w = 0; w < workers; w++) {
    TemplateGroup g;
    g.id = w;
    const uint64_t slice = 80 / workers;
    for (uint64_t i = 0; i < tensors; i++) {
      // The file lists them from the last to the first.
      const uint64_t at = (tensors - 1 - i) * 81;
      g.extents.push_back({0, at + w * slice, slice});
      g.extents.push_back({0, at + 80, 1});
    }
    t.groups.push_back(g);
  }
  return t;
}

// A page per element, in the order of reading.
std::vector<uint64_t> PagesOf(const TemplateGroup& group) {
  std::vector<uint64_t> pages;
  for (const Extent& e : group.extents) {
    for (uint64_t i = 0; i < e.pages; i++) pages.push_back(e.page + i);
  }
  return pages;
}

TEST(Regroup, HalfAsManyReadWhatTwoNeighboursRead) {
  Template t = Recorded(4);
  ASSERT_EQ(Regroup(&t, 2, 0), 1u);
  EXPECT_EQ(Check(t), "");
  const Template wanted = Recorded(2);
  ASSERT_EQ(t.groups.size(), 2u);
  for (uint32_t w = 0; w < 2; w++) {
    EXPECT_EQ(t.groups[w].id, w);
    EXPECT_EQ(PagesOf(t.groups[w]), PagesOf(wanted.groups[w]));
  }
  EXPECT_EQ(Regroup(&t, 2, 0), 0u);  // it is already
}

TEST(Regroup, EachTakesForItselfWhatItTook) {
  for (const auto& [workers, own] : {std::pair(2u, 400u), std::pair(8u, 1600u)}) {
    Template t = Recorded(4);
    t.meta = R"({"workers":4,"own_bytes":800})";
    ASSERT_NE(Regroup(&t, workers, 0), 0u);
    EXPECT_EQ(OwnBytes(t), own);
  }
}

// XPUs were given to the workers in another order than that of their slices.
TEST(Regroup, NeighboursAreToldByTheirSlices) {
  for (const std::vector<uint32_t>& order :
       {std::vector<uint32_t>{2, 3, 0, 1}, {0, 2, 1, 3}, {3, 1, 2, 0}}) {
    Template t = Recorded(4, 8);
    Template permuted = t;
    for (uint32_t w = 0; w < 4; w++) {
      permuted.groups[w] = t.groups[order[w]];
      permuted.groups[w].id = w;
    }
    ASSERT_EQ(Regroup(&permuted, 2, 0), 1u);
    const Template wanted = Recorded(2, 8);
    for (uint32_t w = 0; w < 2; w++) {
      EXPECT_EQ(PagesOf(permuted.groups[w]), PagesOf(wanted.groups[w])) << order[0];
    }
  }
}

// Of a tensor that is split by columns each worker's pages overlap with its neighbours': only the
// ends are one worker's alone, the first one's right behind a slice of the last one's.
TEST(Regroup, EndsOfTensorsSplitByColumnsAreNoSlices) {
  const std::vector<uint32_t> rank{2, 0, 3, 1};  // of each worker
  Template t = Recorded(4, 0);
  for (uint64_t layer = 0; layer < 6; layer++) {
    for (uint32_t w = 0; w < 4; w++) {
      ExtentList& extents = t.groups[w].extents;
      const uint64_t at = layer * 400;
      extents.push_back({0, at + rank[w] * 20, 20});
      extents.push_back({0, at + 80 + rank[w] * 4, 100 - 3 * 4});
      extents.push_back({0, at + 180 + rank[w] * 4, 100 - 3 * 4});
      extents.push_back({0, at + 280 + rank[w] * 20, 20});
    }
  }
  ASSERT_EQ(Regroup(&t, 2, 0), 1u);
  for (uint32_t w = 0; w < 2; w++) {
    const std::vector<uint64_t> pages = PagesOf(t.groups[w]);
    for (uint64_t page = 0; page < 40; page++) {
      EXPECT_NE(std::find(pages.begin(), pages.end(), 40 * w + page), pages.end()) << w << page;
    }
  }
}

// Nothing is one worker's alone: there is no order of slices, and the numbers count.
TEST(Regroup, WithoutSlicesTheNumbersCount) {
  Template t = Recorded(1);
  t.meta = "{\"workers\":2}";
  t.groups.push_back(t.groups[0]);
  std::vector<Extent> extents = t.groups[1].extents.ToVector();
  std::ranges::reverse(extents);
  t.groups[1].extents = extents;
  t.groups[1].id = 1;
  const Template before = t;
  ASSERT_EQ(Regroup(&t, 4, 0), 2u);
  ASSERT_EQ(t.groups.size(), 4u);
  for (uint32_t w = 0; w < 4; w++) EXPECT_EQ(PagesOf(t.groups[w]), PagesOf(before.groups[w / 2]));
}

// Shared pages between all tensors: the last worker's slices are followed by nobody's.
TEST(Regroup, SlicesNeedNoRing) {
  Template t = Recorded(4, 0);
  const std::vector<uint32_t> order{2, 0, 3, 1};  // rank of each
  for (uint64_t tensor = 0; tensor < 4; tensor++) {
    for (uint32_t w = 0; w < 4; w++) {
      t.groups[w].extents.push_back({0, tensor * 200 + order[w] * 20, 20});
      t.groups[w].extents.push_back({0, tensor * 200 + 80, 120});
    }
  }
  ASSERT_EQ(Regroup(&t, 2, 0), 1u);
  EXPECT_EQ(PagesOf(t.groups[0])[0], 0u);
  EXPECT_EQ(PagesOf(t.groups[0])[20], 20u);
  EXPECT_EQ(PagesOf(t.groups[1])[0], 40u);
}

TEST(Regroup, TwiceAsManyShareWhatOneRead) {
  Template t = Recorded(2);
  ASSERT_EQ(Regroup(&t, 4, 0), 2u);
  EXPECT_EQ(Check(t), "");
  ASSERT_EQ(t.groups.size(), 4u);
  const Template before = Recorded(2);
  for (uint32_t w = 0; w < 4; w++) EXPECT_EQ(PagesOf(t.groups[w]), PagesOf(before.groups[w / 2]));
}

// Four hold the model together, whatever the number of workers.
TEST(Regroup, WhereTheSizeOfTheGroupIsToldOthersHoldTheModelAgain) {
  const Template before = Recorded(4);
  Template t = before;
  ASSERT_EQ(Regroup(&t, 8, 4), 2u);
  ASSERT_EQ(t.groups.size(), 8u);
  for (uint32_t w = 0; w < 8; w++) EXPECT_EQ(PagesOf(t.groups[w]), PagesOf(before.groups[w % 4]));
  ASSERT_EQ(Regroup(&t, 4, 4), 1u);
  ASSERT_EQ(t.groups.size(), 4u);
  for (uint32_t w = 0; w < 4; w++) EXPECT_EQ(PagesOf(t.groups[w]), PagesOf(before.groups[w]));
}

// The lists of workers that shared a tensor by four say nothing of a share by two.
TEST(Regroup, ACutThatIsNotTodaysIsPutTogetherOrLeftAlone) {
  Template t = Recorded(4);
  t.meta = R"({"workers":4,"params":{"tp":4}})";
  Template two = t;
  EXPECT_EQ(Regroup(&two, 2, 2), 1u);
  ASSERT_EQ(two.groups.size(), 2u);
  EXPECT_EQ(PagesOf(two.groups[0]), PagesOf(Recorded(2).groups[0]));
  EXPECT_EQ(Regroup(&t, 8, 2), 0u);
  EXPECT_EQ(t.groups.size(), 4u);
  EXPECT_EQ(Regroup(&t, 8, 4), 2u);
}

TEST(Regroup, TooManyExtentsAreNotCopied) {
  Template t = Recorded(1, 0);
  t.files[0].size = 1ull << 40;
  for (uint64_t i = 0; i < kMaxExtents; i++) t.groups[0].extents.push_back({0, i * 2, 1});
  EXPECT_EQ(Regroup(&t, 2, 0), 2u);
  EXPECT_EQ(Regroup(&t, 32, 0), 0u);
  EXPECT_EQ(t.groups.size(), 2u);
}

TEST(Regroup, WhatBelongsToNoWorkerStays) {
  Template t = Recorded(2);
  TemplateGroup common;
  common.id = kCommonGroup;
  common.extents.push_back({0, 5000, 1});
  t.groups.push_back(common);
  ASSERT_EQ(Regroup(&t, 1, 0), 1u);
  ASSERT_EQ(t.groups.size(), 2u);
  EXPECT_EQ(t.groups[1].id, kCommonGroup);
  EXPECT_EQ(PagesOf(t.groups[1]), PagesOf(common));
}

TEST(Regroup, PartsThatOverlapAreListedOnce) {
  Template t = Recorded(2, 0);
  t.groups[0].extents = {{0, 10, 10}, {0, 40, 10}};
  t.groups[1].extents = {{0, 5, 40}};
  ASSERT_EQ(Regroup(&t, 1, 0), 1u);
  EXPECT_EQ(SequenceBytes(t.groups[0]), DistinctBytes(t));
  EXPECT_EQ(SequenceBytes(t.groups[0]), 45 * kPage);
}

TEST(Regroup, WhatCannotBeKnownStaysAsItIs) {
  const auto stays = [](Template t, uint32_t workers, uint32_t tp = 0) {
    const size_t groups = t.groups.size();
    return Regroup(&t, workers, tp) == 0 && t.groups.size() == groups;
  };
  EXPECT_TRUE(stays(Recorded(4), 4));
  EXPECT_TRUE(stays(Recorded(4), 0));
  EXPECT_TRUE(stays(Recorded(4), 3));
  EXPECT_TRUE(stays(Recorded(2), kMaxGroups));
  Template t = Recorded(4);
  t.meta = "{}";
  EXPECT_TRUE(stays(t, 2));
  t.meta = "{\"workers\":-4}";
  EXPECT_TRUE(stays(t, 2));
  t.meta = "{\"workers\":4294967300}";
  EXPECT_TRUE(stays(t, 2));
  EXPECT_TRUE(stays(Recorded(4), 8, 3));
  EXPECT_TRUE(stays(Recorded(4), 6, 4));
  t.meta = "no JSON";
  EXPECT_TRUE(stays(t, 2));
  t = Recorded(4);
  t.flags |= kMerged;
  EXPECT_TRUE(stays(t, 2));
  t = Recorded(4);
  t.groups.pop_back();  // one never read
  EXPECT_TRUE(stays(t, 2));
  t = Recorded(4);
  t.groups[3].id = 7;
  EXPECT_TRUE(stays(t, 2));
  t = Recorded(4);
  t.groups[1].extents.push_back(t.groups[1].extents[0]);  // a second pass
  EXPECT_TRUE(stays(t, 2));
}

// Share of a's bytes that b lists, too.
double ShareOf(const TemplateGroup& a, const TemplateGroup& b) {
  std::map<uint32_t, std::map<uint64_t, uint64_t>> ranges;
  for (const Extent& e : b.extents) ranges[e.file][e.page] = e.page + e.pages;
  uint64_t both = 0;
  for (const Extent& e : a.extents) {
    const auto& of_file = ranges[e.file];
    auto it = of_file.upper_bound(e.page);
    if (it != of_file.begin()) --it;
    for (; it != of_file.end() && it->first < e.page + e.pages; ++it) {
      const uint64_t from = std::max(it->first, e.page);
      const uint64_t to = std::min(it->second, e.page + e.pages);
      if (from < to) both += (to - from) * kPage;
    }
  }
  return static_cast<double>(both) / static_cast<double>(SequenceBytes(a));
}

// How much of a list lies before what the list has come to in its file.
double BackShare(const TemplateGroup& group) {
  std::map<uint32_t, uint64_t> reached;
  uint64_t back = 0;
  for (const Extent& e : group.extents) {
    uint64_t& end = reached[e.file];
    if (e.page < end) back += e.pages * kPage;
    end = std::max(end, e.page + e.pages);
  }
  return static_cast<double>(back) / static_cast<double>(SequenceBytes(group));
}

class RegroupModel : public testing::TestWithParam<const char*> {};

// Whatever the order of the XPUs, half as many workers get what they would have recorded.
TEST_P(RegroupModel, AtTrueLayout) {
  const Result<bench::ModelSpec> model = bench::FindModel(GetParam());
  const Template four = bench::SimulateRecording(*model, 1, 4, bench::Jitter{});
  const Template two = bench::SimulateRecording(*model, 1, 2, bench::Jitter{});
  for (const std::vector<uint32_t>& order :
       {std::vector<uint32_t>{0, 1, 2, 3}, {1, 2, 3, 0}, {2, 0, 3, 1}}) {
    Template t = four;
    t.meta = "{\"workers\":4}";
    for (TemplateGroup& group : t.groups) {
      if (group.id != kCommonGroup) group.id = order[group.id];
    }
    ASSERT_EQ(Regroup(&t, 2, 0), 1u);
    for (uint32_t w = 0; w < 2; w++) {
      EXPECT_GE(ShareOf(two.groups[w], t.groups[w]), 0.99) << w << " " << order[0];
      EXPECT_GE(ShareOf(t.groups[w], two.groups[w]), 0.99) << w << " " << order[0];
      EXPECT_LE(BackShare(t.groups[w]), BackShare(two.groups[w]) + 0.01) << w << " " << order[0];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RegroupModel,
                         testing::Values("qwen2.5-7b", "qwen2.5-32b", "qwen2.5-72b", "llama-2-7b",
                                         "llama-2-70b"));

}  // namespace
}  // namespace ppc::maio
