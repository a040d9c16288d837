// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/host_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

constexpr uint64_t kKib = 1024;

class HostMemoryTest : public testing::Test {
 protected:
  HostMemoryTest() {
    tree_.Write("/proc/meminfo",
                "MemTotal:       1000 kB\nMemFree:   100 kB\nMemAvailable:    600 kB\n"
                "Active(file):    150 kB\nInactive(file):  350 kB\n");
    options_.roots = SysRoots{tree_.Root(), tree_.Root()};
    options_.share = 0.8;
  }
  std::shared_ptr<const Cgroup> MakeCgroup(const std::string& max, const std::string& current) {
    tree_.Write("/sys/fs/cgroup/s/memory.max", max);
    tree_.Write("/sys/fs/cgroup/s/memory.current", current);
    Result<Cgroup> group = Cgroup::Open("/s", options_.roots);
    EXPECT_TRUE(group.ok());
    return std::make_shared<Cgroup>(std::move(*group));
  }
  TempTree tree_;
  ServiceMemory::Options options_;
};

TEST_F(HostMemoryTest, HostWithoutCgroup) {
  ServiceMemory memory(options_, nullptr);
  const MemoryReading reading = memory.Read(false);
  EXPECT_EQ(reading.limit, 1000 * kKib);
  EXPECT_EQ(reading.used, 400 * kKib);
  EXPECT_EQ(reading.Room(), 400 * kKib);
  EXPECT_FALSE(reading.is_cgroup);
}

TEST_F(HostMemoryTest, OwnCacheCountsAsUsed) {
  const std::atomic<uint64_t> own = 300 * kKib;
  options_.own_cache = &own;
  ServiceMemory memory(options_, nullptr);
  EXPECT_EQ(memory.Read(false).used, 700 * kKib);
  EXPECT_EQ(memory.Read(false).Room(), 100 * kKib);
}

// With hundreds of services the machine is read once for all.
TEST_F(HostMemoryTest, ServicesShareAReadingForAMillisecond) {
  uint64_t now = kNsPerSec;
  options_.now_ns = [&now] { return now; };
  options_.readings = std::make_shared<HostReadings>();
  ServiceMemory one(options_, nullptr);
  ServiceMemory two(options_, nullptr);
  EXPECT_EQ(one.Read(false).used, 400 * kKib);
  tree_.Write("/proc/meminfo", "MemTotal:       1000 kB\nMemAvailable:    500 kB\n");
  EXPECT_EQ(two.Read(false).used, 400 * kKib);
  now += 1'000'000;
  EXPECT_EQ(two.Read(false).used, 500 * kKib);
}

// Others keep page cache, too: to the machine theirs looks like free memory.
TEST_F(HostMemoryTest, TheShareOfSeveralBinds) {
  std::atomic<uint64_t> own = 150 * kKib;
  std::atomic<uint64_t> share = kNoMemoryShare;
  options_.own_cache = &own;
  options_.share_bytes = &share;
  ServiceMemory memory(options_, nullptr);
  EXPECT_EQ(memory.Read(false).Room(), 250 * kKib);
  share = 200 * kKib;
  EXPECT_EQ(memory.Read(false).Room(), 50 * kKib);
  EXPECT_EQ(memory.Read(false).threshold, 200 * kKib);
  EXPECT_TRUE(memory.Read(false).is_estimate);
  share = 100 * kKib;
  EXPECT_LT(memory.Read(false).Slack(), 0);
  // All of it together.
  EXPECT_EQ(ServiceMemory::MachineBudget(options_), 400 * kKib);
  options_.reserve_bytes = 100 * kKib;
  EXPECT_EQ(ServiceMemory::MachineBudget(options_), 320 * kKib);
}

// The kernel has reclaimed most of it, or a process has dropped it.
TEST_F(HostMemoryTest, OwnCacheIsNotMoreThanThereIs) {
  const std::atomic<uint64_t> own = 800 * kKib;
  options_.own_cache = &own;
  ServiceMemory memory(options_, nullptr);
  EXPECT_EQ(memory.Read(false).cache, 500 * kKib);
  EXPECT_EQ(memory.Read(false).used, 900 * kKib);
}

TEST_F(HostMemoryTest, WhatCountsTheOwnCacheIsAnEstimate) {
  std::atomic<uint64_t> own = 0;
  options_.own_cache = &own;
  ServiceMemory memory(options_, MakeCgroup("102400", "0"));
  EXPECT_FALSE(memory.Read(false).is_estimate);  // the cgroup's
  ServiceMemory host(options_, nullptr);
  EXPECT_FALSE(host.Read(false).is_estimate);
  own = kKib;
  EXPECT_TRUE(host.Read(false).is_estimate);
  options_.limit_bytes = 2 * kKib;
  EXPECT_TRUE(ServiceMemory(options_, nullptr).Read(false).is_estimate);
}

