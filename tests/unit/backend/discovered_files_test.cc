// SPDX-License-Identifier: Apache-2.0
// Files by their inodes: those that are discovered, the table that the kernel looks them up in, and
// which of their pages are ours.
#include "daemon/backend/observer/discovered_files.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/backend/observer/inode_table.h"
#include "daemon/backend/observer/observer_io.h"
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
  ASSERT_TRUE(DiscoveredFiles::IsDiscovered(number_));
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

InodeTable::File FileOf(ino_t ino, std::string_view name) {
  return {.parent = 3, .name = name, .dev = 8, .ino = ino, .key = {ino + 1, 0x800001, 5}};
}

TEST(InodeTable, GivesBackWhatWasAdded) {
  InodeTable table;
  EXPECT_EQ(table.NextNumber(), 1U);
  EXPECT_EQ(table.Add(FileOf(10, "a")), 1U);
  EXPECT_EQ(table.Add(FileOf(11, "a longer name than most")), 2U);
  const auto second = table.Get(2);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->name, "a longer name than most");
  EXPECT_EQ(second->parent, 3U);
  EXPECT_EQ(second->dev, 8U);
  EXPECT_EQ(second->ino, 11U);
  EXPECT_EQ(second->key.ino, 12U);
  EXPECT_EQ(second->key.dev, 0x800001U);
  EXPECT_EQ(second->key.subvolume, 5U);
  EXPECT_EQ(table.NumberOf(8, 10), 1U);
  EXPECT_EQ(table.NumberOf(9, 10), 0U);
  EXPECT_FALSE(table.Get(0));
  EXPECT_FALSE(table.Get(3));
}

TEST(InodeTable, ARemovedFileIsGoneAndItsNumberIsNotGivenAgain) {
  InodeTable table;
  table.Add(FileOf(10, "a"));
  table.Remove(1);
  EXPECT_FALSE(table.Get(1));
  EXPECT_EQ(table.NumberOf(8, 10), 0U);
  EXPECT_EQ(table.Add(FileOf(10, "b")), 2U);
  EXPECT_EQ(table.NumberOf(8, 10), 2U);
  EXPECT_EQ(table.Numbers(), 2U);
}

TEST(InodeTable, AFileMayChangeToANameOfItsOwnTable) {
  InodeTable table;
  table.Add(FileOf(10, "before"));
  table.Add(FileOf(11, "after"));
  table.Change(1, FileOf(10, table.Get(2)->name));
  EXPECT_EQ(table.Get(1)->name, "after");
}

TEST(InodeTable, NamesOfTheGoneMakeRoomAndOthersStay) {
  InodeTable table;
  table.Add(FileOf(1, "stays"));
  const std::string name(200, 'n');
  for (ino_t ino = 2; ino < 3000; ++ino) {
    const uint64_t number = table.Add(FileOf(ino, name + std::to_string(ino)));
    ASSERT_EQ(table.Get(number)->name, name + std::to_string(ino));
    table.Remove(number);
  }
  EXPECT_EQ(table.Get(1)->name, "stays");
  EXPECT_LE(table.NameBytes(), 256U << 10);
}

constexpr uint64_t kPart = 1 << 20;
using Parts = std::vector<std::pair<uint64_t, uint64_t>>;

TEST(DroppableRangesTest, AFileOfWhichNothingIsOursIsForgotten) {
  DiscoveredFiles discovered(16);
  DroppableRanges ranges(&discovered);
  for (uint64_t file = 1; file <= 1000000; ++file) {
    ranges.Add(file, 0, kPart);
    ranges.Remove(file, 0, kPart);
  }
  EXPECT_EQ(ranges.Size(), 0u);
  ranges.Add(5, 0, 2 * kPart);
  ranges.Remove(5, 0, kPart);
  EXPECT_EQ(ranges.Within(5, 0, 4 * kPart), (Parts{{kPart, kPart}}));
}

TEST(DroppableRangesTest, FilesThatNobodyDropsAreBounded) {
  DiscoveredFiles discovered(16);
  DroppableRanges ranges(&discovered);
  for (uint64_t file = 1; file <= 2 * DroppableRanges::kMaxFiles; ++file)
    ranges.Add(file, 0, kPart);
  EXPECT_EQ(ranges.Size(), DroppableRanges::kMaxFiles);
  EXPECT_FALSE(ranges.Within(2 * DroppableRanges::kMaxFiles, 0, kPart).empty()) << "the newest";
}

}  // namespace
}  // namespace ppc
