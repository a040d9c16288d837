// SPDX-License-Identifier: Apache-2.0
// Touches to sequences.
#include "policies/maio/record/recorder.h"

#include <gtest/gtest.h>

#include "policies/maio/record/scattered_read_detector.h"

namespace ppc::maio {
namespace {

class RecorderTest : public ::testing::Test {
 protected:
  RecorderTest() {
    for (int i = 0; i < 3; i++) {
      TemplateFile f;
      f.path = "f" + std::to_string(i) + ".safetensors";
      f.size = 8ull << 30;
      f.kind = FileKind::kSafetensors;
      recorder_.AddFile(10 + static_cast<uint64_t>(i), f);
    }
  }
  void Touch(uint32_t file, uint64_t first, uint64_t end, uint32_t group = 0) {
    recorder_.Touch(group, file, first, end, now_ += 1'000'000);
  }
  std::string Sequence(size_t group = 0) {
    Template t = Recorder(recorder_).Finish("abcd", 0, 0);
    std::string text;
    for (const Extent& e : t.groups.at(group).extents) {
      text += std::to_string(e.file) + ":" + std::to_string(e.page) + "+" +
              std::to_string(e.pages) + " ";
    }
    return text;
  }

  Recorder recorder_{0};
  uint64_t now_ = 0;
};

TEST_F(RecorderTest, JoinsNeighboursAndSmallGaps) {
  Touch(0, 0, 10);
  Touch(0, 10, 20);
  Touch(0, 20 + 16, 100);
  Touch(0, 100 + 17, 200);
  EXPECT_EQ(Sequence(), "0:0+100 0:117+83 ");
  EXPECT_EQ(Recorder(recorder_).Finish("abcd", 0, 0).groups[0].overread_bytes, 16 * kPage);
}

// It begins an automatic service.
TEST_F(RecorderTest, ATouchBeforeTheStartIsAtTheStart) {
  Recorder recorder(5'000'000'000);
  recorder.AddFile(10, recorder_.files()[0]);
  recorder.Touch(0, 0, 0, 10, 4'999'000'000);
  EXPECT_EQ(Recorder(recorder).Finish("abcd", 0, 0).groups[0].last_ms, 0u);
  recorder.Touch(0, 0, 10, 20, 5'002'000'000);
  const Template t = std::move(recorder).Finish("abcd", 0, 0);
  EXPECT_EQ(t.groups[0].first_ms, 0u);
  EXPECT_EQ(t.groups[0].last_ms, 2u);
}

TEST_F(RecorderTest, JoinsRowsOverWiderGapsThanTensors) {
  for (uint64_t row = 0; row < 100; row++) Touch(0, row * 26, row * 26 + 3);  // 405B, eight workers
  EXPECT_EQ(Sequence(), "0:0+2577 ");
  Touch(1, 0, 32, 1);  // halves of two small tensors, the gap is the other worker's
  Touch(1, 64, 96, 1);
  EXPECT_EQ(Sequence(1), "1:0+32 1:64+32 ");
}

TEST_F(RecorderTest, GroupsThatChangePlacesTakeTheirReadsAlong) {
  Touch(0, 0, 10, 0);
  Touch(0, 100, 110, 2);
  recorder_.Swap(0, 2);
  Touch(0, 110, 120, 0);
  recorder_.Swap(2, 1);  // one has read nothing yet
  Touch(0, 10, 20, 1);
  EXPECT_EQ(Sequence(0), "0:100+20 ");
  EXPECT_EQ(Sequence(1), "0:0+20 ");
  const Template t = Recorder(recorder_).Finish("abcd", 0, 0);
  ASSERT_EQ(t.groups.size(), 2u);
  EXPECT_EQ(t.groups[1].id, 1u);
}

TEST_F(RecorderTest, SwappedGroupsTakeTheirPlacesInPhasesAlong) {
  Touch(0, 0, 10, 0);
  Touch(0, 100, 102, 1);
  recorder_.Mark(Phase::kCompile, /*is_told=*/true, 0);
  recorder_.Swap(0, 1);
  const auto& positions = recorder_.phases().back().positions;
  ASSERT_EQ(positions.size(), 2u);
  for (auto [group, bytes] : positions) EXPECT_EQ(bytes, (group == 1 ? 10 : 2) * kPage);
}

// A service computes from what it has mapped.
TEST_F(RecorderTest, PagesThatMayNotRepeatAreListedOnce) {
  const uint64_t pages = 2 * kSecondPassBytes / kPage;
  for (uint64_t at = 0; at < pages; at += 256) Touch(0, at, at + 256);
  recorder_.Touch(0, 0, 0, pages, now_, /*may_repeat=*/false);
  const Template t = Recorder(recorder_).Finish("abcd", 0, 0);
  EXPECT_EQ(SequenceBytes(t.groups[0]), pages * kPage);
  EXPECT_EQ(t.groups[0].repeat_bytes, pages * kPage);
}

TEST_F(RecorderTest, DropsRepeatsAndCountsThem) {
  Touch(0, 0, 100);
  Touch(0, 50, 120);
  Touch(0, 0, 30);
  EXPECT_EQ(Sequence(), "0:0+120 ");
  EXPECT_EQ(Recorder(recorder_).Finish("abcd", 0, 0).groups[0].repeat_bytes, 80 * kPage);
}

TEST_F(RecorderTest, GapThatWasReadBeforeIsNotListedTwice) {
  Touch(0, 50, 60);
  Touch(0, 0, 40);
  Touch(0, 70, 80);
  EXPECT_EQ(Sequence(), "0:50+10 0:0+40 0:70+10 ");
}

TEST_F(RecorderTest, FilesReadSideBySideStayInOrder) {
  for (uint64_t i = 0; i < 64; i++) {
    Touch(0, i * 100, i * 100 + 100);
    Touch(1, i * 100, i * 100 + 100);
  }
  // Extents of some 4 MiB in turns, not one file after the other.
  Template t = Recorder(recorder_).Finish("abcd", 0, 0);
  ASSERT_GE(t.groups[0].extents.size(), 6u);
  for (const Extent& e : t.groups[0].extents) EXPECT_LE(e.pages, 1200u);
}

TEST_F(RecorderTest, ASecondPassIsListedAgain) {
  uint64_t pages = 2 * kSecondPassBytes / kPage;
  for (uint64_t at = 0; at < pages; at += 256) Touch(0, at, at + 256);
  Touch(0, 0, 100);  // soon after the end: the first pages are long gone
  Template t = Recorder(recorder_).Finish("abcd", 0, 0);
  EXPECT_EQ(SequenceBytes(t.groups[0]), (pages + 100) * kPage);
  Touch(0, 0, 100);
  EXPECT_EQ(SequenceBytes(Recorder(recorder_).Finish("abcd", 0, 0).groups[0]),
            (pages + 100) * kPage);
}

TEST_F(RecorderTest, GroupsAreApartAndClampedToTheFile) {
  Touch(0, 0, 10, 1);
  Touch(0, 5, 15, 0);
  Touch(2, (8ull << 30) / kPage - 1, (8ull << 30) / kPage + 50, kCommonGroup);
  Template t = Recorder(recorder_).Finish("abcd", 0, 0);
  ASSERT_EQ(t.groups.size(), 3u);
  EXPECT_EQ(t.groups[0].id, 0u);
  EXPECT_EQ(t.groups[2].id, kCommonGroup);
  EXPECT_EQ(t.groups[2].extents[0].pages, 1u);
  EXPECT_EQ(Check(t), "");
}

TEST_F(RecorderTest, TimeMarksEvery64MiB) {
  for (uint64_t i = 0; i < 200; i++) Touch(0, i * 256, i * 256 + 256);
  Template t = Recorder(recorder_).Finish("abcd", 0, 0);
  EXPECT_EQ(t.groups[0].time_ms.size(), 3u);
  EXPECT_GT(t.groups[0].time_ms[1], 50u);
}

TEST_F(RecorderTest, TooManyExtentsAreMergedNotLost) {
  uint64_t stride = 100;  // gap of 99 pages: beyond the merge limit at first
  for (uint64_t i = 0; i < kMaxExtents + 1000; i++)
    recorder_.Touch(0, 0, i * stride % 2000000, i * stride % 2000000 + 1, 1);
  for (uint64_t i = 0; i < kMaxExtents + 1000; i++) recorder_.Touch(0, 1, i, i + 1, 1);
  Template t = Recorder(recorder_).Finish("abcd", 0, 0);
  EXPECT_LE(t.groups[0].extents.size(), kMaxExtents);
  EXPECT_EQ(t.flags, 0u);  // nothing was left out
  EXPECT_EQ(Check(t), "");
}

TEST_F(RecorderTest, ATableThatOverflowsSaysSo) {
  TemplateFile huge;
  huge.path = "huge.safetensors";
  huge.size = 1ull << 44;
  huge.kind = FileKind::kSafetensors;
  const auto file = static_cast<uint32_t>(recorder_.AddFile(20, huge));
  const uint64_t stride = (kMergeGapPages << 6) + 10;  // beyond the widest gap that is filled
  for (uint64_t i = 0; i < kMaxExtents; i++)
    recorder_.Touch(0, file, i * stride, i * stride + 1, 1);
  EXPECT_EQ(Recorder(recorder_).Finish("abcd", kComplete, 0).flags, kComplete);
  recorder_.Touch(0, file, kMaxExtents * stride, kMaxExtents * stride + 1, 1);
  Template t = Recorder(recorder_).Finish("abcd", kComplete, 0);
  EXPECT_EQ(t.flags, kComplete | kOverflow);
  EXPECT_EQ(t.groups[0].extents.size(), kMaxExtents);
  EXPECT_EQ(Check(t), "");
}

// Ranks with threads of their own, each in order.
TEST(StepsTest, ManyReadersInOrderAreNotScattered) {
  ScatteredReadDetector steps;
  for (uint64_t turn = 0; turn < 100; ++turn) {
    for (uint64_t reader = 0; reader < 200; ++reader) {
      const uint64_t page = reader << 20 | turn * 8;
      steps.Note(0, page, page + 8);
    }
  }
  EXPECT_FALSE(steps.IsScattered());
  for (uint64_t i = 0; i < 100; ++i)
    steps.Note(0, (i * 7919 % 1000) << 16, ((i * 7919 % 1000) << 16) + 8);
  EXPECT_TRUE(steps.IsScattered());
}

}  // namespace
}  // namespace ppc::maio
