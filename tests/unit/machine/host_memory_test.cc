// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/host_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>

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
  // Two nodes, of 300 and 400 kB, 100 kB of each free.
  void MakeNodes() {
    for (const auto& [node, total] : {std::pair{"0", "300"}, {"1", "400"}}) {
      tree_.Write(std::string("/sys/devices/system/node/node") + node + "/meminfo",
                  std::string("Node 0 MemTotal:  ") + total + " kB\nNode 0 MemFree:  100 kB\n");
    }
    tree_.Write("/sys/devices/system/node/online", "0-1\n");
  }
  MemoryReading Read() const { return ServiceMemory(options_, nullptr).Read(false); }
  MemoryReading Read(const std::string& max) {
    return ServiceMemory(options_, MakeCgroup(max, "0")).Read(false);
  }
  TempTree tree_;
  ServiceMemory::Options options_;
};

TEST_F(HostMemoryTest, HostWithoutCgroup) {
  const MemoryReading reading = Read();
  EXPECT_EQ(reading.limit, 1000 * kKib);
  EXPECT_EQ(reading.used, 400 * kKib);
  EXPECT_EQ(reading.Room(), 400 * kKib);
  EXPECT_FALSE(reading.is_cgroup);
}

TEST_F(HostMemoryTest, OwnCacheCountsAsUsed) {
  const std::atomic<uint64_t> own = 300 * kKib;
  options_.own_cache = &own;
  EXPECT_EQ(Read().used, 700 * kKib);
  EXPECT_EQ(Read().Room(), 100 * kKib);
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
  EXPECT_EQ(Read().cache, 500 * kKib);
  EXPECT_EQ(Read().used, 900 * kKib);
}

TEST_F(HostMemoryTest, WhatCountsTheOwnCacheIsAnEstimate) {
  std::atomic<uint64_t> own = 0;
  options_.own_cache = &own;
  EXPECT_FALSE(Read("102400").is_estimate);  // the cgroup's
  ServiceMemory host(options_, nullptr);
  EXPECT_FALSE(host.Read(false).is_estimate);
  own = kKib;
  EXPECT_TRUE(host.Read(false).is_estimate);
  options_.limit_bytes = 2 * kKib;
  EXPECT_TRUE(Read().is_estimate);
}

TEST_F(HostMemoryTest, TighterOfHostAndCgroup) {
  EXPECT_EQ(Read("102400").limit, 102400u);
  EXPECT_EQ(Read("10240000").limit, 1000 * kKib);
}

// On a machine of which more is taken than the threshold allows, a group that fits into the rest.
TEST_F(HostMemoryTest, OfWholeLimitsTheTighterOne) {
  tree_.Write("/proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 1048576 kB\n");
  ServiceMemory memory(options_, MakeCgroup(std::to_string(512 << 20), "0"));
  EXPECT_FALSE(memory.Read(false).is_cgroup);
  memory.SetUsesLimit(true);
  EXPECT_TRUE(memory.Read(false).is_cgroup);
  EXPECT_EQ(memory.Read(false).Room(), uint64_t{480} << 20);
  memory.SetUsesLimit(false);
  EXPECT_FALSE(memory.Read(false).is_cgroup);
}

TEST_F(HostMemoryTest, ConfiguredLimitAndReserve) {
  const std::atomic<uint64_t> own = 10 * kKib;
  options_.own_cache = &own;
  options_.limit_bytes = 50 * kKib;
  EXPECT_EQ(Read().Room(), 30 * kKib);
  options_.limit_bytes = 0;
  options_.reserve_bytes = 500 * kKib;
  EXPECT_EQ(Read().limit, 500 * kKib);
  EXPECT_EQ(Read().Room(), 0u);
}

TEST_F(HostMemoryTest, ReserveAsAShareTheLargerCounts) {
  options_.reserve_share = 0.1;
  EXPECT_EQ(Read().limit, 900 * kKib);
  options_.reserve_bytes = 300 * kKib;
  EXPECT_EQ(Read().limit, 700 * kKib);
}

// More than there is: nothing may be loaded, whatever the cgroup says.
TEST_F(HostMemoryTest, ReserveBeyondTheMachine) {
  options_.reserve_bytes = 2000 * kKib;
  const MemoryReading reading = Read("102400000");
  EXPECT_EQ(reading.limit, 0u);
  EXPECT_EQ(reading.Room(), 0u);
}

TEST_F(HostMemoryTest, OnlyTheNodesOfTheCpuset) {
  tree_.Write("/sys/fs/cgroup/s/cpuset.mems.effective", "1\n");
  tree_.Write("/sys/devices/system/node/node1/meminfo",
              "Node 1 MemTotal:  500 kB\nNode 1 MemFree:  200 kB\nNode 1 Active(file): 60 kB\n"
              "Node 1 Inactive(file):  40 kB\nNode 1 Dirty: 20 kB\nNode 1 SReclaimable: 20 kB\n");
  const MemoryReading reading = Read("max");
  EXPECT_EQ(reading.limit, 500 * kKib);
  EXPECT_EQ(reading.used, 210 * kKib);  // 500 - (200 + 60 + 40 + 10 - 20)
}

