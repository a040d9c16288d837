// SPDX-License-Identifier: Apache-2.0
// Names that clients give: what is found out about them, and what IDs they become.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "daemon/base/digests.h"
#include "daemon/supervisor/cgroups.h"
#include "daemon/supervisor/mount_probe.h"
#include "daemon/supervisor/options.h"
#include "daemon/wire/service_id.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc::control {
namespace {

// What ppcd finds out about names that clients give, without looking them up:
// none of the paths here exists.

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
  const MountInfo mount = Value(probe_.Find("/nowhere/models/"));
  EXPECT_EQ(mount.index, 2u);
  EXPECT_EQ(mount.path, "/nowhere/models");
  EXPECT_TRUE(probe_.IsThere(mount));
  EXPECT_EQ(probe_.All().size(), 1u);
}

TEST_F(ProbeTest, WhatIsNoMountPointOfOursSaysWhy) {
  const auto error = [this](const char* path) { return probe_.Find(path).error().message; };
  EXPECT_TRUE(Has(error("/nowhere/models/sub"), "point itself, /nowhere/models"));
  EXPECT_TRUE(Has(error("/nowhere"), "mount -t ppc BASE /nowhere"));
  EXPECT_TRUE(Has(error("/nowhere/../nowhere/models"), "without '..'"));
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
  EXPECT_TRUE(Has(resolve("/none"), "create it"));
  EXPECT_EQ(cgroups.Resolve("/../etc").error().code, EINVAL);
  EXPECT_EQ(cgroups.Resolve("services/a").error().code, EINVAL);
}

TEST(ResolvePolicy, LeavesAPathToTheRunner) {
  EXPECT_EQ(*ResolvePolicy("/no/such/policy.so"), "/no/such/policy.so");
  EXPECT_EQ(ResolvePolicy("no_such").error().code, ENOENT);
}

Json Parse(const std::string& text) { return *ParseJson(text, "test"); }

TEST(ServiceId, IsTheHashOfTheCanonicalText) {
  const ServiceName name = Value(MakeServiceName(Parse(R"({"tp":4,"model":"qwen2.5-72b"})")));
  EXPECT_EQ(name.canonical, R"({"model":"qwen2.5-72b","tp":4})");
  EXPECT_EQ(name.id, Sha256Hex(name.canonical).substr(0, 32));
}

TEST(ServiceId, DependsOnWhatChangesReading) {
  const auto id = [](const std::string& text) { return MakeServiceName(Parse(text))->id; };
  EXPECT_EQ(id(R"({"a":1,"b":{"x":true,"y":[1,2]}})"),
            id(R"( { "b" : { "y":[ 1, 2 ], "x":true }, "a" : 1 } )"));
  EXPECT_NE(id(R"({"a":[1,2]})"), id(R"({"a":[2,1]})")) << "the order in arrays counts";
  EXPECT_EQ(id(R"({"model":"m"})"),
            id(R"({"model":"m","host":"n1","port":8000,"xpus":[2,3],"cgroup":"/a","pid":7})"));
}

TEST(ServiceId, CanonicalTextIsTheShortest) {
  const auto canonical = [](const std::string& text) { return CanonicalParams(Parse(text)); };
  EXPECT_EQ(canonical(R"({"model":"m","host":"n1","port":8000,"pid":7})"), R"({"model":"m"})");
  EXPECT_EQ(canonical(R"({"a":{"port":1}})"), R"({"a":{"port":1}})") << "deeper down it is kept";
  EXPECT_EQ(canonical(R"({"a":4.0,"b":4,"c":0.50,"d":1e3,"e":-0.0})"),
            R"({"a":4,"b":4,"c":0.5,"d":1000,"e":0})");
}

TEST(ServiceId, NeedsSomethingThatCounts) {
  for (const char* text : {"{}", R"({"port":1,"host":"x"})", "[]", "3", "null"}) {
    const auto name = MakeServiceName(Parse(text));
    ASSERT_FALSE(name) << text;
    EXPECT_EQ(name.error().code, EINVAL);
  }
}

TEST(ServiceId, ChecksGivenIds) {
  EXPECT_TRUE(CheckServiceId("0123456789abcdef0123456789abcdef"));
  EXPECT_TRUE(CheckServiceId("vllm-qwen_7b.v2"));
  for (const char* id :
       {"", "abc", "..", "../../etc", "a/bc", ".hid", "-dash", "bl ank", "nul\n"}) {
    EXPECT_FALSE(CheckServiceId(id)) << id;
  }
  EXPECT_FALSE(CheckServiceId(std::string(65, 'a')));
}

}  // namespace
}  // namespace ppc::control
