// SPDX-License-Identifier: Apache-2.0
// A group's read limit, and who shares it.
#include "daemon/machine/io_limit.h"

#include <gtest/gtest.h>

#include "daemon/base/clock.h"
#include "daemon/machine/io_neighbours.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

constexpr BlockDevice kDisk{8, 0};
constexpr BlockDevice kPartition{8, 2};

class IoLimitTest : public testing::Test {
 protected:
  IoLimitTest() : roots_{tree_.Root(), tree_.Root()} {
    // A disk with a partition, as sysfs has them.
    tree_.Write("/sys/devices/pci/block/sda/dev", "8:0\n");
    tree_.Write("/sys/devices/pci/block/sda/queue/max_sectors_kb", "1280\n");
    tree_.Write("/sys/devices/pci/block/sda/sda2/dev", "8:2\n");
    tree_.Write("/sys/devices/pci/block/sda/sda2/partition", "2\n");
    tree_.Link("/sys/dev/block/8:0", "../../devices/pci/block/sda");
    tree_.Link("/sys/dev/block/8:2", "../../devices/pci/block/sda/sda2");
    tree_.Link("/sys/class/block/sda2", "../../devices/pci/block/sda/sda2");
  }
  void Max(const std::string& group, const std::string& text) {
    tree_.Write("/sys/fs/cgroup" + group + "/io.max", text);
  }
  // The limits of /a/b, from inside out.
  std::vector<uint64_t> Rates(BlockDevice device, const std::string& group = "/a/b") {
    IoLimit limit(roots_, tree_.Path("/sys/fs/cgroup" + group));
    std::vector<uint64_t> rates;
    for (const IoLevel& level : limit.Read(device)) rates.push_back(level.rate);
    return rates;
  }
  TempTree tree_;
  SysRoots roots_;
};

TEST_F(IoLimitTest, APartitionsLimitIsItsDisks) {
  EXPECT_EQ(DevicesBelow(roots_, kPartition), (std::vector<BlockDevice>{kPartition, kDisk}));
  Max("/a/b", "8:0 rbps=1000000 wbps=5 riops=max wiops=max\n");
  EXPECT_EQ(Rates(kPartition), std::vector<uint64_t>{1000000});
  EXPECT_EQ(Rates(kDisk), std::vector<uint64_t>{1000000});
}

TEST_F(IoLimitTest, AllAncestorsCount) {
  Max("/a/b", "8:0 rbps=max wbps=max riops=max wiops=max\n");
  Max("/a", "8:0 rbps=7000 wbps=max riops=max wiops=max\n");
  EXPECT_EQ(Rates(kDisk), (std::vector<uint64_t>{0, 7000}));
}

TEST_F(IoLimitTest, OtherDevicesDoNotCount) {
  Max("/a/b", "8:16 rbps=7000 wbps=max riops=max wiops=max\n18:0 rbps=9 riops=max\n");
  EXPECT_EQ(Rates(kDisk), std::vector<uint64_t>{0});
}

TEST_F(IoLimitTest, RequestsPerSecondAreBytesToo) {
  Max("/a/b", "8:0 rbps=9000000 wbps=max riops=4 wiops=1\n");
  EXPECT_EQ(Rates(kDisk), std::vector<uint64_t>{4u << 20});
  tree_.Write("/sys/devices/pci/block/sda/queue/max_sectors_kb", "256\n");
  EXPECT_EQ(Rates(kDisk), std::vector<uint64_t>{1u << 20});
}

TEST_F(IoLimitTest, WhatAMappedDeviceIsMadeOf) {
  tree_.Write("/sys/devices/virtual/block/dm-0/dev", "253:0\n");
  tree_.Link("/sys/devices/virtual/block/dm-0/slaves/sda2", "../../../../pci/block/sda/sda2");
  tree_.Link("/sys/dev/block/253:0", "../../devices/virtual/block/dm-0");
  Max("/a/b", "8:0 rbps=5000 wbps=max riops=max wiops=max\n253:0 rbps=6000 riops=max\n");
  EXPECT_EQ(Rates(BlockDevice{253, 0}), std::vector<uint64_t>{5000});
}

TEST_F(IoLimitTest, AnAnonymousDeviceIsLookedUp) {
  Max("/a/b", "8:0 rbps=5000 wbps=max riops=max wiops=max\n");
  EXPECT_EQ(Rates(BlockDevice{0, 45}), std::vector<uint64_t>{0});
  tree_.Write("/proc/self/mountinfo",
              "30 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
              "36 35 0:45 /sub /models rw shared:1 - btrfs /dev/sda2 rw,subvol=/sub\n"
              "37 35 0:46 / /net rw - nfs4 server:/models rw\n");
  EXPECT_EQ(Rates(BlockDevice{0, 45}), std::vector<uint64_t>{5000});
  EXPECT_EQ(Rates(BlockDevice{0, 46}), std::vector<uint64_t>{0});
}

