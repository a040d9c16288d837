// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/directory.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>

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
  const Result<Directory> found = Find(path_ + "//./");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->path, path_);
  EXPECT_NE(found->ino, 0u);
  EXPECT_TRUE(IsSameDirectory(*found, roots_));
  // Another directory in its place.
  std::filesystem::rename(path_, path_ + ".old");
  EXPECT_FALSE(IsSameDirectory(*found, roots_));
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(IsSameDirectory(*found, roots_));
}

TEST_F(DirectoryTest, WhatIsNoneSaysWhy) {
  const auto code = [this](const std::string& path) { return Find(path).error().code; };
  EXPECT_EQ(code("models"), EINVAL);
  EXPECT_EQ(code(path_ + "/../models"), EINVAL);
  EXPECT_EQ(code(path_ + "/none"), ENOENT);
  EXPECT_EQ(code(path_ + "/a"), ENOTDIR);
  tree_.Link("/link", "models");
  EXPECT_EQ(code(tree_.Path("/link")), ELOOP);
  EXPECT_NE(Find(tree_.Path("/link")).error().message.find("symbolic link"), std::string::npos);
}

TEST_F(DirectoryTest, WhatThePageCacheDoesNotHoldIsRefused) {
  for (const char* type : {"proc", "tmpfs", "sysfs", "zfs"}) {
    MountIs(type);
    const Result<Directory> found = Find(path_);
    ASSERT_FALSE(found) << type;
    EXPECT_EQ(found.error().code, EINVAL);
    EXPECT_NE(found.error().message.find(type), std::string::npos) << found.error().message;
  }
}

// Without a walk that may wait only what is in memory is known, and that is enough.
TEST_F(DirectoryTest, AServersDirectoryIsTakenAsItIs) {
  MountIs("nfs4");
  const Result<Directory> found = Find(path_);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(IsSameDirectory(*found, roots_));
  EXPECT_TRUE(IsSameDirectory(Directory{path_, "", 0}, roots_));
}

}  // namespace
}  // namespace ppc
