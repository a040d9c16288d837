// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/rights.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "daemon/base/rate_limit.h"
#include "daemon/machine/proc_info.h"
#include "daemon/wire/listen_socket.h"
#include "tests/unit/child.h"
#include "tests/unit/has.h"
#include "tests/unit/supervisor/daemon_fixture.h"
#include "tests/unit/temp_tree.h"

namespace ppc::control {
namespace {

Peer InGroup(const std::string& cgroup, uid_t uid = 1000) {
  return Peer{.pid = 7, .uid = uid, .cgroup = cgroup};
}

TEST(Rights, AGroupContainsItselfAndWhatIsBelow) {
  EXPECT_TRUE(IsCgroupWithin("/a", "/a"));
  EXPECT_TRUE(IsCgroupWithin("/a/b/c", "/a"));
  EXPECT_TRUE(IsCgroupWithin("/a", "/"));
  for (const char* other : {"/", "/ab", "/b/a", "", "a/b", "/a/../b", "/a/b/..", "/a//b", "/a/./b",
                            "/a/", "/sys/fs/cgroup/a"}) {
    EXPECT_FALSE(IsCgroupWithin(other, "/a")) << other;
  }
}

TEST(Rights, SharedGroupsAreTheRootAndSlices) {
  for (const char* shared : {"", "/", "/user.slice", "/user.slice/user-1000.slice"}) {
    EXPECT_TRUE(IsSharedCgroup(shared)) << shared;
  }
  for (const char* own :
       {"/a", "/system.slice/vllm.service", "/kubepods.slice/pod1.slice/cri-1.scope",
        "/user.slice/user-1000.slice/session-3.scope"}) {
    EXPECT_FALSE(IsSharedCgroup(own)) << own;
  }
}

TEST(Rights, AreThoseOfTheGroupWhateverTheUser) {
  EXPECT_TRUE(MayTouch(InGroup("/a", 0), {"/a", 1000}));
  EXPECT_TRUE(MayTouch(InGroup("/a", 1), {"/a/b", 1000}));
  EXPECT_FALSE(MayTouch(InGroup("/a/b", 1000), {"/a", 1000}));
  EXPECT_FALSE(MayTouch(InGroup("/b", 0), {"/a", 0}));
  EXPECT_FALSE(MayTouch(InGroup("/a", 0), {"", 0})) << "root's alone";
  EXPECT_FALSE(MayTouch(InGroup("", 0), {"", 0}));
  EXPECT_TRUE(MayTouch(Peer{.is_admin = true}, {"", 0}));
  EXPECT_TRUE(MayTouch(Peer{.is_admin = true}, {"/a", 1000}));
}

TEST(Rights, InASharedGroupAreThoseOfTheUserToo) {
  EXPECT_TRUE(MayTouch(InGroup("/", 1000), {"/", 1000}));
  EXPECT_FALSE(MayTouch(InGroup("/", 1000), {"/", 0}));
  EXPECT_FALSE(MayTouch(InGroup("/", 0), {"/", 1000})) << "nobody is root here";
  EXPECT_FALSE(MayTouch(InGroup("/", 1000), {"/a", 1000})) << "all groups are below the root";
  EXPECT_FALSE(MayTouch(InGroup("/user.slice", 1000), {"/user.slice/x.scope", 1000}));
}

TEST(Rights, NamesInTheLogAreOneLine) {
  EXPECT_EQ(Describe(InGroup("/a\n\"b")), "uid 1000 pid 7 cgroup \"/a\\n\\\"b\"");
}

TEST(RateLimit, LetsABurstThroughThenOneAPeriod) {
  RateLimit limit(3, 100);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limit.Take("a", 1000)) << i;
  EXPECT_FALSE(limit.Take("a", 1000));
  EXPECT_TRUE(limit.Take("b", 1000)) << "others have their own";
  EXPECT_FALSE(limit.Take("a", 1099));
  EXPECT_TRUE(limit.Take("a", 1100));
  EXPECT_FALSE(limit.Take("a", 1100));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(limit.Take("a", 5000)) << i;
  EXPECT_FALSE(limit.Take("a", 5000));
}

TEST(RateLimit, KeepsSoManyKeys) {
  RateLimit limit(2, 100);
  for (size_t i = 0; i < RateLimit::kMaxKeys; ++i) {
    EXPECT_TRUE(limit.Take(std::to_string(i), 1000));
  }
  EXPECT_TRUE(limit.Take("busy", 1000));
  EXPECT_TRUE(limit.Take("busy", 1000));
  for (size_t i = 0; i < RateLimit::kMaxKeys; ++i) {
    EXPECT_TRUE(limit.Take("more " + std::to_string(i), 1000)) << "others' keys do not count";
  }
  EXPECT_FALSE(limit.Take("busy", 1000)) << "those that have used least are forgotten";
}

TEST(HeldProcess, TellsItsGroupUntilItEnds) {
  const pid_t pid = StartSleeper();
  const HeldProcess held = Value(HeldProcess::Open(pid, SysRoots{}));
  EXPECT_EQ(Value(held.Cgroup()), ProcessCgroup(SysRoots{}, getpid()));
  EXPECT_TRUE(held.IsWholly(getuid()));
  EXPECT_FALSE(held.IsWholly(getuid() + 1));
  EXPECT_NE(held.StartNs(), 0U);
  KillAndReap(pid);
  EXPECT_EQ(held.Cgroup().error().code, ESRCH);
  EXPECT_FALSE(held.IsWholly(getuid()));
  EXPECT_EQ(held.StartNs(), 0U);
  EXPECT_EQ(HeldProcess::Open(pid, SysRoots{}).error().code, ESRCH);
}

// Where a later process has taken the number of the one that connected.
TEST(HeldProcess, ANumberThatIsTakenAgainIsNotTheConnector) {
  const TempTree tree;
  const std::string path = tree.Path("/s");
  const UniqueFd listening = Value(OpenListenSocket(path, 0600));
  const pid_t connector = StartChild([&] { return RawClient(path).IsConnected() ? 0 : 1; });
  EXPECT_EQ(EndOf(connector), 0);
  const UniqueFd accepted(accept4(listening.Get(), nullptr, nullptr, SOCK_CLOEXEC));
  const Peer peer = Value(PeerOf(accepted.Get()));
  EXPECT_EQ(peer.pid, connector);
  EXPECT_EQ(HeldProcess::AtEndOf(accepted.Get(), peer.pid, SysRoots{}).error().code, ESRCH);
  constexpr int kPeerPidfd = 77;
  int pidfd = -1;
  socklen_t bytes = sizeof(pidfd);
  if (getsockopt(accepted.Get(), SOL_SOCKET, kPeerPidfd, &pidfd, &bytes) != 0 &&
      errno == ENOPROTOOPT) {
    GTEST_SKIP() << "this kernel tells the number alone (before 6.5)";
  }
  if (pidfd >= 0) close(pidfd);
  // As if we were that later process.
  EXPECT_EQ(HeldProcess::AtEndOf(accepted.Get(), getpid(), SysRoots{}).error().code, ESRCH);
  EXPECT_EQ(HeldProcess::AtEndOf(accepted.Get(), 0, SysRoots{}).error().code, ESRCH);
}

}  // namespace
}  // namespace ppc::control