TEST_F(IoLimitTest, V1) {
  tree_.Write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1\n");
  tree_.Write("/sys/fs/cgroup/blkio/a/blkio.throttle.read_bps_device", "8:0 4000\n8:16 1\n");
  tree_.Write("/sys/fs/cgroup/blkio/a/blkio.throttle.read_iops_device", "");
  EXPECT_EQ(Rates(kPartition, "/memory/a"), std::vector<uint64_t>{4000});
  tree_.Write("/sys/fs/cgroup/blkio/a/blkio.throttle.read_iops_device", "8:0 2\n");
  tree_.Write("/sys/fs/cgroup/blkio/a/blkio.throttle.read_bps_device", "8:0 90000000\n");
  EXPECT_EQ(Rates(kPartition, "/memory/a"), std::vector<uint64_t>{2u << 20});
}

TEST_F(IoLimitTest, ChangesAreSeenAndNoiseIsNoLimit) {
  Max("/a/b", "");
  IoLimit limit(roots_, tree_.Path("/sys/fs/cgroup/a/b"));
  ASSERT_TRUE(limit.IsKnown());
  EXPECT_EQ(limit.Read(kDisk)[0].rate, 0u);
  Max("/a/b", "8:0 rbps=5000 riops=max\n");
  EXPECT_EQ(limit.Read(kDisk)[0].rate, 5000u);
  Max("/a/b", "x\n8:\n8:0\n8:0 rbps=\n");
  EXPECT_EQ(limit.Read(kDisk)[0].rate, 0u);
}

TEST_F(IoLimitTest, NoControllerNoLimit) {
  IoLimit limit(roots_, tree_.Path("/sys/fs/cgroup/none"));
  EXPECT_FALSE(limit.IsKnown());
  EXPECT_TRUE(limit.Read(kDisk).empty());
}

class IoNeighboursTest : public testing::Test {
 protected:
  IoNeighboursTest() {
    tree_.Write("/proc/7/cgroup", "4:memory:/v1\n0::/system/ppcd/ppc.runners/0\n");
    tree_.Write("/sys/fs/cgroup/cgroup.controllers", "io\n");
    for (const char* group : {"/system", "/system/ppcd", "/system/ppcd/ppc.runners",
                              "/system/ppcd/ppc.runners/0", "/user"}) {
      Waits(group, 0);
    }
  }
  // So many ms altogether.
  void Waits(const std::string& group, uint64_t ms) {
    tree_.Write("/sys/fs/cgroup" + group + "/io.pressure",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=" + std::to_string(ms * 1000) +
                    "\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
  }
  double NextSecond() { return neighbours().Waiting(now_ns_ += kNsPerSec); }
  IoNeighbours& neighbours() {
    if (neighbours_ == nullptr) {
      neighbours_ = std::make_unique<IoNeighbours>(SysRoots{tree_.Root(), tree_.Root()}, 7);
      neighbours_->SetServices({"/pods/model"});
    }
    return *neighbours_;
  }
  TempTree tree_;
  uint64_t now_ns_ = kNsPerSec;
  std::unique_ptr<IoNeighbours> neighbours_;
};

TEST_F(IoNeighboursTest, TheWorstOffCounts) {
  EXPECT_EQ(NextSecond(), 0);
  Waits("/user", 300);
  Waits("/system/database", 0);
  EXPECT_DOUBLE_EQ(NextSecond(), 0.3);
  Waits("/user", 400);
  Waits("/system/database", 600);
  EXPECT_DOUBLE_EQ(NextSecond(), 0.6);
  EXPECT_EQ(NextSecond(), 0);
}

TEST_F(IoNeighboursTest, LooksOnceASecond) {
  NextSecond();
  Waits("/user", 500);
  EXPECT_EQ(neighbours().Waiting(now_ns_ + kNsPerSec / 2), 0);
  EXPECT_DOUBLE_EQ(neighbours().Waiting(now_ns_ + kNsPerSec), 0.5);
}

// They wait because we load, and what for.
TEST_F(IoNeighboursTest, OurOwnAreNone) {
  const char* const kOurs[] = {
      "/system", "/system/ppcd", "/system/ppcd/ppc.runners/0", "/system/ppcd/ppc.runners/1",
      "/pods",   "/pods/model",  "/pods/model/worker"};
  for (const char* group : kOurs) Waits(group, 0);
  NextSecond();
  for (const char* group : kOurs) Waits(group, 900);
  EXPECT_EQ(NextSecond(), 0);
}

TEST_F(IoNeighboursTest, WithoutServicesNobodyIsKnown) {
  neighbours().SetServices({});
  NextSecond();
  Waits("/user", 900);
  EXPECT_EQ(NextSecond(), 0);
}

TEST_F(IoNeighboursTest, AHybridHierarchy) {
  tree_.Write("/proc/7/cgroup", "4:memory:/v1\n0::/\n");
  tree_.Write("/sys/fs/cgroup/unified/cgroup.controllers", "");
  tree_.Write("/sys/fs/cgroup/unified/job/io.pressure", "some avg10=0 total=0\n");
  NextSecond();
  tree_.Write("/sys/fs/cgroup/unified/job/io.pressure", "some avg10=0 total=200000\n");
  EXPECT_DOUBLE_EQ(NextSecond(), 0.2);
}

TEST_F(IoNeighboursTest, AKernelWithoutPressure) {
  TempTree empty;
  IoNeighbours none(SysRoots{empty.Root(), empty.Root()}, 7);
  none.SetServices({"/a"});
  EXPECT_EQ(none.Waiting(kNsPerSec), 0);
  EXPECT_EQ(none.Waiting(2 * kNsPerSec), 0);
}

}  // namespace
}  // namespace ppc
