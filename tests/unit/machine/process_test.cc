// SPDX-License-Identifier: Apache-2.0
// Processes: what /proc says of one, and its end.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "daemon/base/unique_fd.h"
#include "daemon/machine/proc_info.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

TEST(ProcInfo, StartTimeSurvivesOddNames) {
  TempTree tree;
  tree.Write("/proc/7/stat",
             "7 (a) b) (c) S 1 7 7 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 12345 1000 1 0\n");
  const SysRoots roots{"", tree.Root()};
  EXPECT_EQ(*ProcessStartNs(roots, 7), 123450000000u);
  EXPECT_TRUE(IsSameProcess(roots, 7, 123456789012u));
  EXPECT_FALSE(IsSameProcess(roots, 7, 123466789012u));
  EXPECT_FALSE(IsSameProcess(roots, 8, 0));
}

TEST(ProcInfo, Environment) {
  const std::string text("A=1\0LOCAL_RANK=3\0XRANK=9\0", 25);
  EXPECT_EQ(ProcessEnv(text, "LOCAL_RANK"), "3");
  EXPECT_EQ(ProcessEnv(text, "A"), "1");
  EXPECT_FALSE(ProcessEnv(text, "RANK").has_value());
}

TEST(ProcInfo, CgroupPrefersTheMemoryHierarchy) {
  TempTree tree;
  const SysRoots roots{"", tree.Root()};
  tree.Write("/proc/1/cgroup", "0::/only/v2\n");
  tree.Write("/proc/2/cgroup", "12:cpu,memory:/v1/mem\n1:name=systemd:/x\n0::/v2\n");
  EXPECT_EQ(ProcessCgroup(roots, 1), "/only/v2");
  EXPECT_EQ(ProcessCgroup(roots, 2), "/v1/mem");
  EXPECT_FALSE(ProcessCgroup(roots, 3).has_value());
}

// The end of a process that ends so; told when it has, and not waited for.
class Ended {
 public:
  explicit Ended(int status, int signal = 0) : pid_(fork()) {
    if (pid_ == 0) {
      if (signal == 0) _exit(status);
      kill(getpid(), signal);
      while (true) pause();
    }
    pidfd_.Reset(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    pollfd waiting{pidfd_.Get(), POLLIN, 0};
    poll(&waiting, 1, 10000);
  }
  ~Ended() { Reap(); }
  void Reap() {
    if (pid_ > 0) waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
  std::optional<int> End() const { return ProcessEnd({}, pidfd_.Get(), pid_, 0); }

 private:
  pid_t pid_;
  UniqueFd pidfd_;
};

TEST(ProcessEndTest, AsWaitpidSays) {
  EXPECT_EQ(Ended(0).End(), 0);
  EXPECT_EQ(Ended(3).End(), W_EXITCODE(3, 0));
  EXPECT_EQ(Ended(0, SIGKILL).End(), W_EXITCODE(0, SIGKILL));
}

TEST(ProcessEndTest, WaitedForItIsKnownOrNot) {
  Ended ended(3);
  ended.Reap();
  // Linux 6.15 and later.
  EXPECT_EQ(ended.End().value_or(W_EXITCODE(3, 0)), W_EXITCODE(3, 0));
}

TEST(ProcessEndTest, OneThatRunsHasNotEnded) {
  const UniqueFd self(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
  EXPECT_EQ(ProcessEnd({}, self.Get(), getpid(), 0), std::nullopt);
}

TEST(ProcessEndTest, WhatIsAFailure) {
  for (const int signal : {SIGKILL, SIGSEGV, SIGABRT, SIGBUS})
    EXPECT_TRUE(IsFailure(W_EXITCODE(0, signal))) << signal;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) {
    EXPECT_FALSE(IsFailure(W_EXITCODE(0, signal))) << signal;
    EXPECT_FALSE(IsFailure(W_EXITCODE(128 + signal, 0))) << signal;
  }
  EXPECT_FALSE(IsFailure(0));
  EXPECT_TRUE(IsFailure(W_EXITCODE(1, 0)));
  EXPECT_TRUE(IsFailure(W_EXITCODE(137, 0)));
}

}  // namespace
}  // namespace ppc
