// SPDX-License-Identifier: Apache-2.0
#include "daemon/sys/host_memory.h"

#include <gtest/gtest.h>

#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

constexpr uint64_t kKib = 1024;

class HostMemoryTest : public testing::Test {
 protected:
  HostMemoryTest() {
    tree_.Write("/proc/meminfo",
                "MemTotal:       1000 kB\nMemFree:   100 kB\nMemAvailable:    600 kB\n");
    options_.roots = SysRoots{tree_.Root(), tree_.Root()};
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

TEST_F(HostMemoryTest, OnlyTheNodesOfTheCpuset) {
  tree_.Write("/sys/fs/cgroup/s/cpuset.mems.effective", "1\n");
  tree_.Write("/sys/devices/system/node/node1/meminfo",
              "Node 1 MemTotal:  500 kB\nNode 1 MemFree:  200 kB\nNode 1 Active(file): 60 kB\n"
              "Node 1 Inactive(file):  40 kB\nNode 1 Dirty: 20 kB\nNode 1 SReclaimable: 20 kB\n");
  ServiceMemory memory(options_, MakeCgroup("max", "0"));
  EXPECT_EQ(memory.Read(false).limit, 500 * kKib);
  EXPECT_EQ(memory.Read(false).used, 210 * kKib);  // 500 - (200 + 60 + 40 + 10 - 20)
}

}  // namespace
}  // namespace ppc
