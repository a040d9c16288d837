// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/proc_info.h"

#include <gtest/gtest.h>

#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

TEST(ProcInfo, StartTimeSurvivesOddNames) {
  TempTree tree;
  tree.Write("/proc/7/stat",
             "7 (a) b) (c) S 1 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 12345 1000 1 0\n");
  const SysRoots roots{"", tree.Root()};
  EXPECT_EQ(*ProcessStartNs(roots, 7), 123450000000u);
  EXPECT_TRUE(IsSameProcess(roots, 7, 123456789012u));
  EXPECT_FALSE(IsSameProcess(roots, 7, 123466789012u));
  EXPECT_FALSE(IsSameProcess(roots, 8, 0));
}

TEST(ProcInfo, Environment) {
  const std::string text("A=1\0LOCAL_RANK=3\0XRANK=9\0", 25);
  EXPECT_EQ(ProcessEnv(text, "LOCAL_RANK"), "3");
  EXPECT_EQ(ProcessEnv(text, "A"), "1");
  EXPECT_FALSE(ProcessEnv(text, "RANK").has_value());
}

TEST(ProcInfo, CgroupPrefersTheMemoryHierarchy) {
  TempTree tree;
  const SysRoots roots{"", tree.Root()};
  tree.Write("/proc/1/cgroup", "0::/only/v2\n");
  tree.Write("/proc/2/cgroup", "12:cpu,memory:/v1/mem\n1:name=systemd:/x\n0::/v2\n");
  EXPECT_EQ(ProcessCgroup(roots, 1), "/only/v2");
  EXPECT_EQ(ProcessCgroup(roots, 2), "/v1/mem");
  EXPECT_FALSE(ProcessCgroup(roots, 3).has_value());
}

}  // namespace
}  // namespace ppc
