// SPDX-License-Identifier: Apache-2.0
// What is asked for, and in which requests.
#include "policies/maio/follow/planner.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tests/unit/policies/follow_fixture.h"
#include "tests/unit/policies/template_samples.h"

namespace ppc::maio {
namespace {

// One group that reads one file in this order: {page, pages} each.
class PlannerTest : public FollowTest {
 protected:
  using Extents = std::vector<std::pair<uint64_t, uint64_t>>;

  void Follow(uint64_t file_bytes, const Extents& order) {
    std::vector<Extent> extents;
    for (const auto& [page, pages] : order) extents.push_back({0, page, pages});
    context_.nr_nodes = 1;
    FollowTest::Follow(file_bytes, extents, /*has_affinity=*/true);
  }

  std::vector<ppc_io> Plan(uint64_t max_bytes = ~0ull >> 2) {
    ppc_memory memory = {};
    memory.threshold = memory.room = ~0ull >> 1;
    IoList list;
    planner_->Plan(max_bytes, memory, 0, &list);
    return std::move(list.ios());
  }
};

uint64_t BytesOf(const std::vector<ppc_io>& ios) {
  uint64_t bytes = 0;
  for (const ppc_io& io : ios) bytes += io.size;
  return bytes;
}

// All chunks come back as `result` says; how many bytes were asked for in all, until nothing is.
uint64_t AskedInAll(Planner* planner, PieceTable* table, ppc_result result, uint64_t* now_ns,
                    uint32_t most_rounds) {
  uint64_t asked = 0;
  for (uint32_t round = 0; round < most_rounds; round++, *now_ns += 10'000'000) {
    ppc_memory memory = {};
    memory.threshold = memory.room = ~0ull >> 1;
    IoList list;
    planner->Plan(~0ull >> 2, memory, *now_ns, &list);
    if (list.empty()) break;
    asked += BytesOf(list.ios());
    for (const ppc_io& io : list.ios()) {
      result.kind = PPC_LOADED;
      result.file = io.file;
      result.offset = io.offset;
      result.size = io.size;
      result.cookie = io.cookie;
      planner->Done(result, *now_ns);
    }
  }
  EXPECT_EQ(table->resident_bytes(), 0u);
  return asked;
}

TEST_F(PlannerTest, WhatFailsIsTriedTwiceAndLeftToItsReader) {
  Follow(20 * kMiB, {{0, 20 * kMiBPages}});
  ppc_result failed = {};
  failed.failed = kPage;  // a bad sector, or pages that are reclaimed at once
  uint64_t now_ns = 1;
  EXPECT_EQ(AskedInAll(planner_.get(), table_.get(), failed, &now_ns, 100), 40 * kMiB);
  EXPECT_EQ(planner_->stats().given_up, 20 * kMiB);
}

TEST_F(PlannerTest, AFileThatFailsIsLeftAndToldOf) {
  Follow(100 * kMiB, {{0, 100 * kMiBPages}});
  std::vector<uint32_t> left;
  planner_->OnFileFailed([&](uint32_t file) { left.push_back(file); });
  ppc_result failed = {};
  failed.error = -EIO;
  uint64_t now_ns = 1;
  EXPECT_LE(AskedInAll(planner_.get(), table_.get(), failed, &now_ns, 100), 200 * kMiB);
  EXPECT_EQ(left, std::vector<uint32_t>{0});
}

// By a guard in the runtime: no failure, and no reason to ask again and again.
TEST_F(PlannerTest, WhatIsRefusedIsAskedForLater) {
  Follow(8 * kMiB, {{0, 8 * kMiBPages}});
  ppc_result refused = {};
  refused.error = -EDQUOT;
  refused.interrupted = 1;
  uint64_t now_ns = 1;
  for (int i = 0; i < 5; i++) {
    EXPECT_EQ(AskedInAll(planner_.get(), table_.get(), refused, &now_ns, 50), 8 * kMiB);
    now_ns += 1'000'000'000;
  }
  EXPECT_EQ(planner_->stats().given_up, 0u);
}

// Two processes that are one worker read the halves of a file side by side.
TEST_F(PlannerTest, NeighboursAreOneRequestThoughOthersAreReadBetweenThem) {
  constexpr uint64_t kHalf = 32;  // steps of each
  constexpr uint64_t kStep = kMiBPages / 2;
  Extents order;
  for (uint64_t i = 0; i < kHalf; ++i) {
    order.emplace_back(i * kStep, kStep);
    order.emplace_back((kHalf + i) * kStep, kStep);
  }
  Follow(kHalf * kMiB, order);
  const std::vector<ppc_io> ios = Plan();
  EXPECT_EQ(BytesOf(ios), kHalf * kMiB);
  EXPECT_LE(ios.size(), 2 * kHalf * kMiB / kChunkBytes);
}

// What is needed much later stays behind what is needed soon.
TEST_F(PlannerTest, ANeighbourThatIsNeededMuchLaterWaits) {
  // The second MiB of the file is read last.
  Follow(64 * kMiB, {{0, kMiBPages}, {2 * kMiBPages, 62 * kMiBPages}, {kMiBPages, kMiBPages}});
  const std::vector<ppc_io> ios = Plan();
  ASSERT_FALSE(ios.empty());
  EXPECT_EQ(BytesOf(ios), 64 * kMiB);
  EXPECT_EQ(ios.front().offset, 0u);
  EXPECT_EQ(ios.front().size, kMiB);
  EXPECT_EQ(ios.back().offset, kMiB);
}

}  // namespace
}  // namespace ppc::maio