TEST_F(HostMemoryTest, TighterOfHostAndCgroup) {
  const auto narrow = MakeCgroup("102400", "0");
  EXPECT_EQ(ServiceMemory(options_, narrow).Read(false).limit, 102400u);
  const auto wide = MakeCgroup("10240000", "0");
  EXPECT_EQ(ServiceMemory(options_, wide).Read(false).limit, 1000 * kKib);
}

TEST_F(HostMemoryTest, ConfiguredLimitAndReserve) {
  const std::atomic<uint64_t> own = 10 * kKib;
  options_.own_cache = &own;
  options_.limit_bytes = 50 * kKib;
  ServiceMemory limited(options_, nullptr);
  EXPECT_EQ(limited.Read(false).Room(), 30 * kKib);
  options_.limit_bytes = 0;
  options_.reserve_bytes = 500 * kKib;
  ServiceMemory reserved(options_, nullptr);
  EXPECT_EQ(reserved.Read(false).limit, 500 * kKib);
  EXPECT_EQ(reserved.Read(false).Room(), 0u);
}

TEST_F(HostMemoryTest, ReserveAsAShareTheLargerCounts) {
  options_.reserve_share = 0.1;
  EXPECT_EQ(ServiceMemory(options_, nullptr).Read(false).limit, 900 * kKib);
  options_.reserve_bytes = 300 * kKib;
  EXPECT_EQ(ServiceMemory(options_, nullptr).Read(false).limit, 700 * kKib);
}

// More than there is: nothing may be loaded, whatever the cgroup says.
TEST_F(HostMemoryTest, ReserveBeyondTheMachine) {
  options_.reserve_bytes = 2000 * kKib;
  ServiceMemory memory(options_, MakeCgroup("102400000", "0"));
  EXPECT_EQ(memory.Read(false).limit, 0u);
  EXPECT_EQ(memory.Read(false).Room(), 0u);
}

TEST_F(HostMemoryTest, OnlyTheNodesOfTheCpuset) {
  tree_.Write("/sys/fs/cgroup/s/cpuset.mems.effective", "1\n");
  tree_.Write("/sys/devices/system/node/node1/meminfo",
              "Node 1 MemTotal:  500 kB\nNode 1 MemFree:  200 kB\nNode 1 Active(file): 60 kB\n"
              "Node 1 Inactive(file):  40 kB\nNode 1 Dirty: 20 kB\nNode 1 SReclaimable: 20 kB\n");
  ServiceMemory memory(options_, MakeCgroup("max", "0"));
  EXPECT_EQ(memory.Read(false).limit, 500 * kKib);
  EXPECT_EQ(memory.Read(false).used, 210 * kKib);  // 500 - (200 + 60 + 40 + 10 - 20)
}

TEST_F(HostMemoryTest, CpusetMayChange) {
  const auto meminfo = [&](int node, int total) {
    tree_.Write("/sys/devices/system/node/node" + std::to_string(node) + "/meminfo",
                "Node 0 MemTotal:  " + std::to_string(total) + " kB\nNode 0 MemFree:  100 kB\n");
  };
  meminfo(0, 300);
  meminfo(1, 400);
  tree_.Write("/sys/devices/system/node/online", "0-1\n");
  tree_.Write("/sys/fs/cgroup/s/cpuset.mems.effective", "1\n");
  ServiceMemory memory(options_, MakeCgroup("max", "0"));
  EXPECT_EQ(memory.Read(false).limit, 400 * kKib);
  tree_.Write("/sys/fs/cgroup/s/cpuset.mems.effective", "0\n");
  EXPECT_EQ(memory.Read(false).limit, 300 * kKib);
  // All nodes: the machine's own account.
  tree_.Write("/sys/fs/cgroup/s/cpuset.mems.effective", "0-1\n");
  EXPECT_EQ(memory.Read(false).limit, 1000 * kKib);
  // A node that cannot be read is no reason to load without bounds.
  tree_.Write("/sys/fs/cgroup/s/cpuset.mems.effective", "7\n");
  EXPECT_EQ(memory.Read(false).limit, 1000 * kKib);
}

TEST_F(HostMemoryTest, WatermarksOfANodeStayFree) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  tree_.Write("/proc/zoneinfo",
              "Node 0, zone   Normal\n  pages free     9\n        low      50\n"
              "Node 1, zone      DMA\n  per-node stats\n      nr_slow 9\n  pages free     9\n"
              "        boost    0\n        min      6\n        low      2\n        high     9\n"
              "Node 1, zone   Normal\n        low      3\n");
  EXPECT_EQ(NodeWatermarks(options_.roots, {1}), 10 * page);
  EXPECT_EQ(NodeWatermarks(options_.roots, {0, 1}), 110 * page);
  EXPECT_EQ(NodeWatermarks(options_.roots, {2}), 0u);
  tree_.Write("/sys/fs/cgroup/s/cpuset.mems.effective", "1\n");
  tree_.Write("/sys/devices/system/node/node1/meminfo",
              "Node 1 MemTotal:  500 kB\nNode 1 MemFree:  200 kB\n");
  ServiceMemory memory(options_, MakeCgroup("max", "0"));
  EXPECT_EQ(memory.Read(false).used, 300 * kKib + 10 * page);
}

