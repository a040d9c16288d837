// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/cgroup.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

constexpr double kShare = 0.8;

class CgroupTest : public testing::Test {
 protected:
  void V2(const std::string& group, const std::string& max, const std::string& high,
          const std::string& current) {
    const std::string base = "/sys/fs/cgroup" + group;
    tree_.Write(base + "/memory.max", max + "\n");
    tree_.Write(base + "/memory.high", high + "\n");
    tree_.Write(base + "/memory.current", current + "\n");
    tree_.Write(base + "/memory.stat",
                "anon 100\nfile 1000\nshmem 50\nfile_mapped 7\nfile_dirty 30\nfile_writeback 20\n");
  }
  void V1(const std::string& group, const std::string& limit, const std::string& usage) {
    const std::string base = "/sys/fs/cgroup/memory" + group;
    tree_.Write(base + "/memory.limit_in_bytes", limit + "\n");
    tree_.Write(base + "/memory.usage_in_bytes", usage + "\n");
    tree_.Write(base + "/memory.stat", "cache 1\ntotal_cache 500\ntotal_dirty 100\n");
  }
  Result<Cgroup> Open(const std::string& path) {
    return Cgroup::Open(path, SysRoots{tree_.Root(), tree_.Root()});
  }
  TempTree tree_;
};

TEST_F(CgroupTest, OwnLimitBinds) {
  V2("/a", "1000", "max", "300");
  const Cgroup group = Value(Open("/a"));
  const auto reading = group.Read(kShare, true);
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->limit, 1000u);
  EXPECT_EQ(reading->used, 300u);
  EXPECT_EQ(reading->threshold, 800u);
  EXPECT_EQ(reading->Room(), 500u);
  EXPECT_EQ(reading->cache, 900u);  // file - shmem - dirty - writeback
  EXPECT_TRUE(reading->is_cgroup);
}

TEST_F(CgroupTest, AncestorWithLessRoomBinds) {
  V2("/a", "10000", "max", "7900");
  V2("/a/b", "1000", "max", "100");
  const Cgroup group = Value(Open("/a/b"));
  EXPECT_EQ(group.Read(kShare, false)->limit, 10000u);  // room 100 against 700
  V2("/a", "10000", "max", "100");
  EXPECT_EQ(group.Read(kShare, false)->limit, 1000u);
}

TEST_F(CgroupTest, HighCountsAsLimit) {
  V2("/a", "10000", "500", "450");
  const auto reading = Open("/a")->Read(kShare, false);
  EXPECT_EQ(reading->limit, 500u);
  EXPECT_EQ(reading->Room(), 0u);
}

TEST_F(CgroupTest, NoLimitIsNoReading) {
  V2("/a", "max", "max", "450");
  EXPECT_FALSE(Open("/a")->Read(kShare, false).has_value());
}

TEST_F(CgroupTest, ItsUseIsKnownWithoutALimit) {
  V2("/a", "max", "max", "1450");
  EXPECT_EQ(Open("/a")->Used(), 1450u);
  tree_.Write("/sys/fs/cgroup/a/b/cgroup.procs", "");
  EXPECT_EQ(Open("/a/b")->Used(), 0u) << "what its parent uses is not its own";
  V1("", "9223372036854771712", "99999");
  V1("/job", "9223372036854771712", "700");
  EXPECT_EQ(Open("/job")->Used(), 700u);
}

TEST_F(CgroupTest, V1Hierarchy) {
  V1("", "9223372036854771712", "99999");
  V1("/job", "9223372036854771712", "99999");
  V1("/job/pod", "2000", "500");
  const Cgroup group = Value(Open("/job/pod"));
  const auto reading = group.Read(kShare, true);
  ASSERT_TRUE(reading);
  EXPECT_EQ(reading->limit, 2000u);
  EXPECT_EQ(reading->used, 500u);
  EXPECT_EQ(reading->cache, 400u);
}

