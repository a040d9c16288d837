// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/syscall_filter.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

#include "tests/unit/child.h"
#include "tests/unit/hidden_call.h"
#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {
namespace {

// What a child of its own returns, since a filter stays; 128 + signal where that ends it.
int InChild(const std::function<int()>& body) { return EndOf(StartChild(body)); }

// errno of a call under the filter; 0 where it succeeds.
int UnderFilter(const std::function<long()>& call) {
  return InChild([&call] {
    if (!FilterSystemCalls()) return 255;
    errno = 0;
    return call() < 0 ? errno : 0;
  });
}

// The same of one whose arguments are nonsense.
int AskedFor(long number) {
  return UnderFilter([number] { return syscall(number, -1, 0, 0, 0, 0); });
}

TEST(SyscallFilter, WhatPpcdNeedsIsLetThrough) {
  EXPECT_EQ(UnderFilter([] { return open("/proc/self/status", O_RDONLY | O_CLOEXEC); }), 0);
  EXPECT_EQ(UnderFilter([] { return syscall(SYS_pidfd_open, getpid(), 0); }), 0);
  // Each fails for what it is given, as without a filter.
  for (const long number : {long{SYS_openat2}, long{SYS_bpf}, long{SYS_perf_event_open},
                            long{SYS_open_by_handle_at}, long{SYS_close}, long{SYS_fadvise64}}) {
    const int natively =
        InChild([number] { return syscall(number, -1, 0, 0, 0, 0) < 0 ? errno : 0; });
    EXPECT_EQ(AskedFor(number), natively) << number;
  }
  EXPECT_EQ(InChild([] {
              if (!FilterSystemCalls()) return 255;
              return EndOf(StartChild([] { return execl("/bin/true", "true", nullptr); }));
            }),
            0);
}

TEST(SyscallFilter, WhatNobodyNeedsIsRefused) {
  // It asks for nothing and succeeds everywhere.
  EXPECT_EQ(InChild([] { return syscall(SYS_personality, 0xffffffff) < 0 ? errno : 0; }), 0);
  EXPECT_EQ(UnderFilter([] { return syscall(SYS_personality, 0xffffffff); }), EPERM);
  for (const long number : {long{SYS_mount}, long{SYS_unshare}, long{SYS_setns}, long{SYS_keyctl},
                            long{SYS_init_module}, long{SYS_kexec_load}, long{SYS_setuid},
                            long{SYS_process_vm_writev}, 425L /* io_uring_setup */}) {
    EXPECT_EQ(AskedFor(number), EPERM) << number;
  }
  // Newer than the list: as a kernel without it answers, so that libraries do without.
  EXPECT_EQ(AskedFor(2000), ENOSYS);
}

#ifdef __x86_64__
// By the door of 32-bit programs numbers mean other calls: what is allowed by one is another there.
TEST(SyscallFilter, NumbersOfAnotherMachineAreRefused) {
  const int said = InChild([] {
    if (!FilterSystemCalls()) return 255;
    long answer = 20;  // getpid
    asm volatile("int $0x80" : "+a"(answer) : : "memory", "r8", "r9", "r10", "r11");
    return answer == -EPERM ? 0 : 1;
  });
  EXPECT_TRUE(said == 0 || said == 128 + SIGSEGV) << said << ": a kernel without them has no door";
}
#endif

TEST(SyscallFilter, AKernelWithoutFiltersIsNamed) {
  const int said = InChild([] {
    if (!HideCall(SYS_seccomp)) return 255;
    const Status filtered = FilterSystemCalls();
    return !filtered && filtered.error().message.find("CONFIG_SECCOMP_FILTER") != std::string::npos
               ? 0
               : 1;
  });
  EXPECT_EQ(said, 0);
}

class FilteredDaemonTest : public DaemonTest {
 protected:
  // How many filters a process has; -1: this kernel does not tell.
  int FiltersOf(pid_t pid) {
    constexpr std::string_view kKey = "Seccomp_filters:";
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with(kKey)) return std::atoi(line.c_str() + kKey.size());
    }
    return -1;
  }
};

TEST_F(FilteredDaemonTest, ItAndItsRunnersHaveOne) {
  const int own = FiltersOf(getpid());
  if (own < 0) GTEST_SKIP() << "a kernel that does not tell of filters";
  Start();
  ASSERT_TRUE(WaitForState("running"));
  EXPECT_EQ(FiltersOf(daemon_), own + 1);
  EXPECT_EQ(FiltersOf(RunnerPid()), own + 1);
}

TEST_F(FilteredDaemonTest, UnlessItIsToldNotTo) {
  const int own = FiltersOf(getpid());
  if (own < 0) GTEST_SKIP() << "a kernel that does not tell of filters";
  StartDaemon({"--no-syscall-filter"});
  EXPECT_EQ(FiltersOf(daemon_), own);
}

}  // namespace
}  // namespace ppc::control
