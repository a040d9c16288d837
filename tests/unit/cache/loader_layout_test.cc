// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/loader_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace ppc {
namespace {

NumaNode NodeOf(int id, int first_cpu, size_t cpus) {
  NumaNode node{id, CpuList(cpus)};
  std::iota(node.cpus.begin(), node.cpus.end(), first_cpu);
  return node;
}

int ThreadsOf(const LoaderLayout& layout, int node) {
  return static_cast<int>(
      std::ranges::count(layout.Threads(), node, [](const auto& thread) { return thread.node; }));
}

TEST(LoaderLayout, ANodeHasAThreadForFourOfItsCpusWithinLimits) {
  const LoaderLayout layout(
      {NodeOf(0, 0, 2), NodeOf(1, 2, 32), NodeOf(2, 34, 200), NodeOf(3, 0, 0)}, 0, 4);
  EXPECT_EQ(ThreadsOf(layout, 0), 4);
  EXPECT_EQ(ThreadsOf(layout, 1), 8);
  EXPECT_EQ(ThreadsOf(layout, 2), 16);
  EXPECT_EQ(ThreadsOf(layout, 3), 4);
  EXPECT_EQ(layout.Threads().size(), 32u);
}

TEST(LoaderLayout, NoMoreThanTheMostAreTheLeast) {
  EXPECT_EQ(ThreadsOf(LoaderLayout({NodeOf(0, 0, 4)}, 0, 64), 0), 16);
}

TEST(LoaderLayout, WhatIsConfiguredHolds) {
  const LoaderLayout layout({NodeOf(0, 0, 4), NodeOf(1, 4, 64)}, 20, 4);
  EXPECT_EQ(ThreadsOf(layout, 0), 20);
  EXPECT_EQ(ThreadsOf(layout, 1), 20);
}

// A node with more threads than another has the last of them.
TEST(LoaderLayout, NodesComeInTurnAndCoresToo) {
  const LoaderLayout layout({NodeOf(0, 0, 2), NodeOf(1, 2, 16)}, 0, 3);
  std::vector<int> nodes;
  std::vector<CpuList> cpus;
  for (const LoaderLayout::Thread& thread : layout.Threads()) {
    nodes.push_back(thread.node);
    cpus.push_back(thread.cpus);
  }
  EXPECT_EQ(nodes, (std::vector<int>{0, 1, 0, 1, 0, 1, 1}));
  EXPECT_EQ(cpus, (std::vector<CpuList>{{0}, {2}, {1}, {3}, {0}, {4}, {5}}));
}

TEST(LoaderLayout, NodesWithCpusTakeWhatIsForNone) {
  const LoaderLayout layout({NodeOf(0, 0, 0), NodeOf(1, 0, 4), NodeOf(3, 4, 4)}, 1, 1);
  EXPECT_EQ(layout.Nodes(), 4);
  EXPECT_TRUE(layout.HasThreads(0));
  EXPECT_FALSE(layout.HasThreads(2));
  EXPECT_FALSE(layout.TakesAny(0));
  EXPECT_TRUE(layout.TakesAny(1));
  EXPECT_FALSE(layout.TakesAny(2));
  EXPECT_TRUE(layout.TakesAny(3));
  EXPECT_EQ(layout.NodeInTurn(0), 1);
  EXPECT_EQ(layout.NodeInTurn(1), 3);
  EXPECT_EQ(layout.NodeInTurn(2), 1);
  EXPECT_TRUE(layout.Threads()[0].cpus.empty()) << "from anywhere";
}

TEST(LoaderLayout, WhereNoNodeHasCpusAllTakeWhatIsForNone) {
  const LoaderLayout layout({NodeOf(0, 0, 0), NodeOf(1, 0, 0)}, 1, 1);
  EXPECT_TRUE(layout.TakesAny(0));
  EXPECT_TRUE(layout.TakesAny(1));
}

}  // namespace
}  // namespace ppc
