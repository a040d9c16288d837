// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/mount_table.h"

#include <gtest/gtest.h>

#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

class MountTableTest : public testing::Test {
 protected:
  std::vector<MountEntry> Read(const std::string& text) {
    tree_.Write("/proc/self/mountinfo", text);
    return ReadMountTable(SysRoots{"", tree_.Root()});
  }
  TempTree tree_;
};

TEST_F(MountTableTest, ReadsEveryField) {
  const auto table = Read(
      "22 1 8:1 / / rw shared:1 master:2 - ext4 /dev/sda1 rw\n"
      "36 22 0:45 / /my\\040models\\134x ro - ppc /base ro\n"
      "cut off\n");
  ASSERT_EQ(table.size(), 2u);
  EXPECT_EQ(table[0].type, "ext4");
  EXPECT_EQ(table[1].id, 36);
  EXPECT_EQ(table[1].parent, 22);
  EXPECT_EQ(table[1].dev, "0:45");
  EXPECT_EQ(table[1].point, "/my models\\x");
  EXPECT_EQ(table[1].type, "ppc");
  EXPECT_EQ(FindMount(table, "/my models\\x/a")->id, 36);
}

TEST_F(MountTableTest, ThePathLiesOnTheLongestAndTopmost) {
  const auto table = Read(
      "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "41 40 0:50 / /models ro - ppc /models ro\n"
      "40 1 8:2 / /models rw - xfs /dev/sdb1 rw\n"
      "42 1 8:3 / /models2 rw - xfs /dev/sdc1 rw\n");
  EXPECT_EQ(FindMount(table, "/models/a/b")->id, 41);
  EXPECT_EQ(FindMount(table, "/models")->id, 41);
  EXPECT_EQ(FindMount(table, "/models2")->id, 42);
  EXPECT_EQ(FindMount(table, "/model")->id, 1);
  EXPECT_EQ(FindMount({}, "/"), nullptr);
}

TEST(NormalPath, IsAsTheTableWritesIt) {
  EXPECT_EQ(NormalPath("//a/./b//"), "/a/b");
  EXPECT_EQ(NormalPath("/"), "/");
}

}  // namespace
}  // namespace ppc
