// SPDX-License-Identifier: Apache-2.0
#include "extras/vendors/library_xpus.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <thread>

#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
#include "daemon/xpu/process_xpu.h"
#include "tests/unit/has.h"
#include "tests/unit/hidden_call.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

constexpr const char* kNotYet = "was not asked yet";

class VendorXpusTest : public testing::Test {
 protected:
  VendorXpusTest() : roots_{tree_.Root(), tree_.Root()} {
    tree_.Link("/proc/self/ns/pid", "pid:[4026531836]");
    Nvml(PPC_FAKE_NVML);
    setenv("PPC_DCMI_LIBRARY", PPC_FAKE_DCMI, 1);
    Behave("");
    Pids("");
    xpus_ = {{.bdf = "0000:01:00.0", .vendor = 0x10de},
             {.bdf = "0000:c1:00.0", .vendor = 0x19e5},
             {.bdf = "0000:c3:00.0", .vendor = 0x19e5},
             {.bdf = "0001:3b:00.1", .vendor = 0x10de}};
    options_.program = PPC_TEST_RUNNER;
  }
  // Nothing that was started is left.
  void TearDown() override {
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
  }
  static void Nvml(const char* file) { setenv("PPC_NVML_LIBRARY", file, 1); }
  static void Behave(const char* how) { setenv("FAKE_XPU", how, 1); }
  static void Pids(const char* text) { setenv("FAKE_PIDS", text, 1); }

  // Asks until the library has answered.
  VendorXpus::Answer Settled(const VendorXpus& vendors, bool is_nvml, int pid, uint64_t start_ns) {
    for (;;) {
      VendorXpus::Answer answer =
          is_nvml ? vendors.Nvml(pid, start_ns) : vendors.Dcmi(pid, start_ns);
      if (answer.says != kNotYet) return answer;
      usleep(1000);
    }
  }
  VendorXpus::Answer AskNvmlOf(int pid, uint64_t start_ns = 0) {
    return Settled(LibraryXpus(roots_, xpus_, options_), true, pid, start_ns);
  }
  VendorXpus::Answer AskDcmiOf(int pid) {
    return Settled(LibraryXpus(roots_, xpus_, options_), false, pid, 0);
  }

  TempTree tree_;
  SysRoots roots_;
  std::vector<Xpu> xpus_;
  XpuQuery::Options options_;
};

TEST_F(VendorXpusTest, NvmlKnowsTheDeviceOfAProcess) {
  Pids("0:11 1:12 1:13");
  EXPECT_EQ(AskNvmlOf(11).xpu, 0);
  const VendorXpus::Answer second = AskNvmlOf(13);
  EXPECT_EQ(second.xpu, 3);
  EXPECT_EQ(second.says, "it computes on 0001:3b:00.1 (GPU-1)");
  EXPECT_EQ(AskNvmlOf(14).xpu, -1);
  EXPECT_EQ(AskNvmlOf(14).says, "it computes on no device");
}

TEST_F(VendorXpusTest, MoreProcessesThanFitAtFirst) {
  std::string many;
  for (int pid = 1; pid <= 300; ++pid) many += "1:" + std::to_string(pid) + " ";
  Pids(many.c_str());
  EXPECT_EQ(AskNvmlOf(300).xpu, 3);
}

TEST_F(VendorXpusTest, EntriesOfBothLengths) {
  Pids("0:11 0:12 1:13 1:14");
  Behave("longer");
  EXPECT_EQ(AskNvmlOf(12).xpu, 0);
  EXPECT_EQ(AskNvmlOf(14).xpu, 3);
  Behave("strange");
  EXPECT_EQ(AskNvmlOf(12).xpu, -1);
  EXPECT_EQ(AskNvmlOf(12).says, "it computes on no device; silent devices: 2");
}

TEST_F(VendorXpusTest, TheOlderFunctionWhereTheNewerIsMissing) {
  Nvml(PPC_FAKE_NVML_V2);
  Pids("1:12");
  EXPECT_EQ(AskNvmlOf(12).xpu, 3);
}

