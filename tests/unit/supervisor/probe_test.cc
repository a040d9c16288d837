// SPDX-License-Identifier: Apache-2.0
// What ppcd finds out about names that clients give, without looking them up:
// none of the paths here exists.
#include <gtest/gtest.h>

#include "daemon/supervisor/cgroups.h"
#include "daemon/supervisor/mount_probe.h"
#include "daemon/supervisor/options.h"
#include "tests/unit/temp_tree.h"

namespace ppc::control {
namespace {

class ProbeTest : public testing::Test {
 protected:
  ProbeTest() {
    tree_.Write("/proc/self/mountinfo",
                "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
                "40 1 0:50 / /nowhere/models ro - nfs4 server:/x ro\n"
                "41 40 0:51 / /nowhere/models ro - ppc /nowhere/models ro\n");
    tree_.Write("/sys/fs/ppc/2/dev", "0:51\n");
  }
  TempTree tree_;
  MountProbe probe_{SysRoots{tree_.Root(), tree_.Root()}};
};

TEST_F(ProbeTest, AMountIsFoundByItsName) {
  const Result<MountInfo> mount = probe_.Find("/nowhere/models/");
  ASSERT_TRUE(mount) << mount.error().message;
  EXPECT_EQ(mount->index, 2u);
  EXPECT_EQ(mount->path, "/nowhere/models");
  EXPECT_TRUE(probe_.IsThere(*mount));
  EXPECT_EQ(probe_.All().size(), 1u);
}

TEST_F(ProbeTest, WhatIsNoMountPointOfOursSaysWhy) {
  const auto error = [this](const char* path) { return probe_.Find(path).error().message; };
  EXPECT_NE(error("/nowhere/models/sub").find("point itself, /nowhere/models"), std::string::npos);
  EXPECT_NE(error("/nowhere").find("mount -t ppc BASE /nowhere"), std::string::npos);
  EXPECT_NE(error("/nowhere/../nowhere/models").find("without '..'"), std::string::npos);
}

TEST(Cgroups, ARelativePathIsFoundInV1sAndInV2sHierarchy) {
  TempTree tree;
  const std::string top = tree.Path("/sys/fs/cgroup");
  tree.Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "1\n");
  tree.Write("/sys/fs/cgroup/memory/services/a/memory.limit_in_bytes", "1\n");
  tree.Write("/sys/fs/cgroup/unified/b/cgroup.procs", "");
  const Cgroups cgroups(SysRoots{tree.Root(), ""});
  const auto resolve = [&](const std::string& path) {
    const Result<Cgroups::Group> found = cgroups.Resolve(path);
    return found ? found->directory : found.error().message;
  };
  EXPECT_EQ(resolve("/services/a"), top + "/memory/services/a");
  EXPECT_EQ(resolve(top + "/memory/services/a/"), top + "/memory/services/a");
  EXPECT_EQ(resolve("/b"), top + "/unified/b");
  EXPECT_EQ(cgroups.Resolve(top + "/memory/services/a/")->name, "/services/a");
  EXPECT_NE(resolve("/none").find("create it"), std::string::npos);
  EXPECT_EQ(cgroups.Resolve("/../etc").error().code, EINVAL);
  EXPECT_EQ(cgroups.Resolve("services/a").error().code, EINVAL);
}

TEST(ResolvePolicy, LeavesAPathToTheRunner) {
  EXPECT_EQ(*ResolvePolicy("/no/such/policy.so"), "/no/such/policy.so");
  EXPECT_EQ(ResolvePolicy("no_such").error().code, ENOENT);
}

}  // namespace
}  // namespace ppc::control
