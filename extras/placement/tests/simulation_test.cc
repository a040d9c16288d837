// SPDX-License-Identifier: Apache-2.0
// The choices of ppc_place_best(), and their worth on a simulated cluster.
#include <gtest/gtest.h>
#include <ppc/place.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "extras/placement/simulation/node.h"
#include "extras/placement/simulation/trace.h"

namespace ppc::bench {
namespace {

constexpr uint64_t kGb = 1000000000;

// 100 GB, a template, 200 GB of unused page cache, 2 GB/s.
ppc_place_node Cold() {
  ppc_place_node node{};
  node.size = sizeof(node);
  node.flags = PPC_PLACE_TEMPLATE | PPC_PLACE_ARTIFACTS;
  node.model_bytes = 100 * kGb;
  node.memory_bytes = 200 * kGb;
  node.free_bytes = 200 * kGb;
  node.disk_rate = 2 * kGb;
  return node;
}

ppc_place_node Warm() {
  ppc_place_node node = Cold();
  node.resident_bytes = node.model_bytes;
  return node;
}

ppc_place_result Scored(const ppc_place_node& node) {
  ppc_place_result score{};
  EXPECT_EQ(ppc_place_score(&node, &score), 0);
  return score;
}

TEST(Placement, TheBoundIsWhatTheDiskStillHasToGive) {
  EXPECT_EQ(Scored(Cold()).start_s, 50.0);
  EXPECT_EQ(Scored(Cold()).reasons, PPC_PLACE_WHY_COLD);
  EXPECT_EQ(Scored(Warm()).start_s, 0.0);
  EXPECT_EQ(Scored(Warm()).reasons, PPC_PLACE_WHY_WARM);
  ppc_place_node half = Cold();
  half.resident_bytes = half.model_bytes / 2;
  EXPECT_EQ(Scored(half).start_s, 25.0);
  EXPECT_EQ(Scored(half).reasons, 0u);
  half.resident_bytes = half.model_bytes * 2;
  EXPECT_EQ(Scored(half).start_s, 0.0);
}

TEST(Placement, EachReasonCostsWhatItSays) {
  ppc_place_node node = Cold();
  node.flags = PPC_PLACE_ARTIFACTS;
  EXPECT_EQ(Scored(node).reasons, PPC_PLACE_WHY_COLD | PPC_PLACE_WHY_NO_TEMPLATE);
  EXPECT_GT(Scored(node).start_s, 50.0);
  node = Cold();
  node.compile_s = 30;
  EXPECT_EQ(Scored(node).start_s, 50.0);
  node.flags = PPC_PLACE_TEMPLATE;
  EXPECT_EQ(Scored(node).start_s, 80.0);
  EXPECT_TRUE(Scored(node).reasons & PPC_PLACE_WHY_COMPILES);
  node = Cold();
  node.disk_rate = 0;
  EXPECT_EQ(Scored(node).start_s, 100.0);
  EXPECT_TRUE(Scored(node).reasons & PPC_PLACE_WHY_DISK_UNKNOWN);
  node = Cold();
  node.memory_bytes = 60 * kGb;  // 40 GB are read again
  EXPECT_EQ(Scored(node).start_s, 70.0);
  EXPECT_TRUE(Scored(node).reasons & PPC_PLACE_WHY_NO_ROOM);
  node = Cold();
  node.free_bytes = 60 * kGb;
  EXPECT_EQ(Scored(node).start_s, 50.0);
  EXPECT_EQ(Scored(node).score_s, 60.0);
  EXPECT_TRUE(Scored(node).reasons & PPC_PLACE_WHY_PUSHES_OUT);
  node.free_bytes = PPC_PLACE_NO_LIMIT;
  EXPECT_EQ(Scored(node).score_s, 50.0);
}

TEST(Placement, OtherStartsShareTheDisk) {
  ppc_place_node node = Cold();
  node.busy_starts = 1;
  EXPECT_EQ(Scored(node).start_s, 100.0);  // as large as this one
  EXPECT_TRUE(Scored(node).reasons & PPC_PLACE_WHY_BUSY);
  node.busy_bytes = 20 * kGb;
  EXPECT_EQ(Scored(node).start_s, 60.0);  // done before this one is
  node.busy_bytes = 900 * kGb;
  EXPECT_EQ(Scored(node).start_s, 100.0);  // never more than its share
  ppc_place_node warm = Warm();
  warm.busy_starts = 5;
  EXPECT_EQ(Scored(warm).start_s, 0.0);
  EXPECT_FALSE(Scored(warm).reasons & PPC_PLACE_WHY_BUSY);
}

TEST(Placement, AWarmNodeIsChosenInEveryCase) {
  ppc_place_node no_template = Cold();
  no_template.flags = 0;
  ppc_place_node busy = Cold();
  busy.busy_starts = 3;
  ppc_place_node small = Cold();
  small.memory_bytes = 10 * kGb;
  ppc_place_node gone = Warm();
  gone.flags |= PPC_PLACE_GONE;
  ppc_place_node unknown = Cold();
  unknown.disk_rate = 0;
  ppc_place_node absent = Warm();
  absent.model_bytes = 0;
  for (const ppc_place_node& other : {Cold(), no_template, busy, small, gone, unknown, absent}) {
    const std::array first = {Warm(), other, other};
    const std::array last = {other, other, Warm()};
    EXPECT_EQ(ppc_place_best(first.data(), first.size(), nullptr), 0);
    EXPECT_EQ(ppc_place_best(last.data(), last.size(), nullptr), 2);
  }
}

TEST(Placement, ANodeThatIsOutIsNeverChosen) {
  ppc_place_node gone = Warm();
  gone.flags |= PPC_PLACE_GONE;
  ppc_place_node absent = Warm();
  absent.model_bytes = 0;
  const std::array nodes = {gone, absent, Cold()};
  std::array<ppc_place_result, 3> scores{};
  EXPECT_EQ(ppc_place_best(nodes.data(), 3, scores.data()), 2);
  EXPECT_EQ(scores[0].reasons, PPC_PLACE_WHY_GONE);
  EXPECT_EQ(scores[1].reasons, PPC_PLACE_WHY_NO_MODEL);
  EXPECT_TRUE(std::isinf(scores[0].score_s));
  EXPECT_EQ(ppc_place_best(nodes.data(), 2, nullptr), -ENOENT);
  EXPECT_EQ(ppc_place_best(nullptr, 0, nullptr), -ENOENT);
}

TEST(Placement, ADiskNotYetSeenIsTakenForTheOthers) {
  ppc_place_node unseen = Cold();
  unseen.disk_rate = 0;
  unseen.tie = 2;
  ppc_place_node seen = Cold();
  seen.tie = 1;
  const std::array nodes = {seen, unseen};
  std::array<ppc_place_result, 2> scores{};
  EXPECT_EQ(ppc_place_best(nodes.data(), 2, scores.data()), 1);
  EXPECT_EQ(scores[0].score_s, scores[1].score_s);
}

TEST(Placement, WhatIsNotAsItShouldBeIsRefused) {
  ppc_place_result score{};
  ppc_place_node node = Cold();
  EXPECT_EQ(ppc_place_score(nullptr, &score), -EINVAL);
  EXPECT_EQ(ppc_place_score(&node, nullptr), -EINVAL);
  node.size = PPC_PLACE_NODE_SIZE_1 - 8;
  EXPECT_EQ(ppc_place_score(&node, &score), -EINVAL);
  node = Cold();
  node.compile_s = -1;
  EXPECT_EQ(ppc_place_score(&node, &score), -EINVAL);
  node.compile_s = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(ppc_place_score(&node, &score), -EINVAL);
  EXPECT_EQ(ppc_place_best(&node, 1, nullptr), -EINVAL);
  EXPECT_EQ(ppc_place_best(nullptr, 1, nullptr), -EINVAL);
}

TEST(Placement, LargerNodesOfALaterReleaseAreTaken) {
  struct Later {
    ppc_place_node node;
    std::array<uint64_t, 4> more;
  };
  std::array<Later, 2> nodes{Later{Cold(), {}}, Later{Warm(), {}}};
  for (Later& later : nodes) later.node.size = sizeof(Later);
  EXPECT_EQ(ppc_place_best(&nodes[0].node, 2, nullptr), 1);
  nodes[1].node.size = sizeof(ppc_place_node);
  EXPECT_EQ(ppc_place_best(&nodes[0].node, 2, nullptr), -EINVAL);
}

TEST(Placement, TiesSpreadModelsOverNodes) {
  std::set<long> chosen;
  for (int model = 0; model < 200; model++) {
    std::vector<ppc_place_node> nodes;
    for (int n = 0; n < 20; n++) {
      nodes.push_back(Cold());
      nodes.back().tie = ppc_place_tie(std::to_string(model).c_str(), std::to_string(n).c_str());
    }
    chosen.insert(ppc_place_best(nodes.data(), nodes.size(), nullptr));
  }
  EXPECT_EQ(chosen.size(), 20u);
  EXPECT_EQ(ppc_place_tie(nullptr, "n"), ppc_place_tie("", "n"));
  EXPECT_NE(ppc_place_tie("ab", "c"), ppc_place_tie("a", "bc"));
}

TEST(PlacementNode, LoadsShareTheDiskAndAModelIsReadOnce) {
  Node node(300, 10, {100, 50});
  std::vector<double> ends(4, -1);
  node.Begin(0, 0, &ends);
  node.AdvanceTo(4);  // 40 of 100
  node.Begin(0, 1, &ends);
  node.Begin(1, 2, &ends);
  node.Finish();
  EXPECT_DOUBLE_EQ(ends[2], 14);  // 5 a second each
  EXPECT_DOUBLE_EQ(ends[0], 15);  // 10 left at 14
  EXPECT_EQ(ends[0], ends[1]);
  EXPECT_DOUBLE_EQ(node.read_bytes(), 150);
  node.Begin(0, 3, &ends);
  EXPECT_DOUBLE_EQ(ends[3], 15);
}

TEST(PlacementNode, TheModelUsedLongestAgoLeaves) {
  Node node(250, 10, {100, 100, 100});
  std::vector<double> ends(4, -1);
  for (const size_t model : {0u, 1u, 0u, 2u}) {
    node.Begin(model, model, &ends);
    node.Finish();
  }
  EXPECT_EQ(node.News().resident, (std::vector<double>{100, 0, 100}));
}

TEST(PlacementTrace, ASeedGivesTheSameStarts) {
  const Trace trace;
  EXPECT_EQ(Simulate(trace, Placement::kScore, 1).mean_s,
            Simulate(trace, Placement::kScore, 1).mean_s);
  EXPECT_NE(Simulate(trace, Placement::kScore, 1).mean_s,
            Simulate(trace, Placement::kScore, 2).mean_s);
}

// For each seed and any age of the state.
TEST(PlacementTrace, StartsAreShorterThanByOthers) {
  for (const double publish_s : {2.0, 10.0}) {
    Trace trace;
    trace.publish_s = publish_s;
    for (uint64_t seed = 1; seed <= 5; seed++) {
      const double ours = Simulate(trace, Placement::kScore, seed).mean_s;
      EXPECT_LE(ours, 0.7 * Simulate(trace, Placement::kRandom, seed).mean_s) << seed;
      EXPECT_LE(ours, 0.7 * Simulate(trace, Placement::kLeastLoaded, seed).mean_s) << seed;
    }
    EXPECT_LE(Average(trace, Placement::kScore, 5).mean_s,
              Average(trace, Placement::kHashing, 5).mean_s);
  }
}

}  // namespace
}  // namespace ppc::bench
