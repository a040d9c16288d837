// SPDX-License-Identifier: Apache-2.0
#include "daemon/xpu/process_xpu.h"

#include <gtest/gtest.h>

#include "daemon/base/clock.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

class ProcessXpuTest : public testing::Test {
 protected:
  ProcessXpuTest() : roots_{tree_.Root(), tree_.Root()} {
    machine_.xpus = {{.bdf = "0000:01:00.0"}, {.bdf = "0000:02:00.0", .vendor = 0x19e5}};
  }
  // A process that lives; `ticks` since boot, of 10 ms.
  void Alive(int pid, int ticks) { tree_.WriteStat(pid, 1, 1, static_cast<uint64_t>(ticks)); }
  static uint64_t Start(int ticks) { return static_cast<uint64_t>(ticks) * 10 * kNsPerMs; }
  void Environ(int pid, const std::string& text) {
    tree_.Write("/proc/" + std::to_string(pid) + "/environ", text + std::string(1, '\0'));
  }
  TempTree tree_;
  SysRoots roots_;
  Topology machine_;
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
  EXPECT_EQ(XpuOfDeviceFile(roots_, machine_.xpus, "/dev/dri/renderD128"), 1);
  EXPECT_EQ(XpuOfDeviceFile(roots_, machine_.xpus, "/dev/nvidia3"), 0);
  EXPECT_EQ(XpuOfDeviceFile(roots_, machine_.xpus, "/dev/nvidiactl"), -1);
  EXPECT_EQ(XpuOfDeviceFile(roots_, machine_.xpus, "/dev/null"), -1);
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

// ------------------------------------------------------------ visible devices

class VisibleDevicesTest : public testing::Test {
 protected:
  VisibleDevicesTest() : roots_{tree_.Root(), tree_.Root()} {
    xpus_ = {{.bdf = "0000:01:00.0", .vendor = 0x1002},
             {.bdf = "0000:02:00.0", .vendor = 0x10de},
             {.bdf = "0000:03:00.0", .vendor = 0x10de},
             {.bdf = "0000:04:00.0", .vendor = 0x19e5}};
    tree_.Write("/proc/driver/nvidia/gpus/0000:02:00.0/information", "GPU UUID: \t GPU-aa11\n");
    tree_.Write("/proc/driver/nvidia/gpus/0000:03:00.0/information", "GPU UUID: \t GPU-ab22\n");
  }
  std::vector<int> Of(const std::string& environ_text) {
    return ReadVisibleDevices(roots_, xpus_, environ_text).xpus;
  }
  TempTree tree_;
  SysRoots roots_;
  std::vector<Xpu> xpus_;
};

TEST_F(VisibleDevicesTest, NumbersCountTheMakersDevices) {
  EXPECT_EQ(Of("CUDA_VISIBLE_DEVICES=1"), std::vector<int>{2});
  EXPECT_EQ(Of("CUDA_VISIBLE_DEVICES=1, 0"), (std::vector<int>{2, 1}));
  EXPECT_EQ(Of("ASCEND_RT_VISIBLE_DEVICES=0"), std::vector<int>{3});
  EXPECT_EQ(Of("HIP_VISIBLE_DEVICES=0"), std::vector<int>{0});
}

TEST_F(VisibleDevicesTest, Uuids) {
  EXPECT_EQ(Of("CUDA_VISIBLE_DEVICES=GPU-ab22,GPU-aa11"), (std::vector<int>{2, 1}));
  EXPECT_EQ(Of("CUDA_VISIBLE_DEVICES=GPU-ab"), std::vector<int>{2});
  EXPECT_TRUE(Of("CUDA_VISIBLE_DEVICES=GPU-a").empty());  // two begin so
  EXPECT_TRUE(Of("CUDA_VISIBLE_DEVICES=GPU-ff").empty());
}

TEST_F(VisibleDevicesTest, TheListEndsAtWhatNamesNothing) {
  EXPECT_EQ(Of("CUDA_VISIBLE_DEVICES=0,7,1"), std::vector<int>{1});
  EXPECT_TRUE(Of("CUDA_VISIBLE_DEVICES=-1").empty());
  EXPECT_TRUE(Of("CUDA_VISIBLE_DEVICES=").empty());
  EXPECT_TRUE(Of("CUDA_VISIBLE_DEVICES=MIG-1").empty());
  EXPECT_TRUE(Of("CUDA_VISIBLE_DEVICES=99999999999999").empty());
  EXPECT_EQ(ReadVisibleDevices(roots_, xpus_, "OTHER=1").text, "");
  EXPECT_NE(ReadVisibleDevices(roots_, xpus_, "CUDA_VISIBLE_DEVICES=").text, "");
}

// ----------------------------------------------------------- the rest of the chain

class ProcessXpuChainTest : public ProcessXpuTest {
 protected:
  // `nodes` nodes of two CPUs, XPUs spread over them; node of XPU i is i % nodes.
  void Machine(int nodes, int xpus) {
    machine_ = Topology();
    for (int n = 0; n < nodes; ++n) machine_.nodes.push_back(NumaNode{n, {2 * n, 2 * n + 1}});
    for (int i = 0; i < xpus; ++i) {
      const std::string bdf = "0000:0" + std::to_string(i) + ":00.0";
      machine_.xpus.push_back({.bdf = bdf, .vendor = 0x10de, .node = i % nodes});
    }
  }
  void Thread(int pid, int tid, const std::string& cpus, const std::string& mems) {
    tree_.Write("/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/status",
                "Name:\tw\nCpus_allowed:\tff\nCpus_allowed_list:\t" + cpus +
                    "\nMems_allowed:\t1\nMems_allowed_list:\t" + mems + "\n");
  }
};

TEST_F(ProcessXpuChainTest, OneVisibleDeviceIsTheProcesss) {
  Machine(2, 4);
  Environ(41, "CUDA_VISIBLE_DEVICES=2");
  Environ(42, "CUDA_VISIBLE_DEVICES=2,3");
  Alive(42, 1);
  ProcessXpu chain(roots_, {3, 2}, &machine_);
  const XpuAnswer answer = chain.Find(41, 0, 0);
  EXPECT_EQ(answer.xpu, 2);
  EXPECT_EQ(answer.worker, 1);
  EXPECT_EQ(answer.source, XpuSource::kVisible);
  EXPECT_EQ(chain.Find(42, Start(1), 0).source, XpuSource::kOrder);
}

TEST_F(ProcessXpuChainTest, AnOpenDeviceIsMoreThanAVisibleOne) {
  Machine(2, 4);
  tree_.Write("/proc/driver/nvidia/gpus/0000:03:00.0/information", "Device Minor: 0\n");
  Environ(41, "CUDA_VISIBLE_DEVICES=1");
  ProcessXpu chain(roots_, {0, 1, 2, 3}, &machine_);
  EXPECT_EQ(chain.Find(41, 0, 0).xpu, 1);
  tree_.Link("/proc/41/fd/3", "/dev/nvidia0");
  EXPECT_EQ(chain.Find(41, 0, 2 * kNsPerSec).xpu, 3);
  EXPECT_EQ(chain.Find(41, 0, 2 * kNsPerSec).source, XpuSource::kDevice);
}

TEST_F(ProcessXpuChainTest, ThreadsBoundToANode) {
  for (const int nodes : {2, 4}) {
    Machine(nodes, 2 * nodes);
    std::vector<int> all;
    for (int i = 0; i < 2 * nodes; ++i) all.push_back(i);
    ProcessXpu chain(roots_, all, &machine_);
    // Two processes a node, in any order: each gets an XPU of its own, there.
    for (int worker = 2 * nodes - 1; worker >= 0; --worker) {
      const int pid = 100 + worker;
      const int node = worker % nodes;
      Alive(pid, 1);
      Thread(pid, pid, std::to_string(2 * node), "0-3");
      Thread(pid, pid + 1000, std::to_string(2 * node + 1), "0-3");
      const XpuAnswer answer = chain.Find(pid, Start(1), 0);
      EXPECT_EQ(answer.source, XpuSource::kPlacement);
      EXPECT_EQ(machine_.NodeOfXpu(answer.xpu), node);
      EXPECT_EQ(answer.xpu, worker < nodes ? node + nodes : node);
    }
  }
}

TEST_F(ProcessXpuChainTest, AWorkerStartedAnewGetsTheXpuOfTheDeadOne) {
  Machine(2, 4);  // XPUs 0 and 2 on node 0
  ProcessXpu chain(roots_, {0, 1, 2, 3}, &machine_);
  for (const int pid : {101, 102, 103, 104}) {
    Thread(pid, pid, "0-1", "0-3");
    Alive(pid, 1);
  }
  EXPECT_EQ(chain.Find(101, Start(1), 0).xpu, 0);
  EXPECT_EQ(chain.Find(102, Start(1), 0).xpu, 2);
  Alive(101, 9);  // its number is another's
  std::filesystem::remove_all(tree_.Path("/proc/102"));
  EXPECT_EQ(chain.Find(103, Start(1), 0).xpu, 0);
  EXPECT_EQ(chain.Find(104, Start(1), 0).xpu, 2);
  // Those that have ended are not looked at for each worker that comes.
  for (const int pid : {101, 102}) {
    XpuAnswer cached;
    (void)chain.Explain(pid, Start(1), &cached);
    EXPECT_EQ(cached.source, XpuSource::kUnknown) << pid;
  }
}

TEST_F(ProcessXpuChainTest, AMemoryNodeCountsToo) {
  Machine(2, 2);
  Thread(51, 51, "0-3", "1");
  ProcessXpu chain(roots_, {0, 1}, &machine_);
  EXPECT_EQ(chain.Find(51, 0, 0).xpu, 1);
}

TEST_F(ProcessXpuChainTest, PlacementThatSaysNothing) {
  Machine(2, 2);
  Thread(51, 51, "1-2", "0-1");  // both nodes
  Thread(52, 52, "0", "0-1");
  Thread(52, 53, "3", "0-1");  // its threads on different nodes
  Thread(54, 54, "0", "0-1");  // no XPU of the service there
  for (const int pid : {51, 52, 54}) Alive(pid, 1);
  ProcessXpu chain(roots_, {1}, &machine_);
  for (const int pid : {51, 52, 54}) {
    EXPECT_EQ(chain.Find(pid, Start(1), 0).source, XpuSource::kOrder) << pid;
  }
  Machine(1, 2);
  Thread(55, 55, "0", "0");
  Alive(55, 1);
  ProcessXpu single(roots_, {0, 1}, &machine_);
  EXPECT_EQ(single.Find(55, Start(1), 0).source, XpuSource::kOrder);
}

TEST_F(ProcessXpuChainTest, WhatIsToldWins) {
  Machine(2, 2);
  Environ(61, "PPC_WORKER=0");
  ProcessXpu chain(roots_, {0, 1}, &machine_);
  EXPECT_EQ(chain.Find(61, 5, 0).worker, 0);
  EXPECT_TRUE(chain.Bind(61, 5, 1));
  EXPECT_EQ(chain.Find(61, 5, 0).worker, 1);
  EXPECT_EQ(chain.Find(61, 5, 9 * kNsPerSec).source, XpuSource::kTold);
  // Another process with the same number is not meant.
  EXPECT_EQ(chain.Find(61, 7, 0).worker, 0);
  EXPECT_FALSE(chain.Bind(61, 5, -1));
  ProcessXpu none(roots_, {}, &machine_);
  EXPECT_FALSE(none.Bind(61, 5, 0));
}

TEST_F(ProcessXpuChainTest, WhatIsToldOutlivesAFullTable) {
  Machine(2, 2);
  for (const int pid : {61, 62}) Alive(pid, 1);
  ProcessXpu chain(roots_, {0, 1}, &machine_);
  EXPECT_TRUE(chain.Bind(61, Start(1), 1));
  EXPECT_TRUE(chain.Bind(62, Start(1), 1));
  std::filesystem::remove_all(tree_.Path("/proc/62"));
  for (int pid = 1000; pid < 1000 + 5000; ++pid) EXPECT_TRUE(chain.Bind(pid, Start(1), 0));
  Environ(70, "PPC_WORKER=0");
  EXPECT_EQ(chain.Find(70, Start(1), 0).worker, 0);
  EXPECT_EQ(chain.Find(61, Start(1), 0).source, XpuSource::kTold);
  XpuAnswer cached;
  (void)chain.Explain(62, Start(1), &cached);
  EXPECT_EQ(cached.source, XpuSource::kUnknown);
}

TEST_F(ProcessXpuChainTest, ExplainTellsAllAndDecidesNothing) {
  Machine(2, 2);
  Alive(71, 1);
  Environ(71, std::string("LOCAL_RANK=1\0CUDA_VISIBLE_DEVICES=0", 36));
  ProcessXpu chain(roots_, {0, 1}, &machine_);
  XpuAnswer cached;
  std::vector<XpuFinding> all = chain.Explain(71, Start(1), &cached);
  EXPECT_EQ(cached.source, XpuSource::kUnknown);
  ASSERT_EQ(all.size(), 10u);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].source, static_cast<XpuSource>(i + 1));
    EXPECT_NE(all[i].says, "");
  }
  EXPECT_EQ(all[2].answer.xpu, 1);
  EXPECT_EQ(all[2].says, "LOCAL_RANK=1");
  EXPECT_EQ(all[7].answer.xpu, 0);
  EXPECT_EQ(all[9].answer.source, XpuSource::kUnknown);
  chain.Find(71, Start(1), 0);
  (void)chain.Explain(71, Start(1), &cached);
  EXPECT_EQ(cached.source, XpuSource::kLocalRank);
  // One that only its order tells: asking takes no place.
  Alive(72, 1);
  (void)chain.Explain(72, Start(1), &cached);
  (void)chain.Explain(72, Start(1), &cached);
  EXPECT_EQ(chain.Find(72, Start(1), 0).worker, 0);
  all = chain.Explain(72, Start(1), &cached);
  EXPECT_EQ(all[9].answer.worker, 0);
}

TEST_F(ProcessXpuTest, NoXpusNoAnswer) {
  ProcessXpu chain(roots_, {}, &machine_);
  EXPECT_EQ(chain.Find(1, 0, 0).xpu, -1);
}

}  // namespace
}  // namespace ppc