TEST_F(CgroupTest, ThePlaceAboveAllLimits) {
  V1("", "9223372036854771712", "99999");
  V1("/job", "9223372036854771712", "99999");
  EXPECT_EQ(Open("/job")->Unlimited(), "");
  V1("/job/pod", "2000", "500");
  V1("/job/pod/part", "9223372036854771712", "500");
  EXPECT_EQ(Open("/job/pod/part")->Unlimited(), tree_.Path("/sys/fs/cgroup/memory/job"));
  V1("/job", "4000", "500");
  EXPECT_EQ(Open("/job/pod")->Unlimited(), tree_.Path("/sys/fs/cgroup/memory"));
}

TEST_F(CgroupTest, ThePlaceAboveLimitsOfV2IsTheRoot) {
  V2("/a", "max", "max", "500");
  EXPECT_EQ(Open("/a")->Unlimited(), "");
  V2("/a/b", "1000", "max", "500");
  EXPECT_EQ(Open("/a/b")->Unlimited(), tree_.Path("/sys/fs/cgroup"));
  V2("", "max", "max", "900");  // the root of a namespace: what is around it is not seen
  EXPECT_EQ(Open("/a/b")->Unlimited(), "");
}

TEST_F(CgroupTest, WhatIsChargedBesideItCounts) {
  V2("/a/b", "10000", "max", "300");
  V2("/a", "100000", "max", "500");
  const Result<Cgroup> group = Open("/a/b");
  const Cgroup::LoadPlace& place = group->load_place();
  EXPECT_TRUE(place.is_beside);
  EXPECT_EQ(place.directory,
            tree_.Path("/sys/fs/cgroup/a/ppc-burn-" + std::to_string(group->id())));
  EXPECT_EQ(group->Read(kShare, true)->used, 300u) << "there is nothing yet";
  V2("/a/ppc-burn-" + std::to_string(group->id()), "max", "max", "200");
  const auto reading = group->Read(kShare, true);
  EXPECT_EQ(reading->limit, 10000u);
  EXPECT_EQ(reading->used, 500u);
  EXPECT_EQ(reading->cache, 1800u);
  EXPECT_EQ(group->Used(), 500u);
  EXPECT_EQ(group->RoomBeside(), 9700u);
  V2("/a/b", "max", "max", "300");
  EXPECT_EQ(group->RoomBeside(), std::nullopt);
  EXPECT_EQ(group->Read(kShare, false)->used, 500u) << "its parent's, which counts both";
}

TEST_F(CgroupTest, GroupsForItsLoadsLieBelowItInV1) {
  V1("", "9223372036854771712", "99999");
  V1("/job", "2000", "500");
  EXPECT_EQ(Open("/job")->load_place().directory, tree_.Path("/sys/fs/cgroup/memory/job"));
  EXPECT_FALSE(Open("/job")->load_place().is_beside);
  EXPECT_EQ(Open("/job")->RoomBeside(), std::nullopt);
}

TEST_F(CgroupTest, LimitChangesAreSeen) {
  V2("/a", "1000", "max", "300");
  const Result<Cgroup> group = Open("/a");
  V2("/a", "2000", "max", "400");
  EXPECT_EQ(group->Read(kShare, false)->limit, 2000u);
  EXPECT_EQ(group->Read(kShare, false)->used, 400u);
}

TEST_F(CgroupTest, TakesDirectoriesToo) {
  V2("/a", "1000", "max", "300");
  EXPECT_TRUE(Open(tree_.Path("/sys/fs/cgroup/a")).ok());
  EXPECT_TRUE(Open("/a/").ok());
}

TEST_F(CgroupTest, RefusesOtherPaths) {
  V2("/a", "1000", "max", "300");
  EXPECT_EQ(Open("/absent").error().code, ENOENT);
  EXPECT_EQ(Open("").error().code, EINVAL);
  EXPECT_EQ(Open("a").error().code, EINVAL);
  EXPECT_EQ(Open("/a/../b").error().code, EINVAL);
  EXPECT_EQ(Open(tree_.Root()).error().code, ENOENT);
}

