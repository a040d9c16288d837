// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/record/in_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace ppc::maio {
namespace {

constexpr uint64_t kMs = 1'000'000;

std::vector<uint64_t> Taken(InOrder* in_order, bool all = false) {
  std::vector<uint64_t> pages;
  while (const auto touched = all ? in_order->Oldest() : in_order->Next())
    pages.push_back(touched->first_page);
  return pages;
}

TEST(InOrderTest, TheEndOfAFileThatIsToldLateComesBeforeTheNextFile) {
  InOrder in_order;
  in_order.Put({1000 * kMs, 1, 0, 10, 11});
  in_order.Put({1020 * kMs, 1, 1, 30, 31});
  in_order.Put({1200 * kMs, 1, 1, 40, 41});
  in_order.Put({1010 * kMs, 1, 0, 20, 21});  // gathered
  EXPECT_TRUE(Taken(&in_order).empty());
  in_order.Put({1520 * kMs, 1, 1, 50, 51});
  EXPECT_EQ(Taken(&in_order), (std::vector<uint64_t>{10, 20, 30}));
  EXPECT_EQ(Taken(&in_order, true), (std::vector<uint64_t>{40, 50}));
}

TEST(InOrderTest, OfOneMomentTheFirstThatWasToldIsFirst) {
  InOrder in_order;
  for (uint64_t page = 0; page < 4; page++) in_order.Put({7 * kMs, 1, 0, page, page + 1});
  EXPECT_EQ(Taken(&in_order, true), (std::vector<uint64_t>{0, 1, 2, 3}));
}

TEST(InOrderTest, HoldsABoundedNumber) {
  InOrder in_order;
  size_t taken = 0;
  for (uint64_t page = 0; page < 3 * kMostLate; page++) {
    in_order.Put({page, 1, 0, page, page + 1});
    taken += Taken(&in_order).size();
  }
  EXPECT_EQ(taken, 2 * kMostLate);
}

}  // namespace
}  // namespace ppc::maio
