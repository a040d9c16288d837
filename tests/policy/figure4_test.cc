// SPDX-License-Identifier: Apache-2.0
//
// The program of the paper's Figure 4 loads, initializes, prefetches, evicts.
#include <gtest/gtest.h>

#include "tests/policy/fake_host.h"

namespace ppc::test {
namespace {

TEST(Figure4, RunsUnchanged) {
  PolicyLibrary library(PPC_TEST_FIGURE4);
  EXPECT_EQ(library.abi(), PPC_POLICY_ABI);
  FakeHost host;
  uint64_t file = host.AddFile("a.bin", 64 << 20);
  const ppc_operation* ops = library.ops();
  ASSERT_NE(ops, nullptr);
  ASSERT_EQ(ops->ppc_init(host.context()), 0);
  miss_io miss = host.Event(PPC_MISS_READ, file, 8 << 20, 1 << 20);
  prefetch_ios* ahead = ops->ppc_prefetch(&miss);
  ASSERT_NE(ahead, nullptr);
  ASSERT_EQ(ahead->nr, 1u);
  EXPECT_STREQ(ahead->ios[0].path, "a.bin");
  EXPECT_EQ(ahead->ios[0].offset, 9u << 20);
  EXPECT_EQ(ahead->ios[0].size, 4u << 20);
  evict_ios* behind = ops->ppc_evict(&miss);
  ASSERT_NE(behind, nullptr);
  EXPECT_EQ(behind->ios[0].offset, 6u << 20);
  EXPECT_EQ(behind->ios[0].size, 2u << 20);
  EXPECT_EQ(ops->ppc_evict(nullptr), nullptr);
  EXPECT_EQ(ops->ppc_plan, nullptr);
  EXPECT_EQ(ops->ppc_exit(), 0);
}

}  // namespace
}  // namespace ppc::test
