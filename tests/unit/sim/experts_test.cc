// SPDX-License-Identifier: Apache-2.0
#include "sim/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace ppc::sim {
namespace {

TEST(SimExperts, TokensNeedDifferentExpertsAndSomeMoreOften) {
  constexpr uint32_t kExperts = 16;
  const auto tokens = ChooseExperts({.used = 4}, 2, kExperts, 1000);
  ASSERT_EQ(tokens.size(), 1000u);
  std::vector<int> uses[2] = {std::vector<int>(kExperts), std::vector<int>(kExperts)};
  for (size_t i = 0; i < tokens.size(); ++i) {
    for (const auto& layer : tokens[i])
      EXPECT_EQ(std::set<uint32_t>(layer.begin(), layer.end()).size(), 4u);
    for (const uint32_t expert : tokens[i][0]) ++uses[i >= 500][expert];
  }
  const auto most = [](const std::vector<int>& its) { return std::ranges::max_element(its); };
  EXPECT_GT(*most(uses[0]), 2 * 500 * 4 / static_cast<int>(kExperts));
  EXPECT_NE(most(uses[0]) - uses[0].begin(), most(uses[1]) - uses[1].begin()) << "another topic";
}

TEST(SimExperts, AllOfASeldomChangingTokenStays) {
  const auto tokens = ChooseExperts({.used = 4, .sticky = 1}, 1, 16, 10);
  for (const Token& token : tokens) EXPECT_EQ(token, tokens[0]);
}

TEST(SimExperts, TheOptimumKeepsWhatIsNeededSoonest) {
  EXPECT_EQ(LeastMisses({1, 2, 3, 1, 2, 3}, 3), 3u);
  EXPECT_EQ(LeastMisses({1, 2, 3, 1, 2, 3}, 2), 4u);  // LRU: 6
  EXPECT_EQ(LeastMisses({1, 1, 1}, 1), 1u);
}

}  // namespace
}  // namespace ppc::sim
