// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/process_end.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "daemon/base/unique_fd.h"

namespace ppc {
namespace {

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
