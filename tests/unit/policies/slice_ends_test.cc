// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/record/slice_ends.h"

#include <gtest/gtest.h>

#include <optional>

namespace ppc::maio {
namespace {

constexpr uint64_t kFolio = 512;

class SliceEndsTest : public ::testing::Test {
 protected:
  // What is taken of pages [first, end) of which [own_first, own_end) are the worker's.
  void Expect(Pages kept, int32_t thread, Pages mapped, std::optional<Pages> own) {
    const Pages got = ends_.Cut(thread, 0, mapped, own);
    EXPECT_EQ(got.first, kept.first);
    EXPECT_EQ(got.end, kept.end);
  }
  SliceEnds ends_;
};

TEST_F(SliceEndsTest, WhatIsTheNeighboursIsCut) {
  Expect({1000, 1100}, 1, {900, 1200}, Pages{1000, 1100});
}

TEST_F(SliceEndsTest, WhoReadsOtherwiseThanTheHeadersSayIsNot) {
  Expect({900, 1200}, 1, {900, 1200}, std::nullopt);
}

TEST_F(SliceEndsTest, MoreThanAFolioHoldsWasRead) {
  Expect({1000, 1100 + kFolio}, 1, {1000 - kFolio + 1, 1100 + kFolio}, Pages{1000, 1100});
  Expect({5000 - kFolio, 5100}, 1, {5000 - kFolio, 5100 + kFolio - 1}, Pages{5000, 5100});
}

TEST_F(SliceEndsTest, WhoGoesOnWhereAFolioEndedHasReadItToItsEnd) {
  Expect({1000, 1100}, 1, {1000, 1200}, Pages{1000, 1100});
  Expect({1100, 1300}, 1, {1200, 1300}, std::nullopt);
  // Or a little before it.
  Expect({2000, 2100}, 1, {2000, 2200}, Pages{2000, 2100});
  Expect({2100, 2300}, 1, {2190, 2300}, std::nullopt);
  // Another thread's end says nothing.
  Expect({3000, 3100}, 1, {3000, 3200}, Pages{3000, 3100});
  Expect({3200, 3300}, 2, {3200, 3300}, std::nullopt);
  Expect({3100, 3300}, 1, {3200, 3300}, std::nullopt);
}

}  // namespace
}  // namespace ppc::maio
