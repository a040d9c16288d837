// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/checkpoint_area.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/fuzz.h"

namespace ppc {
namespace {

constexpr size_t kBytes = 4096;

class CheckpointAreaTest : public ::testing::Test {
 protected:
  CheckpointAreaTest() : file_(memfd_create("checkpoints", MFD_CLOEXEC)) {}
  // As a new runner opens it.
  std::unique_ptr<CheckpointArea> Open() {
    Result<std::unique_ptr<CheckpointArea>> area = CheckpointArea::Open(UniqueFd(dup(file_.Get())));
    EXPECT_TRUE(area.ok());
    return area ? std::move(*area) : nullptr;
  }
  static bool IsZero(const void* record, size_t bytes) {
    const auto* const data = static_cast<const uint8_t*>(record);
    return std::all_of(data, data + bytes, [](uint8_t b) { return b == 0; });
  }
  const UniqueFd file_;
};

TEST_F(CheckpointAreaTest, ARecordOutlivesTheProcess) {
  {
    const auto area = Open();
    for (const std::string id : {"", "one", "two"}) {
      void* const record = area->Record(id, kBytes);
      ASSERT_NE(record, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(record) % 8, 0u);
      EXPECT_TRUE(IsZero(record, kBytes));
      std::memset(record, id.empty() ? 'm' : id[0], kBytes);
    }
    area->End("two");
  }
  const auto area = Open();
  area->Begin("one", /*is_resumed=*/true);
  EXPECT_EQ(static_cast<char*>(area->Record("one", kBytes))[kBytes - 1], 'o');
  EXPECT_EQ(static_cast<char*>(area->Record("", kBytes))[0], 'm');
  EXPECT_TRUE(IsZero(area->Record("two", kBytes), kBytes)) << "of a service that was stopped";
}

TEST_F(CheckpointAreaTest, AServiceThatBeginsHasNone) {
  const auto area = Open();
  std::memset(area->Record("one", kBytes), 1, kBytes);
  area->Begin("one", /*is_resumed=*/false);
  EXPECT_TRUE(IsZero(area->Record("one", kBytes), kBytes));
}

TEST_F(CheckpointAreaTest, OfAnotherSizeItIsNew) {
  const auto area = Open();
  std::memset(area->Record("one", kBytes), 1, kBytes);
  EXPECT_TRUE(IsZero(area->Record("one", 2 * kBytes), 2 * kBytes));
}

TEST_F(CheckpointAreaTest, ThereIsAnEnd) {
  const auto area = Open();
  EXPECT_EQ(area->Record("one", CheckpointArea::kMaxBytes + 1), nullptr);
  EXPECT_EQ(area->Record(std::string(72, 'x'), kBytes), nullptr);
  int services = 0;
  while (services < 1000 && area->Record("s" + std::to_string(services), kBytes) != nullptr)
    services++;
  EXPECT_EQ(services, 256);
  area->End("s0");
  EXPECT_NE(area->Record("another", kBytes), nullptr);
}

// Those of services that ended while there was no runner.
TEST_F(CheckpointAreaTest, ForgottenOnesMakeRoom) {
  {
    const auto area = Open();
    for (int i = 0; i < 256; i++) ASSERT_NE(area->Record("s" + std::to_string(i), 64), nullptr);
  }
  const auto area = Open();
  area->Begin("s7", /*is_resumed=*/true);
  for (int i = 0; i < 255; i++) ASSERT_NE(area->Record("t" + std::to_string(i), 64), nullptr) << i;
  EXPECT_EQ(area->Record("one more", 64), nullptr);
}

// Some of the table, all of it, or the file's size.
void Spoil(int file, std::mt19937* random) {
  constexpr size_t kTableBytes = size_t{257} * 80;
  const auto kind = (*random)() % 16;
  if (kind == 0) {
    std::vector<uint8_t> noise(kTableBytes);
    for (uint8_t& byte : noise) byte = static_cast<uint8_t>((*random)());
    ASSERT_EQ(pwrite(file, noise.data(), noise.size(), 0), ssize_t(noise.size()));
  } else if (kind == 1) {
    ASSERT_EQ(ftruncate(file, static_cast<off_t>((*random)() % (1 << 20))), 0);
  }
  for (unsigned times = kind < 2 ? 0 : 1 + (*random)() % 4; times > 0; times--) {
    const auto byte = static_cast<uint8_t>((*random)() % 2 == 0 ? (*random)() : (*random)() % 80);
    const auto at = static_cast<off_t>((*random)() % kTableBytes);
    ASSERT_EQ(pwrite(file, &byte, 1, at), 1);
  }
}

// What is handed out is of the size that was asked for, and nobody else's.
TEST_F(CheckpointAreaTest, WhateverIsInTheFile) {
  const std::string kIds[] = {"", "one", "two"};
  std::mt19937 random(1);
  int handed_out = 0;
  const int mutations = Mutations(20000);
  GrowthCheck growth(mutations);
  for (int i = 0; i < mutations; i++) {
    growth.Round();
    ASSERT_NO_FATAL_FAILURE(Spoil(file_.Get(), &random));
    const auto area = Open();
    const size_t bytes = i % 64 == 0 ? CheckpointArea::kMaxBytes : 1 + random() % kBytes;
    area->Begin("one", i % 2 != 0);
    std::vector<uint8_t*> records;
    for (const std::string& id : kIds) {
      auto* const record = static_cast<uint8_t*>(area->Record(id, bytes));
      if (record == nullptr) continue;
      std::memset(record, static_cast<int>(records.size() + 1), bytes);
      records.push_back(record);
    }
    for (size_t r = 0; r < records.size(); r++) {
      ASSERT_EQ(records[r][0], r + 1);
      ASSERT_EQ(records[r][bytes - 1], r + 1);
    }
    handed_out += static_cast<int>(records.size());
    if (i % 4 == 0) area->End("one");
  }
  EXPECT_GT(handed_out, mutations);
}

TEST_F(CheckpointAreaTest, NotAFileIsRefused) {
  EXPECT_FALSE(CheckpointArea::Open(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC))).ok());
  EXPECT_FALSE(CheckpointArea::Open(UniqueFd(-1)).ok());
}

}  // namespace
}  // namespace ppc
