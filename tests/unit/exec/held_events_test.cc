// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/held_events.h"

#include <gtest/gtest.h>

namespace ppc {
namespace {

// What several processes did comes in the order in which it was done.
TEST(HeldEventsTest, EachProcessWaitsForItselfAlone) {
  HeldEvents held;
  const auto event = [](int tgid, uint64_t offset) {
    Event one;
    one.tgid = tgid;
    one.offset = offset;
    return one;
  };
  const auto no_ask = [](const Event&) {};
  uint64_t at = 0;
  for (const int tgid : {3, 1, 2, 1, 3, 2}) ASSERT_FALSE(held.Add(event(tgid, at++), 5, no_ask));
  std::vector<uint64_t> taken;
  size_t asked = 0;
  const auto take_but = [&](int blocked) {
    return [&, blocked](const Event& one, const Arrival&) {
      ++asked;
      if (one.tgid == blocked) return false;
      taken.push_back(one.offset);
      return true;
    };
  };
  held.Release(9, take_but(1), no_ask);
  EXPECT_EQ(taken, (std::vector<uint64_t>{0, 2, 4, 5}));
  EXPECT_EQ(asked, 5u);
  EXPECT_TRUE(held.Holds(1));
  EXPECT_FALSE(held.Holds(2));
  const auto any = [](int) { return true; };
  EXPECT_TRUE(held.HoldsSince(5, any));
  EXPECT_FALSE(held.HoldsSince(6, any)) << "1 has waited since then";
  held.Release(10, take_but(0), no_ask);
  EXPECT_EQ(taken.size(), 6u);
  EXPECT_TRUE(held.empty());
}

}  // namespace
}  // namespace ppc
