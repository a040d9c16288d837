// SPDX-License-Identifier: Apache-2.0
#include "daemon/sys/process_xpu.h"

#include <gtest/gtest.h>

#include "daemon/base/clock.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

class ProcessXpuTest : public testing::Test {
 protected:
  ProcessXpuTest() : roots_{tree_.Root(), tree_.Root()} {
    machine_.resize(2);
    machine_[0].bdf = "0000:01:00.0";
    machine_[1].bdf = "0000:02:00.0";
    machine_[1].vendor = 0x19e5;
  }
  // A process that lives; `ticks` since boot, of 10 ms.
  void Alive(int pid, int ticks) {
    tree_.Write("/proc/" + std::to_string(pid) + "/stat",
                std::to_string(pid) + " (w) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 " +
                    std::to_string(ticks) + " 0\n");
  }
  static uint64_t Start(int ticks) { return static_cast<uint64_t>(ticks) * 10 * kNsPerMs; }
  void Environ(int pid, const std::string& text) {
    tree_.Write("/proc/" + std::to_string(pid) + "/environ", text + std::string(1, '\0'));
  }
  TempTree tree_;
  SysRoots roots_;
  std::vector<Xpu> machine_;
};

TEST_F(ProcessXpuTest, EnvironmentInOrderOfPrecedence) {
  Environ(1, std::string("RANK=0\0LOCAL_RANK=1\0PPC_WORKER=2", 32));
  Environ(2, std::string("RANK=0\0LOCAL_RANK=1", 19));
  Environ(3, "RANK=5");
  Environ(4, "LOCAL_RANK=x");
  Alive(4, 1);
  ProcessXpu chain(roots_, {30, 10, 20, 0}, &machine_);
  XpuAnswer answer = chain.Find(1, 0, 0);
  EXPECT_EQ(answer.worker, 2);
  EXPECT_EQ(answer.xpu, 20);
  EXPECT_EQ(answer.source, XpuSource::kExplicit);
  EXPECT_EQ(chain.Find(2, 0, 0).xpu, 10);
  EXPECT_EQ(chain.Find(3, 0, 0).xpu, 10);  // 5 modulo 4
  EXPECT_EQ(chain.Find(3, 0, 0).source, XpuSource::kRank);
  EXPECT_EQ(chain.Find(4, Start(1), 0).source, XpuSource::kOrder);
}

TEST_F(ProcessXpuTest, OrderOfFirstReadGoesRound) {
  for (const int pid : {11, 12, 13}) Alive(pid, 100);
  ProcessXpu chain(roots_, {7, 8}, &machine_);
  EXPECT_EQ(chain.Find(11, Start(100), 0).xpu, 7);
  EXPECT_EQ(chain.Find(12, Start(100), 0).xpu, 8);
  EXPECT_EQ(chain.Find(11, Start(100), 0).xpu, 7);
  EXPECT_EQ(chain.Find(13, Start(100), 0).xpu, 7);
  // The same pid started anew is another process.
  Alive(11, 200);
  EXPECT_EQ(chain.Find(11, Start(200), 0).xpu, 8);
}

TEST_F(ProcessXpuTest, AProcessThatIsGoneTakesNoPlace) {
  Alive(12, 100);
  ProcessXpu chain(roots_, {7, 8}, &machine_);
  EXPECT_EQ(chain.Find(11, Start(100), 0).xpu, -1);
  EXPECT_EQ(chain.Find(12, Start(99), 0).xpu, -1);  // the pid is another's now
  EXPECT_EQ(chain.Find(12, Start(100), 0).xpu, 7);
}

TEST_F(ProcessXpuTest, AnOpenDeviceCorrectsTheOrderLater) {
  Alive(21, 100);
  ProcessXpu chain(roots_, {0, 1}, &machine_);
  EXPECT_EQ(chain.Find(21, Start(100), 0).xpu, 0);
  tree_.Link("/proc/21/fd/5", "/dev/davinci0");
  EXPECT_EQ(chain.Find(21, Start(100), kNsPerMs).xpu, 0);
  const XpuAnswer later = chain.Find(21, Start(100), 2 * kNsPerSec);
  EXPECT_EQ(later.xpu, 1);
  EXPECT_EQ(later.source, XpuSource::kDevice);
  EXPECT_EQ(later.worker, 1);
}

TEST_F(ProcessXpuTest, DevicesOfTheOtherKinds) {
  tree_.Link("/sys/class/drm/renderD128/device", "../../../0000:02:00.0");
  tree_.Write("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: x\nDevice Minor: 3\n");
  EXPECT_EQ(XpuOfDeviceFile(roots_, machine_, "/dev/dri/renderD128"), 1);
  EXPECT_EQ(XpuOfDeviceFile(roots_, machine_, "/dev/nvidia3"), 0);
  EXPECT_EQ(XpuOfDeviceFile(roots_, machine_, "/dev/nvidiactl"), -1);
  EXPECT_EQ(XpuOfDeviceFile(roots_, machine_, "/dev/null"), -1);
}

TEST_F(ProcessXpuTest, AProcessWithSeveralDevicesSaysNothing) {
  tree_.Link("/sys/class/drm/renderD128/device", "../../../0000:01:00.0");
  tree_.Link("/sys/class/drm/renderD129/device", "../../../0000:02:00.0");
  tree_.Link("/proc/31/fd/3", "/dev/dri/renderD128");
  tree_.Link("/proc/31/fd/4", "/dev/dri/renderD129");
  Alive(31, 100);
  ProcessXpu chain(roots_, {0, 1}, &machine_);
  EXPECT_EQ(chain.Find(31, Start(100), 0).source, XpuSource::kOrder);
}

TEST_F(ProcessXpuTest, NoXpusNoAnswer) {
  ProcessXpu chain(roots_, {}, &machine_);
  EXPECT_EQ(chain.Find(1, 0, 0).xpu, -1);
}

}  // namespace
}  // namespace ppc
