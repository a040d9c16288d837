// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/io_neighbours.h"

#include <gtest/gtest.h>

#include "daemon/base/clock.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

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
