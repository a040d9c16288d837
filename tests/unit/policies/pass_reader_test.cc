// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "policies/maio/passes/reader.h"
#include "tests/unit/units.h"

namespace ppc::maio {
namespace {

constexpr uint64_t kMillisecond = 1'000'000;

// Two files of 320 MiB, and a small one that is no part of a pass.
class PassReaderTest : public ::testing::Test {
 protected:
  static Template TwoFiles() {
    Template t;
    t.service_id = "abcd";
    t.files.push_back({"a", 320 << 20, 0, FileKind::kSafetensors, {}});
    t.files.push_back({"b", 320 << 20, 0, FileKind::kSafetensors, {}});
    t.files.push_back({"c.json", 1 << 20, 0, FileKind::kSmall, {}});
    t.groups.resize(1);
    t.groups[0].extents = {{0, 0, 320 * kMiBPages}, {1, 0, 320 * kMiBPages}, {2, 0, kMiBPages}};
    return t;
  }
  std::optional<Pass> At(uint64_t mib, uint64_t ms, bool is_miss = true) {
    return reader_.Observe({.file = mib < 320 ? 1u : 2u,
                            .offset = mib % 320 * kMiB,
                            .bytes = kMiB,
                            .is_miss = is_miss,
                            .now_ns = ms * kMillisecond});
  }
  // [from, to) MiB, a millisecond each; what it ended.
  std::optional<Pass> Read(uint64_t from, uint64_t to) {
    std::optional<Pass> ended;
    for (uint64_t mib = from; mib < to; mib++) {
      if (const auto pass = At(mib, ++ms_)) ended = pass;
    }
    return ended;
  }

  Layout layout_{TwoFiles(), std::vector<uint64_t>{1, 2, 3}};
  PassReader reader_{layout_};
  uint64_t ms_ = 1000;
};

TEST_F(PassReaderTest, CutsTheModelInStripes) {
  EXPECT_EQ(reader_.bytes(), 640 * kMiB);
  EXPECT_EQ(reader_.stripe_bytes(), 10 * kMiB);
  EXPECT_EQ(reader_.count(), 64u);
}

TEST_F(PassReaderTest, APassIsWholeOnceItsBeginWasSeen) {
  EXPECT_FALSE(Read(100, 640));
  const auto first = Read(0, 640);
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->is_whole);
  const auto second = Read(0, 1);
  ASSERT_TRUE(second);
  EXPECT_TRUE(second->is_whole);
  EXPECT_EQ(second->ns, 640 * kMillisecond);
  EXPECT_EQ(second->missed, 640 * kMiB);
  EXPECT_EQ(reader_.turn(), 2 * reader_.count());
}

TEST_F(PassReaderTest, ThreadsMayBeAStripeOrTwoApart) {
  Read(0, 640);
  Read(0, 1);
  for (uint64_t mib = 20; mib < 640; mib += 10) {
    At(mib, ++ms_);
    At(mib - 20, ++ms_);
  }
  const auto pass = Read(0, 1);
  ASSERT_TRUE(pass);
  EXPECT_TRUE(pass->is_whole);
}

// What the memory holds is read without a word.
TEST_F(PassReaderTest, SilentPartsBelongToAPass) {
  Read(0, 640);
  Read(0, 100);
  const auto pass = Read(350, 640);
  EXPECT_FALSE(pass);
  const auto ended = Read(0, 1);
  ASSERT_TRUE(ended);
  EXPECT_TRUE(ended->is_whole);
  EXPECT_EQ(ended->missed, 390 * kMiB);
}

TEST_F(PassReaderTest, GoingBackIsNoPass) {
  Read(0, 640);
  Read(0, 400);
  const auto back = At(100, ++ms_);  // forward, that would be over the end
  EXPECT_TRUE(!back || !back->is_whole);
  Read(101, 640);
  const auto pass = Read(0, 1);
  ASSERT_TRUE(pass);
  EXPECT_FALSE(pass->is_whole);
}

TEST_F(PassReaderTest, WhatIsReadHereAndThereIsNoPass) {
  uint64_t at = 7, whole = 0;
  for (int i = 0; i < 20000; i++) {
    at = (at * 69069 + 12345) % 640;
    const auto pass = At(at, ++ms_);
    whole += pass && pass->is_whole ? 1 : 0;
  }
  EXPECT_EQ(whole, 0u);
}

TEST_F(PassReaderTest, ARestSaysNothingOfThePassesTime) {
  Read(0, 640);
  Read(0, 300);
  ms_ += 5000;
  Read(300, 640);
  const auto pass = Read(0, 1);
  ASSERT_TRUE(pass);
  EXPECT_FALSE(pass->is_whole);
}

TEST_F(PassReaderTest, MissesOfWhatIsKeptAreCounted) {
  for (Stripe& stripe : reader_.stripes()) stripe.kept = 4 * kMiB;
  Read(0, 640);
  const auto pass = Read(0, 1);
  ASSERT_TRUE(pass);
  EXPECT_EQ(pass->kept_missed, 640 * kMiB / 10 * 4);
}

TEST_F(PassReaderTest, OtherFilesAreNoneOfIt) {
  EXPECT_FALSE(
      reader_.Observe({.file = 3, .offset = 0, .bytes = 4096, .is_miss = true, .now_ns = 1}));
  EXPECT_FALSE(
      reader_.Observe({.file = 9, .offset = 0, .bytes = 4096, .is_miss = true, .now_ns = 1}));
  EXPECT_EQ(reader_.Ahead(3, 0), reader_.count());
}

TEST_F(PassReaderTest, APlaceLiesAheadRoundTheEnd) {
  Read(0, 400);
  EXPECT_EQ(reader_.Ahead(2, 80 * kMiB), 1u);
  EXPECT_EQ(reader_.Ahead(1, 0), 64u - 39);
}

}  // namespace
}  // namespace ppc::maio