// --------------------------------------------------------------- memory stalls

class MemoryStallTest : public HostMemoryTest {
 protected:
  MemoryStallTest() {
    options_.now_ns = [this] { return now_ns_; };
  }
  void Stalled(const std::string& path, uint64_t total_us) {
    tree_.Write(path, "some avg10=0.00 avg60=0.00 avg300=0.00 total=" + std::to_string(total_us) +
                          "\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n");
  }
  uint64_t now_ns_ = 10 * kNsPerSec;
};

TEST_F(MemoryStallTest, HalvesTheWindowWhileTasksStall) {
  tree_.Write("/sys/fs/cgroup/s/memory.stat", "file 400000\n");
  const auto group = MakeCgroup("1000000", "500000");
  Stalled("/sys/fs/cgroup/s/memory.pressure", 5000);
  ServiceMemory memory(options_, group);
  // What was stalled before we came does not count.
  EXPECT_EQ(memory.Read(false).threshold, 800000u);
  // 150 ms of a second: of the 700000 the page cache could have, half stays.
  Stalled("/sys/fs/cgroup/s/memory.pressure", 155000);
  EXPECT_EQ(memory.Read(false).withheld, 0u);  // looked this very second
  now_ns_ += kNsPerSec;
  EXPECT_EQ(memory.Read(false).withheld, 350000u);
  EXPECT_EQ(memory.Read(false).threshold, 450000u);
  EXPECT_EQ(memory.Read(false).limit, 1000000u);
  // Goes on: a quarter, an eighth, not less.
  for (int i = 0; i < 5; ++i) {
    Stalled("/sys/fs/cgroup/s/memory.pressure", 1000000 * static_cast<uint64_t>(i + 1));
    now_ns_ += kNsPerSec;
    memory.Read(false);
  }
  EXPECT_EQ(memory.Read(false).withheld, 612500u);
  // Calm again: back, a step a second.
  now_ns_ += kNsPerSec;
  EXPECT_EQ(memory.Read(false).withheld, 525000u);
  now_ns_ += kNsPerSec;
  EXPECT_EQ(memory.Read(false).withheld, 350000u);
  now_ns_ += kNsPerSec;
  EXPECT_EQ(memory.Read(false).withheld, 0u);
}

TEST_F(MemoryStallTest, AFewMillisecondsChangeNothing) {
  const auto group = MakeCgroup("1000000", "300000");
  Stalled("/sys/fs/cgroup/s/memory.pressure", 0);
  ServiceMemory memory(options_, group);
  memory.Read(false);
  Stalled("/sys/fs/cgroup/s/memory.pressure", 90000);
  now_ns_ += kNsPerSec;
  EXPECT_EQ(memory.Read(false).withheld, 0u);
}

TEST_F(MemoryStallTest, OurOwnReclaimCounts) {
  const auto group = MakeCgroup("1000000", "300000");
  Stalled("/sys/fs/cgroup/s/memory.pressure", 0);
  Stalled("/sys/fs/cgroup/daemon/memory.pressure", 0);
  options_.own_cgroup = tree_.Path("/sys/fs/cgroup/daemon");
  ServiceMemory memory(options_, group);
  memory.Read(false);
  Stalled("/sys/fs/cgroup/daemon/memory.pressure", 200000);
  now_ns_ += kNsPerSec;
  EXPECT_GT(memory.Read(false).withheld, 0u);
}

TEST_F(MemoryStallTest, WithoutACgroupTheMachineCounts) {
  Stalled("/proc/pressure/memory", 0);
  ServiceMemory memory(options_, nullptr);
  memory.Read(false);
  Stalled("/proc/pressure/memory", 500000);
  now_ns_ += kNsPerSec;
  EXPECT_EQ(memory.Read(false).withheld, 200 * kKib);  // (800 - 400) / 2
}

TEST_F(MemoryStallTest, NoPsiOrSwitchedOff) {
  ServiceMemory none(options_, nullptr);
  EXPECT_EQ(none.Read(false).withheld, 0u);
  tree_.Write("/proc/pressure/memory", "");  // psi=0
  ServiceMemory empty(options_, nullptr);
  now_ns_ += kNsPerSec;
  EXPECT_EQ(empty.Read(false).withheld, 0u);
  Stalled("/proc/pressure/memory", 0);
  options_.stall_share = 0;
  ServiceMemory off(options_, nullptr);
  off.Read(false);
  Stalled("/proc/pressure/memory", 900000);
  now_ns_ += kNsPerSec;
  EXPECT_EQ(off.Read(false).withheld, 0u);
}

}  // namespace
}  // namespace ppc
