// SPDX-License-Identifier: Apache-2.0
#include "extras/floor/free_floor.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kMargin = FreeFloor::kLeastMargin;

// Two nodes of 6 and 2 GiB, a floor of 800 MiB: 600 and 200.
class FreeFloorTest : public testing::Test {
 protected:
  static constexpr uint64_t kFloor = 800 * kMiB;

  FreeFloorTest() {
    tree_.Write("/sys/devices/system/node/online", "0-1\n");
    tree_.Write("/proc/meminfo", "MemTotal: " + std::to_string(8 << 20) + " kB\n");
    for (const char* node : {"0", "1"}) tree_.Write(Node(node, "reclaim"), "");
    SetFree("0", 650);
    SetFree("1", 1000);
  }
  static std::string Node(const std::string& node, const std::string& file) {
    return "/sys/devices/system/node/node" + node + "/" + file;
  }
  void SetFree(const std::string& node, uint64_t mib) {
    const std::string total = node == "0" ? std::to_string(6 << 20) : std::to_string(2 << 20);
    tree_.Write(Node(node, "meminfo"), "Node " + node + " MemTotal: " + total + " kB\nNode " +
                                           node + " MemFree: " + std::to_string(mib << 10) +
                                           " kB\n");
  }
  void RemoveNodeFiles() {
    for (const char* node : {"0", "1"}) std::filesystem::remove(tree_.Path(Node(node, "reclaim")));
  }
  // MiB that are asked of node 0, of which so many are free.
  uint64_t Missing(uint64_t free_mib) {
    SetFree("0", free_mib);
    return *floor_.Look() / kMiB;
  }
  // What was written there since it was asked last.
  std::string Asked(const std::string& path) {
    const std::string text = tree_.Read(path);
    tree_.Write(path, "");
    return text;
  }
  static std::string Words(uint64_t bytes) { return std::to_string(bytes) + " swappiness=0"; }

  TempTree tree_;
  FreeFloor floor_{SysRoots{tree_.Root(), tree_.Root()}, kFloor};
};

TEST_F(FreeFloorTest, EachNodeKeepsItsShareAndAMargin) {
  EXPECT_EQ(Missing(634), 0u);  // above 600 and half the margin
  EXPECT_EQ(Asked(Node("0", "reclaim")), "");
  EXPECT_EQ(Missing(631), 600 + 64 - 631u);
  EXPECT_EQ(Asked(Node("0", "reclaim")), Words(33 * kMiB));
  EXPECT_EQ(Asked(Node("1", "reclaim")), "");
}

TEST_F(FreeFloorTest, TheMarginIsFourTimesWhatWasTakenBetweenTwoLooks) {
  for (const uint64_t free : {900, 850, 800, 750}) EXPECT_EQ(Missing(free), 0u);
  EXPECT_EQ(Missing(695), 600 + 220 - 695u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Missing(820), 0u);
  for (uint64_t free = 820; free > 640; free -= 15) EXPECT_EQ(Missing(free), 0u) << free;
  EXPECT_EQ(Missing(250), 600 + 300 - 250u) << "half of the floor at most";
}

// Processes have the memory: executables and what was just loaded are all that could go.
TEST_F(FreeFloorTest, WhereNothingIsFreedItAsksLessAndLess) {
  int orders = 0;
  for (int i = 0; i < 1000; ++i) orders += Missing(100) > 0 ? 1 : 0;
  EXPECT_GE(orders, 10);
  EXPECT_LE(orders, 30);
}

TEST_F(FreeFloorTest, WhereNodesCannotBeAskedTheRootGroupIs) {
  RemoveNodeFiles();
  tree_.Write("/sys/fs/cgroup/memory.reclaim", "");
  SetFree("0", 100);
  EXPECT_EQ(*floor_.Look(), 564 * kMiB);
  EXPECT_EQ(Asked("/sys/fs/cgroup/memory.reclaim"), Words(564 * kMiB));
}

TEST_F(FreeFloorTest, ElseTheWatermarksRiseAndComeBack) {
  RemoveNodeFiles();
  SetFree("0", 100);
  const Result<uint64_t> none = floor_.Look();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ENOTSUP);
  const std::string path = "/proc/sys/vm/watermark_scale_factor";
  tree_.Write(path, "10\n");
  {
    FreeFloor floor(SysRoots{tree_.Root(), tree_.Root()}, kFloor);
    EXPECT_TRUE(floor.Look());
    EXPECT_EQ(tree_.Read(path).substr(0, 3), "977");  // 800 of 8192 MiB
    EXPECT_TRUE(floor.Look());
  }
  EXPECT_EQ(tree_.Read(path).substr(0, 2), "10");
}

}  // namespace
}  // namespace ppc
