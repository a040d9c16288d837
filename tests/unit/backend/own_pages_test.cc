// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/own_pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace ppc {
namespace {

constexpr uint64_t kPart = 1 << 20;
using Parts = std::vector<std::pair<uint64_t, uint64_t>>;

TEST(OwnPagesTest, AFileOfWhichNothingIsOursIsForgotten) {
  DiscoveredFiles discovered(16);
  OwnPages own(&discovered);
  for (uint64_t file = 1; file <= 1000000; ++file) {
    own.Add(file, 0, kPart);
    own.Remove(file, 0, kPart);
  }
  EXPECT_EQ(own.Size(), 0u);
  own.Add(5, 0, 2 * kPart);
  own.Remove(5, 0, kPart);
  EXPECT_EQ(own.Within(5, 0, 4 * kPart), (Parts{{kPart, kPart}}));
}

TEST(OwnPagesTest, FilesThatNobodyDropsAreBounded) {
  DiscoveredFiles discovered(16);
  OwnPages own(&discovered);
  for (uint64_t file = 1; file <= 2 * OwnPages::kMaxFiles; ++file) own.Add(file, 0, kPart);
  EXPECT_EQ(own.Size(), OwnPages::kMaxFiles);
  EXPECT_FALSE(own.Within(2 * OwnPages::kMaxFiles, 0, kPart).empty()) << "the newest";
}

}  // namespace
}  // namespace ppc