TEST_F(VendorXpusTest, WhatIsMissingIsNamed) {
  Nvml(PPC_FAKE_NVML_WITHOUT);
  EXPECT_EQ(AskNvmlOf(12).says, "NVML has no nvmlDeviceGetComputeRunningProcesses_v2");
  Nvml("/nowhere/libnvidia-ml.so.1");
  EXPECT_TRUE(Has(AskNvmlOf(12).says, "/nowhere/libnvidia-ml.so.1"));
  setenv("PPC_DCMI_LIBRARY", PPC_FAKE_DCMI_WITHOUT, 1);
  EXPECT_EQ(AskDcmiOf(12).says, "DCMI has no dcmi_get_device_pcie_info_v2");
}

TEST_F(VendorXpusTest, ErrorsOfTheLibrary) {
  Behave("error");
  EXPECT_EQ(AskNvmlOf(12).says, "nvmlInit_v2 fails with 9 (Driver Not Loaded)");
  EXPECT_EQ(AskDcmiOf(12).says, "dcmi_init fails with -8005");
  Behave("strange");
  EXPECT_EQ(AskDcmiOf(12).says, "dcmi_get_card_list fails with 1000");
}

TEST_F(VendorXpusTest, ALibraryGetsNoDescriptorOfOurs) {
  Behave("closed");
  Pids("0:11");
  const UniqueFd leak(fcntl(0, F_DUPFD, 100));
  ASSERT_TRUE(leak.IsValid());
  EXPECT_EQ(AskNvmlOf(11).xpu, 0);
  std::thread([&] {
    ASSERT_TRUE(HideCall(SYS_close_range));
    const VendorXpus::Answer answer = AskNvmlOf(11);
    EXPECT_EQ(answer.xpu, 0) << answer.says;
  }).join();
}

TEST_F(VendorXpusTest, ADeviceThatDoesNotAnswer) {
  Behave("silent");
  Pids("0:11 1:12 2:13");
  EXPECT_EQ(AskNvmlOf(11).xpu, 0);
  EXPECT_EQ(AskNvmlOf(12).says, "it computes on no device; silent devices: 1");
  EXPECT_EQ(AskDcmiOf(11).xpu, 1);
  EXPECT_EQ(AskDcmiOf(13).xpu, -1);
}

TEST_F(VendorXpusTest, ALibraryThatCrashesOrEnds) {
  Behave("crash");
  EXPECT_EQ(AskNvmlOf(12).says, "ended by signal 6");
  Behave("quit");
  EXPECT_EQ(AskNvmlOf(12).says, "gave no answer that can be read");
  options_.program = "/nowhere/ppc-runner";
  EXPECT_TRUE(Has(AskNvmlOf(12).says, "/nowhere/ppc-runner"));
}

TEST_F(VendorXpusTest, ALibraryThatNeverReturns) {
  Behave("hang");
  options_.limit_ms = 100;
  EXPECT_EQ(AskNvmlOf(12).says, "did not answer within 100 ms");
  // While it hangs no thread waits, and the end does not wait either.
  options_.limit_ms = 1000000;
  const LibraryXpus vendors(roots_, xpus_, options_);
  EXPECT_EQ(vendors.Nvml(12, 0).says, kNotYet);
  EXPECT_EQ(vendors.Nvml(12, 0).says, kNotYet);
}

TEST_F(VendorXpusTest, SeveralDevicesSayNothing) {
  Pids("0:11 1:11 1:12 1:12");
  EXPECT_EQ(AskNvmlOf(11).says, "it computes on several devices");
  EXPECT_EQ(AskNvmlOf(11).xpu, -1);
  EXPECT_EQ(AskNvmlOf(12).xpu, 3);
}

TEST_F(VendorXpusTest, AnotherProcessWithThatNumber) {
  Pids("0:11");
  EXPECT_EQ(AskNvmlOf(11, ~0ull).xpu, -1);
  EXPECT_EQ(AskNvmlOf(11, ~0ull).says, "was asked before the process began");
}

TEST_F(VendorXpusTest, NumbersOfAnotherNamespaceAreNotAskedFor) {
  const TempTree inside;
  inside.Link("/proc/self/ns/pid", "pid:[4026532201]");
  roots_.proc = inside.Root();
  Pids("0:11");
  EXPECT_EQ(AskNvmlOf(11).xpu, -1);
  EXPECT_EQ(AskNvmlOf(11).says, "process numbers here are not the host's");
}

