// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/discovered_files.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "daemon/base/clock.h"

namespace ppc {
namespace {

constexpr uint64_t kNow = 1000 * kNsPerSec;

TEST(DiscoveredFiles, AFileHasOneNumber) {
  DiscoveredFiles files(1024);
  DiscoveredFiles::File gone;
  const uint64_t number = files.Discover({12, 7}, kNow, &gone);
  ASSERT_TRUE(DiscoveredFiles::IsDiscovered(number));
  EXPECT_LT(number, uint64_t{1} << 40);
  EXPECT_EQ(files.Discover({12, 7}, kNow, &gone), number);
  EXPECT_EQ(files.NumberOf(12), number);
  EXPECT_EQ(files.NumberOf(13), 0u);
  const auto file = files.Get(number);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->ino, 12u);
  EXPECT_EQ(file->generation, 7u);
  EXPECT_FALSE(files.Get(number + 1));
  EXPECT_FALSE(files.Get(12));
  EXPECT_EQ(files.Discover({uint64_t{1} << 40, 7}, kNow, &gone), 0u);
}

TEST(DiscoveredFiles, AnInodeThatIsUsedAgainIsAnotherFile) {
  DiscoveredFiles files(1024);
  DiscoveredFiles::File gone;
  const uint64_t number = files.Discover({12, 7}, kNow, &gone);
  EXPECT_TRUE(files.Confirm(number, false));
  files.SetUnits(number, 3);
  const uint64_t next = files.Discover({12, 8}, kNow, &gone);
  EXPECT_NE(next, number);
  EXPECT_EQ(gone.ino, 12u);
  EXPECT_EQ(gone.generation, 7u);
  EXPECT_FALSE(files.Get(number));
  EXPECT_EQ(files.Units(next), 0u);
  EXPECT_EQ(files.Files(), 0u);
}

TEST(DiscoveredFiles, WhatIsNotOursIsBelievedForAWhile) {
  DiscoveredFiles files(1024);
  DiscoveredFiles::File gone;
  const uint64_t number = files.Discover({12, 7}, kNow, &gone);
  files.Refuse(number, kNow);
  EXPECT_FALSE(files.Get(number));
  EXPECT_EQ(files.NumberOf(12), 0u);
  EXPECT_EQ(files.Discover({12, 7}, kNow + 9 * kNsPerSec, &gone), 0u);
  EXPECT_EQ(files.Discover({12, 7}, kNow + 11 * kNsPerSec, &gone), number);
}

TEST(DiscoveredFiles, IsToldOnceThatItIsListed) {
  DiscoveredFiles files(1024);
  DiscoveredFiles::File gone;
  const uint64_t number = files.Discover({12, 7}, kNow, &gone);
  EXPECT_TRUE(files.Confirm(number, true));
  EXPECT_FALSE(files.Confirm(number, true));
  EXPECT_TRUE(files.Confirm(number, false));
  EXPECT_EQ(files.Files(), 1u);
  files.Forget(number);
  EXPECT_EQ(files.Files(), 0u);
  EXPECT_FALSE(files.Confirm(number, true));
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
