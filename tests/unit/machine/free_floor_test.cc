// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/free_floor.h"

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
    SetFree("0", 5000);
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
  EXPECT_EQ(*floor_.Look(), 0u);
  SetFree("0", 634);  // above 600 and half the margin, which is of what one look may miss
  EXPECT_EQ(Asked(Node("0", "reclaim")), "");
  FreeFloor other(SysRoots{tree_.Root(), tree_.Root()}, kFloor);
  EXPECT_EQ(*other.Look(), 0u);
  SetFree("0", 631);
  EXPECT_EQ(*other.Look(), 600 * kMiB + kMargin - 631 * kMiB);
  EXPECT_EQ(Asked(Node("0", "reclaim")), Words(33 * kMiB));
  EXPECT_EQ(Asked(Node("1", "reclaim")), "");
}

TEST_F(FreeFloorTest, TheMarginIsFourTimesWhatWasTakenBetweenTwoLooks) {
  const auto missing = [this](uint64_t free) {
    SetFree("0", free);
    return *floor_.Look() / kMiB;
  };
  EXPECT_EQ(missing(900), 0u);
  EXPECT_EQ(missing(850), 0u);
  EXPECT_EQ(missing(800), 0u);
  EXPECT_EQ(missing(750), 0u);
  EXPECT_EQ(missing(695), 600u + 220 - 695);
  EXPECT_EQ(missing(760), 0u);
  EXPECT_EQ(missing(700), 600u + 240 - 700) << "the kernel had freed what was asked for";
  EXPECT_EQ(missing(250), 600u + 300 - 250) << "half of the floor at most";
  for (int i = 0; i < 100; ++i) (void)missing(820);
  for (uint64_t free = 820; free > 640; free -= 15) EXPECT_EQ(missing(free), 0u) << free;
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