TEST_F(VendorXpusTest, NotAskedWhereItCannotKnow) {
  Pids("0:11 1:12");
  xpus_.pop_back();
  EXPECT_EQ(AskNvmlOf(12).says,
            "it computes on 0001:3b:00.1 (GPU-1), which is not among the XPUs here");
  xpus_.erase(xpus_.begin());
  EXPECT_EQ(AskNvmlOf(11).says, "no device of its maker is here");
}

TEST_F(VendorXpusTest, DcmiKnowsTheDeviceOfAProcess) {
  Pids("0:11 2:12");
  EXPECT_EQ(AskDcmiOf(11).xpu, 1);
  const VendorXpus::Answer second = AskDcmiOf(12);
  EXPECT_EQ(second.xpu, 2);
  EXPECT_EQ(second.says, "it computes on 0000:c3:00.0");
}

// ----------------------------------------------------------------- in the chain

class VendorChainTest : public VendorXpusTest {
 protected:
  VendorChainTest() { machine_.xpus = xpus_; }
  void Alive(int pid) { tree_.WriteStat(pid, 1, 1, 1); }
  static constexpr uint64_t kStart = 10 * kNsPerMs;
  Topology machine_;
};

TEST_F(VendorChainTest, CorrectsWhatWasGuessed) {
  Alive(12);
  Pids("1:12");
  const LibraryXpus vendors(roots_, xpus_, options_);
  ProcessXpu chain(roots_, {0, 1, 2, 3}, &machine_, &vendors);
  // The first look finds no answer yet, and asks for one.
  EXPECT_EQ(chain.Find(12, kStart, 0).source, XpuSource::kOrder);
  (void)Settled(vendors, true, 12, kStart);
  const XpuAnswer later = chain.Find(12, kStart, 2 * kNsPerSec);
  EXPECT_EQ(later.source, XpuSource::kNvml);
  EXPECT_EQ(later.xpu, 3);
  EXPECT_EQ(later.worker, 3);
}

TEST_F(VendorChainTest, DecidesBetweenOpenDevicesAndYieldsToOne) {
  Alive(12);
  Pids("2:12");
  tree_.Link("/proc/12/fd/3", "/dev/davinci0");
  tree_.Link("/proc/12/fd/4", "/dev/davinci1");
  tree_.Link("/proc/13/fd/3", "/dev/davinci0");
  const LibraryXpus vendors(roots_, xpus_, options_);
  (void)Settled(vendors, false, 12, kStart);
  ProcessXpu chain(roots_, {0, 1, 2, 3}, &machine_, &vendors);
  EXPECT_EQ(chain.Find(12, kStart, 0).source, XpuSource::kDcmi);
  EXPECT_EQ(chain.Find(12, kStart, 0).xpu, 2);
  EXPECT_EQ(chain.Find(13, kStart, 0).source, XpuSource::kDevice);
}

TEST_F(VendorChainTest, ExplainSaysWhatEachLibrarySaid) {
  Alive(12);
  Pids("1:12");
  const LibraryXpus vendors(roots_, xpus_, options_);
  (void)Settled(vendors, true, 12, kStart);
  (void)Settled(vendors, false, 12, kStart);
  ProcessXpu chain(roots_, {0, 1, 2, 3}, &machine_, &vendors);
  XpuAnswer cached;
  const std::vector<XpuFinding> all = chain.Explain(12, kStart, &cached);
  ASSERT_EQ(all.size(), 10u);
  EXPECT_EQ(all[5].source, XpuSource::kNvml);
  EXPECT_EQ(all[5].answer.xpu, 3);
  EXPECT_EQ(all[5].says, "it computes on 0001:3b:00.1 (GPU-1)");
  EXPECT_EQ(all[6].source, XpuSource::kDcmi);
  EXPECT_EQ(all[6].answer.source, XpuSource::kUnknown);
  EXPECT_EQ(all[6].says, "it computes on 0000:c2:00.0, which is not among the XPUs here");
}

}  // namespace
}  // namespace ppc
