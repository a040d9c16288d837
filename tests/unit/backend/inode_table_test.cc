// SPDX-License-Identifier: Apache-2.0
// Files by their inodes: the table of the listed ones, and which of their pages are ours.
#include "daemon/backend/observer/inode_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "daemon/backend/observer/observer_io.h"

namespace ppc {
namespace {

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
  DroppableRanges ranges(nullptr);
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
  DroppableRanges ranges(nullptr);
  for (uint64_t file = 1; file <= 2 * DroppableRanges::kMaxFiles; ++file)
    ranges.Add(file, 0, kPart);
  EXPECT_EQ(ranges.Size(), DroppableRanges::kMaxFiles);
  EXPECT_FALSE(ranges.Within(2 * DroppableRanges::kMaxFiles, 0, kPart).empty()) << "the newest";
}

}  // namespace
}  // namespace ppc
