// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/directory.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "daemon/machine/mount_table.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

// A made-up table of mounts over a directory that is really there.
class DirectoryTest : public testing::Test {
 protected:
  DirectoryTest() {
    tree_.Write("/models/a", "x");
    path_ = tree_.Path("/models");
    MountIs("ext4");
  }
  void MountIs(const std::string& type) {
    tree_.Write("/proc/self/mountinfo", "1 0 8:1 / / rw - " + type + " /dev/sda1 rw\n");
  }
  Result<Directory> Find(const std::string& path) {
    return FindDirectory(path, roots_, DirectoryWalk::kNever);
  }
  TempTree tree_;
  SysRoots roots_{"", tree_.Root()};
  std::string path_;
};

TEST_F(DirectoryTest, IsKnownByItsInode) {
  const Directory found = Value(Find(path_ + "//./"));
  EXPECT_EQ(found.path, path_);
  EXPECT_NE(found.ino, 0u);
  EXPECT_TRUE(IsSameDirectory(found, roots_));
  // Another directory in its place.
  std::filesystem::rename(path_, path_ + ".old");
  EXPECT_FALSE(IsSameDirectory(found, roots_));
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(IsSameDirectory(found, roots_));
}

TEST_F(DirectoryTest, WhatIsNoneSaysWhy) {
  const auto code = [this](const std::string& path) { return Find(path).error().code; };
  EXPECT_EQ(code("models"), EINVAL);
  EXPECT_EQ(code(path_ + "/../models"), EINVAL);
  EXPECT_EQ(code(path_ + "/none"), ENOENT);
  EXPECT_EQ(code(path_ + "/a"), ENOTDIR);
  tree_.Link("/link", "models");
  EXPECT_EQ(code(tree_.Path("/link")), ELOOP);
  EXPECT_TRUE(Has(Find(tree_.Path("/link")).error().message, "symbolic link"));
}

TEST_F(DirectoryTest, WhatThePageCacheDoesNotHoldIsRefused) {
  for (const char* type : {"proc", "tmpfs", "sysfs", "zfs"}) {
    MountIs(type);
    const Result<Directory> found = Find(path_);
    ASSERT_FALSE(found) << type;
    EXPECT_EQ(found.error().code, EINVAL);
    EXPECT_TRUE(Has(found.error().message, type));
  }
}

// Without a walk that may wait only what is in memory is known, and that is enough.
TEST_F(DirectoryTest, AServersDirectoryIsTakenAsItIs) {
  MountIs("nfs4");
  EXPECT_TRUE(IsSameDirectory(Value(Find(path_)), roots_));
  EXPECT_TRUE(IsSameDirectory(Directory{path_, "", 0}, roots_));
}

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
      "cut off\n"
      "37 22 0:46 / /plain rw - ext4\n"
      "38 22 0:47 / /last rw - tmpfs none");
  ASSERT_EQ(table.size(), 3u);
  EXPECT_EQ(table[2].point, "/last");
  EXPECT_EQ(table[2].source, "none");
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
