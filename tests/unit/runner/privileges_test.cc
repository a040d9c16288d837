// SPDX-License-Identifier: Apache-2.0
#include "daemon/runner/privileges.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "tests/unit/has.h"

namespace ppc {
namespace {

// Privileges are a thread's: each test gives up those of one of its own.
void WithoutSetpcap(const std::function<void()>& run) {
  std::thread([&] {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2]{};
    ASSERT_EQ(syscall(SYS_capget, &header, data), 0);
    for (auto* set : {&data[0].permitted, &data[0].effective}) *set &= ~(1u << CAP_SETPCAP);
    ASSERT_EQ(syscall(SYS_capset, &header, data), 0);
    run();
  }).join();
}

bool HasAny() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  return syscall(SYS_capget, &header, data) == 0 && (data[0].permitted | data[1].permitted) != 0;
}

// True if something is left that a runner gives up, which takes CAP_SETPCAP.
bool HasSurplus() { return HasAny() && prctl(PR_CAPBSET_READ, CAP_NET_ADMIN, 0, 0, 0) == 1; }

TEST(Privileges, ASupervisedRunnerThatCannotGiveThemUpIsRefused) {
  if (!HasSurplus()) GTEST_SKIP() << "nothing to give up";
  WithoutSetpcap([] {
    const Status refused = ShedPrivileges(/*is_supervised=*/true);
    ASSERT_FALSE(refused.ok());
    EXPECT_TRUE(Has(refused.error().message, "CAP_SETPCAP"));
  });
}

TEST(Privileges, AloneItWarns) {
  if (!HasSurplus()) GTEST_SKIP() << "nothing to give up";
  testing::internal::CaptureStderr();
  WithoutSetpcap([] { EXPECT_TRUE(ShedPrivileges(/*is_supervised=*/false).ok()); });
  EXPECT_TRUE(Has(testing::internal::GetCapturedStderr(), "keeps all"));
}

// ppcd's unit may have given up the same before (CapabilityBoundingSet=), CAP_SETPCAP with it.
TEST(Privileges, WhatIsGoneAlreadyNeedsNothing) {
  if (!HasAny()) GTEST_SKIP() << "an ordinary user's has none";
  std::thread([] {
    const Status dropped = DropPrivileges();
    if (!dropped.ok()) GTEST_SKIP() << dropped.error().message;
    EXPECT_EQ(prctl(PR_CAPBSET_READ, CAP_SETPCAP, 0, 0, 0), 0);
    EXPECT_TRUE(ShedPrivileges(/*is_supervised=*/true).ok());
  }).join();
}

TEST(Privileges, AnOrdinaryUserHasNone) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another";
  std::thread([] {
    // Changes this thread alone; takes its capabilities with it.
    ASSERT_EQ(syscall(SYS_setresuid, 65534, 65534, 65534), 0);
    const Status shed = ShedPrivileges(/*is_supervised=*/true);
    EXPECT_TRUE(shed.ok()) << shed.error().message;
    EXPECT_EQ(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 1);
  }).join();
}

}  // namespace
}  // namespace ppc
