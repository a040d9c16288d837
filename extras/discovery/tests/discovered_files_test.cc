// SPDX-License-Identifier: Apache-2.0
#include "extras/discovery/discovered_files.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>

#include "daemon/base/clock.h"

namespace ppc {
namespace {

constexpr uint64_t kNow = 1000 * kNsPerSec;

class DiscoveredFilesTest : public testing::Test {
 protected:
  DiscoveredFiles files_{1024};
  DiscoveredFiles::File gone_;
  const uint64_t number_ = files_.Discover({12, 7}, kNow, &gone_);
};

TEST_F(DiscoveredFilesTest, AFileHasOneNumber) {
  ASSERT_TRUE(FileDiscovery::IsDiscovered(number_));
  EXPECT_LT(number_, uint64_t{1} << 40);
  EXPECT_EQ(files_.Discover({12, 7}, kNow, &gone_), number_);
  EXPECT_EQ(files_.NumberOf(12), number_);
  EXPECT_EQ(files_.NumberOf(13), 0u);
  const auto file = files_.Get(number_);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->ino, 12u);
  EXPECT_EQ(file->generation, 7u);
  EXPECT_FALSE(files_.Get(number_ + 1));
  EXPECT_FALSE(files_.Get(12));
  EXPECT_EQ(files_.Discover({uint64_t{1} << 40, 7}, kNow, &gone_), 0u);
}

TEST_F(DiscoveredFilesTest, AnInodeThatIsUsedAgainIsAnotherFile) {
  EXPECT_TRUE(files_.Confirm(number_, false));
  files_.SetUnits(number_, 3);
  const uint64_t next = files_.Discover({12, 8}, kNow, &gone_);
  EXPECT_NE(next, number_);
  EXPECT_EQ(gone_.ino, 12u);
  EXPECT_EQ(gone_.generation, 7u);
  EXPECT_FALSE(files_.Get(number_));
  EXPECT_EQ(files_.Units(next), 0u);
  EXPECT_EQ(files_.Files(), 0u);
}

TEST_F(DiscoveredFilesTest, WhatIsNotOursIsBelievedForAWhile) {
  files_.Refuse(number_, kNow);
  EXPECT_FALSE(files_.Get(number_));
  EXPECT_EQ(files_.NumberOf(12), 0u);
  EXPECT_EQ(files_.Discover({12, 7}, kNow + 9 * kNsPerSec, &gone_), 0u);
  EXPECT_EQ(files_.Discover({12, 7}, kNow + 11 * kNsPerSec, &gone_), number_);
}

TEST_F(DiscoveredFilesTest, IsToldOnceThatItIsListed) {
  EXPECT_TRUE(files_.Confirm(number_, true));
  EXPECT_FALSE(files_.Confirm(number_, true));
  EXPECT_TRUE(files_.Confirm(number_, false));
  EXPECT_EQ(files_.Files(), 1u);
  files_.Forget(number_);
  EXPECT_EQ(files_.Files(), 0u);
  EXPECT_FALSE(files_.Confirm(number_, true));
}

// What was refused or never confirmed goes before the directory's own.
TEST(DiscoveredFiles, ItDoesNotGrow) {
  constexpr uint64_t kPlaces = 65536;
  DiscoveredFiles files(kPlaces);
  DiscoveredFiles::File gone;
  std::map<uint64_t, uint64_t> numbers;  // inode
  const auto meet = [&](uint64_t ino) {
    const uint64_t number = files.Discover({ino, 5}, kNow, &gone);
    files.Confirm(number, false);
    numbers[number] = ino;
  };
  for (uint64_t ino = 1; ino <= kPlaces / 100 * 95; ++ino) meet(ino);
  EXPECT_GT(files.Files(), kPlaces / 100 * 92);
  const size_t before = files.Files();
  for (uint64_t ino = 1'000'000; ino < 1'000'000 + kPlaces / 32; ++ino)
    files.Discover({ino, 5}, kNow, &gone);
  EXPECT_GT(files.Files(), before / 100 * 97);
  for (uint64_t ino = 100'000; ino < 100'000 + 10 * kPlaces; ++ino) meet(ino);
  EXPECT_LE(files.Files(), kPlaces);
  EXPECT_GT(files.Files(), kPlaces / 100 * 98);
  // A number of one that went is free, but for a few of half a million.
  size_t there = 0;
  size_t others = 0;
  for (const auto& [number, ino] : numbers) {
    const auto file = files.Get(number);
    if (file) ++(file->ino == ino ? there : others);
  }
  EXPECT_EQ(there + others, files.Files());
  EXPECT_LT(others, 20u);
}

}  // namespace
}  // namespace ppc