TEST_F(HostMemoryTest, CpusetMayChange) {
  MakeNodes();
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

// As of GH200: the accelerator's memory is a node, online once its driver is there.
TEST_F(HostMemoryTest, TheMemoryOfADeviceDoesNotCount) {
  MakeNodes();
  const std::string base = "/sys/devices/system/node/";
  tree_.Write(base + "has_cpu", "0\n");
  tree_.Write(base + "has_memory", "0-1\n");
  EXPECT_EQ(Read().limit, 1000 * kKib) << "a node without CPUs alone may be slow memory";
  tree_.Write(base + "has_generic_initiator", "1-2\n");
  EXPECT_EQ(Read().limit, 300 * kKib);
  EXPECT_EQ(ServiceMemory::MachineBudget(options_), 40 * kKib);  // 0.8 x 300, less 200 taken
  tree_.Write("/sys/fs/cgroup/s/cpuset.mems.effective", "1\n");
  EXPECT_EQ(Read("max").limit, 400 * kKib) << "it may use no other";
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
  EXPECT_EQ(Read("max").used, 300 * kKib + 10 * page);
}

// --------------------------------------------------------------- memory stalls

class MemoryStallTest : public HostMemoryTest {
 protected:
  MemoryStallTest() {
    options_.now_ns = [this] { return now_ns_; };
  }
  static constexpr const char* kOfGroup = "/sys/fs/cgroup/s/memory.pressure";
  static constexpr const char* kOfMachine = "/proc/pressure/memory";
  // What is withheld a second after tasks stalled for so long there.
  uint64_t WithheldAfter(ServiceMemory* memory, const std::string& path, uint64_t total_us) {
    memory->Read(false);
    Stalled(path, total_us);
    now_ns_ += kNsPerSec;
    return memory->Read(false).withheld;
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
  Stalled(kOfGroup, 5000);
  ServiceMemory memory(options_, group);
  // What was stalled before we came does not count.
  EXPECT_EQ(memory.Read(false).threshold, 800000u);
  // 150 ms of a second: of the 700000 the page cache could have, half stays.
  Stalled(kOfGroup, 155000);
  EXPECT_EQ(memory.Read(false).withheld, 0u);  // looked this very second
  now_ns_ += kNsPerSec;
  EXPECT_EQ(memory.Read(false).withheld, 350000u);
  EXPECT_EQ(memory.Read(false).threshold, 450000u);
  EXPECT_EQ(memory.Read(false).limit, 1000000u);
  // Goes on: a quarter, an eighth, not less.
  for (int i = 0; i < 5; ++i) {
    Stalled(kOfGroup, 1000000 * static_cast<uint64_t>(i + 1));
    now_ns_ += kNsPerSec;
    memory.Read(false);
  }
  EXPECT_EQ(memory.Read(false).withheld, 612500u);
  // Calm again: back, a step a second.
  for (const uint64_t withheld : {525000u, 350000u, 0u}) {
    now_ns_ += kNsPerSec;
    EXPECT_EQ(memory.Read(false).withheld, withheld);
  }
}

TEST_F(MemoryStallTest, AFewMillisecondsChangeNothing) {
  Stalled(kOfGroup, 0);
  ServiceMemory memory(options_, MakeCgroup("1000000", "300000"));
  EXPECT_EQ(WithheldAfter(&memory, kOfGroup, 90000), 0u);
}

TEST_F(MemoryStallTest, OurOwnReclaimCounts) {
  Stalled(kOfGroup, 0);
  Stalled("/sys/fs/cgroup/daemon/memory.pressure", 0);
  options_.own_cgroup = tree_.Path("/sys/fs/cgroup/daemon");
  ServiceMemory memory(options_, MakeCgroup("1000000", "300000"));
  EXPECT_GT(WithheldAfter(&memory, "/sys/fs/cgroup/daemon/memory.pressure", 200000), 0u);
}

TEST_F(MemoryStallTest, WithoutACgroupTheMachineCounts) {
  Stalled(kOfMachine, 0);
  ServiceMemory memory(options_, nullptr);
  EXPECT_EQ(WithheldAfter(&memory, kOfMachine, 500000), 200 * kKib);  // (800 - 400) / 2
}

TEST_F(MemoryStallTest, NoPsiOrSwitchedOff) {
  EXPECT_EQ(Read().withheld, 0u);
  tree_.Write(kOfMachine, "");  // psi=0
  now_ns_ += kNsPerSec;
  EXPECT_EQ(Read().withheld, 0u);
  Stalled(kOfMachine, 0);
  options_.stall_share = 0;
  ServiceMemory off(options_, nullptr);
  EXPECT_EQ(WithheldAfter(&off, kOfMachine, 900000), 0u);
}

}  // namespace
}  // namespace ppc
