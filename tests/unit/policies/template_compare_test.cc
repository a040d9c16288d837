// SPDX-License-Identifier: Apache-2.0
// Templates against each other, against a start that followed one, and their sizes.
#include "policies/maio/template/template_compare.h"

#include <gtest/gtest.h>

#include <array>
#include <ostream>

#include "bench/template/simulated_recording.h"
#include "policies/maio/follow/layout.h"
#include "policies/maio/template/template_feedback.h"
#include "tests/unit/has.h"
#include "tests/unit/policies/template_samples.h"

namespace ppc::maio {
namespace {

// Comparing, merging and repairing templates.

TEST(PageSet, CountsPagesOnceAndInCommon) {
  PageSet a;
  a.Add("x", 0, 10);
  a.Add("x", 5, 20);
  a.Add("y", 3, 4);
  a.Add("y", 7, 7);
  EXPECT_EQ(a.bytes(), 21 * kPage);
  PageSet b;
  b.Add("x", 18, 30);
  b.Add("x", 2, 4);
  b.Add("z", 0, 9);
  EXPECT_EQ(a.CommonBytes(b), 4 * kPage);
  EXPECT_EQ(b.CommonBytes(a), 4 * kPage);
}

TEST(TemplateComplete, AppendsOnlyWhatIsNotListed) {
  Template t;
  t.files = {{"a", 100 * kPage, 1, FileKind::kOther, {}},
             {"b", 100 * kPage, 1, FileKind::kOther, {}}};
  t.groups.resize(1);
  t.groups[0].extents = {{0, 10, 10}, {0, 50, 5}};
  Template fresh = t;
  fresh.files = {{"b", 100 * kPage, 9, FileKind::kOther, {}},
                 {"a", 100 * kPage, 9, FileKind::kOther, {}},
                 {"c", 100 * kPage, 9, FileKind::kOther, {}}};
  fresh.groups[0].extents = {{1, 0, 60}, {0, 0, 5}, {0, 0, 5}, {2, 1, 1}};
  fresh.groups.push_back(fresh.groups[0]);
  fresh.groups[1].id = 1;
  fresh.groups[1].extents = {{2, 7, 2}};
  CompleteWith(&t, fresh);
  ASSERT_EQ(t.groups.size(), 2u);
  std::vector<std::array<uint64_t, 3>> listed;
  for (const Extent& e : t.groups[0].extents) listed.push_back({e.file, e.page, e.pages});
  EXPECT_EQ(
      listed,
      (std::vector<std::array<uint64_t, 3>>{
          {0, 10, 10}, {0, 50, 5}, {0, 0, 10}, {0, 20, 30}, {0, 55, 5}, {1, 0, 5}, {2, 1, 1}}));
  EXPECT_EQ(t.groups[1].id, 1u);
  EXPECT_EQ(t.files[t.groups[1].extents[0].file].path, "c");
  EXPECT_EQ(t.files[0].mtime_ns, 1);
  // A file that is another one now is not mixed with the old one.
  Template other = fresh;
  other.files[1].size++;
  Template before = t;
  other.groups.resize(1);
  other.groups[0].extents = {{1, 90, 5}};
  CompleteWith(&t, other);
  EXPECT_EQ(t.groups[0].extents.size(), before.groups[0].extents.size());
}

// Two nodes record their own workers.
TEST(TemplateMerge, PutsNodesTogether) {
  Template whole = SampleTemplate();
  whole.groups[1].node = 1;
  Template first = whole;
  first.groups.erase(first.groups.begin() + 1);
  Template second = whole;
  second.groups.erase(second.groups.begin());
  second.groups[1].extents = {{0, 0, 2}, {1, 4, 4}};
  // The other node meets the files in another order.
  std::swap(second.files[0], second.files[4]);
  for (TemplateGroup& group : second.groups) {
    ChangeExtents(&group, [](std::vector<Extent>& extents) {
      for (Extent& e : extents) e.file = e.file == 0 ? 4 : e.file == 4 ? 0 : e.file;
    });
  }
  second.created_ns--;
  const Template merged = Merged({first, second});
  EXPECT_EQ(merged.files.size(), whole.files.size());
  ASSERT_EQ(merged.groups.size(), 3u);
  EXPECT_TRUE(SameExtents(merged.groups[0], whole.groups[0]));
  EXPECT_EQ(merged.groups[1].id, kCommonGroup);
  EXPECT_EQ(merged.groups[1].extents.size(), 2u);  // what both have, once
  EXPECT_EQ(merged.groups[2].id, 1u);
  EXPECT_TRUE(merged.flags & kMerged);
  // In any order, and again, it is the same.
  EXPECT_EQ(Encode(Merged({second, first})), Encode(merged));
  EXPECT_EQ(Encode(Decoded(Encode(merged))), Encode(merged));
}

TEST(TemplateMerge, TheNewestAttemptOfAWorkerWins) {
  Template old = SampleTemplate();
  Template fresh = SampleTemplate();
  fresh.created_ns++;
  fresh.flags = kTraced | kPartial;
  fresh.groups.resize(1);
  ChangeExtents(&fresh.groups[0], [](std::vector<Extent>& extents) { extents.resize(2); });
  const Template merged = Merged({old, fresh});
  EXPECT_EQ(merged.groups[0].extents.size(), 2u);
  EXPECT_EQ(merged.groups.size(), 3u);
  EXPECT_EQ(merged.flags, kTraced | kPartial | kMerged);  // not all parts were complete
}

TEST(TemplateMerge, RefusesWhatDoesNotBelongTogether) {
  std::string error;
  EXPECT_FALSE(Merge({}, &error).has_value());
  EXPECT_NE(error, "");
  Template a = SampleTemplate();
  Template b = SampleTemplate();
  b.service_id = "another-service";
  const Template services[] = {a, b};
  EXPECT_FALSE(Merge(services, &error).has_value());
  EXPECT_TRUE(Has(error, "another-service"));
  b = a;
  b.files[3].fingerprint[0] ^= 1;
  const Template files[] = {a, b};
  EXPECT_FALSE(Merge(files, &error).has_value());
  EXPECT_TRUE(Has(error, a.files[3].path));
}

TEST(TemplateReplaceFile, TakesTheNewExtentsInPlace) {
  Template t = SampleTemplate();
  Template fresh;
  fresh.files = {t.files[0]};
  fresh.files[0].size = 128 << 20;
  TemplateGroup group;
  group.extents = {{0, 20000, 5}, {0, 1, 1}};
  fresh.groups = {group};
  ASSERT_TRUE(ReplaceFile(&t, 0, fresh));
  EXPECT_EQ(t.files[0].size, 128u << 20);
  EXPECT_EQ(t.groups[0].extents[0].page, 20000u);
  EXPECT_EQ(t.groups[0].extents[1].page, 1u);
  EXPECT_EQ(t.groups[0].extents[2].file, 1u);
  EXPECT_EQ(t.groups[0].extents.back().file, 2u);  // the second pass over it is gone
  EXPECT_TRUE(t.groups[2].extents.empty());        // common: not known to read it any more
  EXPECT_EQ(Check(t), "");
  // Worker 1 reads file 3, which fresh has nothing about for it.
  EXPECT_FALSE(ReplaceFile(&t, 3, fresh));
}

// What a start says of the template that it followed.

// A good one.
TemplateUse Good() {
  TemplateUse use;
  use.matched_events = 1000;
  use.listed_bytes = use.model_bytes = 1 << 30;
  use.dropped_bytes = 1 << 30;
  return use;
}

TEST(TemplateFeedback, EachErrorHasItsBound) {
  EXPECT_EQ(Judge(Good()).verdict, Verdict::kGood);
  const auto verdict = [](uint64_t TemplateUse::*member, uint64_t value) {
    TemplateUse use = Good();
    use.*member = value;
    return Judge(use).verdict;
  };
  EXPECT_EQ(verdict(&TemplateUse::foreign_events, 300), Verdict::kGood);
  EXPECT_EQ(verdict(&TemplateUse::foreign_events, 400), Verdict::kRecord);
  EXPECT_EQ(verdict(&TemplateUse::unknown_events, 100), Verdict::kGood);
  EXPECT_EQ(verdict(&TemplateUse::unknown_events, 200), Verdict::kRecord);
  EXPECT_EQ(verdict(&TemplateUse::refault_bytes, 50 << 20), Verdict::kGood);
  EXPECT_EQ(verdict(&TemplateUse::refault_bytes, 60 << 20), Verdict::kRecord);
  EXPECT_EQ(verdict(&TemplateUse::unread_bytes, 250 << 20), Verdict::kGood);
  EXPECT_EQ(verdict(&TemplateUse::unread_bytes, 260 << 20), Verdict::kRepair);
  EXPECT_EQ(verdict(&TemplateUse::unlisted_bytes, 250 << 20), Verdict::kGood);
  EXPECT_EQ(verdict(&TemplateUse::unlisted_bytes, 260 << 20), Verdict::kRepair);
}

TEST(TemplateFeedback, AFewEventsSayNothing) {
  TemplateUse use;
  use.matched_events = 10;
  use.foreign_events = 40;
  EXPECT_EQ(Judge(use).verdict, Verdict::kGood);
  use.foreign_events = 60;
  EXPECT_EQ(Judge(use).verdict, Verdict::kRecord);
}

TEST(TemplateFeedback, WhoIsReadElsewhereIsRecordedThoughMuchIsUnread) {
  TemplateUse use = Good();
  use.foreign_events = 1000;
  use.unread_bytes = use.model_bytes;
  EXPECT_EQ(Judge(use).verdict, Verdict::kRecord);
}

// Sizes of templates at true layout against the paper's Table 3, recorded from
// simulated loads; ppc-template-bench prints them.

struct Row {
  const char* model;
  uint32_t workers;
  size_t most_bytes;
  size_t most_held_bytes;  // while it is used
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.model; }

uint64_t ModelBytes(const char* model) {
  uint64_t bytes = 0;
  for (const bench::Shard& shard : bench::ShardModel(*bench::FindModel(model), 1))
    bytes += shard.Header().size() + shard.data_bytes();
  return bytes;
}

class TemplateSize : public testing::TestWithParam<Row> {};

TEST_P(TemplateSize, IsBelowThePapersTable3) {
  const Row& row = GetParam();
  const Template t =
      bench::SimulateRecording(*bench::FindModel(row.model), 1, row.workers, bench::Jitter{});
  ASSERT_EQ(Check(t), "");
  EXPECT_EQ(t.groups.size(), row.workers + 1);
  // It lists the whole model, and hardly a page that is not of it.
  EXPECT_GE(DistinctBytes(t), ModelBytes(row.model));
  EXPECT_LE(DistinctBytes(t), ModelBytes(row.model) + (64 << 20));
  std::vector<uint8_t> bytes = Encode(t);
  RecordProperty("bytes", static_cast<int>(bytes.size()));
  EXPECT_LE(bytes.size(), row.most_bytes);
  const Template back = Decoded(bytes);
  EXPECT_EQ(Encode(back), bytes);
  const std::vector<uint64_t> numbers(t.files.size(), 1);
  EXPECT_LE(Layout(back, numbers).held_bytes(), row.most_held_bytes);
}

constexpr size_t kMegabyte = 1000 * 1000;

// A quarter of the paper's sizes; of DeepSeek-R1 less than the paper's.
INSTANTIATE_TEST_SUITE_P(Models, TemplateSize,
                         testing::Values(Row{"qwen2.5-7b", 4, 11000 / 4, 2 * kMegabyte},
                                         Row{"qwen2.5-32b", 4, 32000 / 4, 2 * kMegabyte},
                                         Row{"qwen2.5-72b", 4, 95000 / 4, 2 * kMegabyte},
                                         Row{"llama-2-7b", 4, 14000 / 4, 2 * kMegabyte},
                                         Row{"llama-2-70b", 4, 118000 / 4, 2 * kMegabyte},
                                         Row{"deepseek-r1", 16, 545000 - 1, 9 * kMegabyte}));

}  // namespace
}  // namespace ppc::maio