TEST_F(CgroupTest, ContainsItselfAndBelow) {
  V2("/a/b", "1000", "max", "300");
  const Result<Cgroup> group = Open("/a/b");
  EXPECT_TRUE(group->Contains("/a/b"));
  EXPECT_TRUE(group->Contains("/a/b/c"));
  EXPECT_FALSE(group->Contains("/a/bc"));
  EXPECT_FALSE(group->Contains("/a"));
}

TEST_F(CgroupTest, AllowedNodes) {
  V2("/a", "1000", "max", "300");
  EXPECT_TRUE(Open("/a")->AllowedNodes().empty());
  tree_.Write("/sys/fs/cgroup/a/cpuset.mems.effective", "1,3\n");
  const Result<Cgroup> group = Open("/a");
  EXPECT_EQ(group->AllowedNodes(), (std::vector<int>{1, 3}));
  tree_.Write("/sys/fs/cgroup/a/cpuset.mems.effective", "0-1\n");
  EXPECT_EQ(group->AllowedNodes(), (std::vector<int>{0, 1}));
  tree_.Write("/sys/fs/cgroup/a/cpuset.mems.effective", "\n");
  EXPECT_TRUE(group->AllowedNodes().empty());
}

// Where the cpuset controller is not switched on below, the ancestor's set is in force.
TEST_F(CgroupTest, AllowedNodesOfTheNearestAncestor) {
  V2("/a", "1000", "max", "300");
  V2("/a/b", "1000", "max", "300");
  tree_.Write("/sys/fs/cgroup/cpuset.mems.effective", "0-3\n");
  tree_.Write("/sys/fs/cgroup/a/cpuset.mems.effective", "2\n");
  EXPECT_EQ(Open("/a/b")->AllowedNodes(), std::vector<int>{2});
}

TEST_F(CgroupTest, AllowedNodesOfV1) {
  V1("", "9223372036854771712", "99999");
  V1("/job", "2000", "500");
  tree_.Write("/sys/fs/cgroup/cpuset/job/cpuset.effective_mems", "1\n");
  EXPECT_EQ(Open("/job")->AllowedNodes(), std::vector<int>{1});
}

TEST_F(CgroupTest, V1AncestorBinds) {
  V1("", "9223372036854771712", "99999");
  V1("/job", "1000", "790");
  V1("/job/pod", "2000", "500");
  EXPECT_EQ(Open("/job/pod")->Read(kShare, false)->limit, 1000u);
}

TEST_F(CgroupTest, AncestorsHighBinds) {
  V2("/a", "max", "500", "450");
  V2("/a/b", "10000", "max", "10");
  EXPECT_EQ(Open("/a/b")->Read(kShare, false)->limit, 500u);
}

TEST(TenantGroupTest, IsAContainerAPodOrAUnit) {
  const std::pair<const char*, const char*> kGroups[] = {
      {"", ""},
      {"/", ""},
      {"/user.slice/user-1.slice", ""},
      {"/user.slice/user-1.slice/user@1.service/app.slice/x.scope",
       "/user.slice/user-1.slice/user@1.service"},
      {"/system.slice/docker-1.scope/a/b", "/system.slice/docker-1.scope"},
      {"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-2.scope/a",
       "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice"},
      {"/kubepods/burstable/pod1/2/a", "/kubepods/burstable/pod1"},
      {"/docker/1/a", "/docker/1"},
      {"/lxc.payload.one/a", "/lxc.payload.one"},
      {"/system.slice/slurmstepd.scope/job_7/step_0/user", "/system.slice/slurmstepd.scope/job_7"},
      {"/system.slice/containerd.service/kubepods-pod1.slice/x",
       "/system.slice/containerd.service/kubepods-pod1.slice"},
      {"/machine.slice/machine-podman.slice/libpod-1.scope/a",
       "/machine.slice/machine-podman.slice/libpod-1.scope"},
      {"/an-engine/1/a", "/an-engine/1"},
      {"/one", "/one"}};
  for (const auto& [group, tenant] : kGroups) EXPECT_EQ(TenantGroup(group), tenant) << group;
}

}  // namespace
}  // namespace ppc
