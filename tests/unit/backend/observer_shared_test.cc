// SPDX-License-Identifier: Apache-2.0
// One set of programs for several directories, on this machine's own kernel.
#include <bpf/bpf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "daemon/backend/observer/observer_backend.h"
#include "daemon/backend/observer/program_set.h"
#include "daemon/base/clock.h"
#include "tests/unit/backend/observer_shared_fixture.h"
#include "tests/unit/child.h"
#include "tests/unit/has.h"

namespace ppc {
namespace {

TEST_F(ObserverSharedTest, EachIsToldOfItsOwn) {
  const std::string one = Make("one");
  const std::string two = Make("two");
  const Attacher attacher(set_.get());
  const Result<uint32_t> first = set_->AddDirectory();
  const Result<uint32_t> second = set_->AddDirectory();
  ASSERT_TRUE(first);
  ASSERT_TRUE(second);
  EXPECT_NE(*first, *second);
  const auto a = Observe(one, *first);
  const auto b = Observe(two, *second);
  Watch(a.get());
  Watch(b.get());
  ReadCold(two);
  EXPECT_EQ(Misses(a.get()), 0u);
  EXPECT_EQ(Misses(b.get()), 1u << 20);
  // One that wants nothing any more leaves the other alone.
  b->Detach();
  ReadCold(one);
  ReadCold(two);
  EXPECT_EQ(Misses(a.get()), 1u << 20);
  EXPECT_EQ(MissesByNow(b.get()), 0u);
}

TEST_F(ObserverSharedTest, AFileThatAppearsIsFoundByTheDirectoryThatHasIt) {
  const std::string one = Make("one");
  const std::string two = Make("two");
  const Attacher attacher(set_.get());
  const auto a = Observe(one, *set_->AddDirectory());
  const auto b = Observe(two, *set_->AddDirectory());
  Watch(a.get());
  Watch(b.get());
  for (const std::string& dir : {one, two}) {
    const auto& backend = dir == one ? a : b;
    Make(dir.substr(dir_.size() + 1) + "/later");
    EXPECT_TRUE(IsToldAtLast(backend.get(), dir + "/later")) << dir;
  }
}

// While no runner watched there, the file was discovered and told to the other directory alone.
TEST_F(ObserverSharedTest, AFileThatAppearedUnwatchedIsFoundByTheNextWatch) {
  const std::string one = Make("one");
  const std::string two = Make("two");
  const Attacher attacher(set_.get());
  const auto a = Observe(one, *set_->AddDirectory());
  const auto b = Observe(two, *set_->AddDirectory());
  Watch(a.get());
  Make("two/later");
  const UniqueFd held(open((two + "/later/model").c_str(), O_RDONLY | O_CLOEXEC));
  ReadCold(two + "/later");
  (void)Misses(a.get());
  EXPECT_EQ(MissesByNow(b.get()), 0u);
  Watch(b.get());
  EXPECT_TRUE(IsToldAtLast(b.get(), two + "/later"));
}

TEST_F(ObserverSharedTest, ADeadRunnerLeavesNothing) {
  const std::string one = Make("one");
  const uint32_t number = Value(set_->AddDirectory());
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const pid_t runner = StartChild([&] {
    const Attacher here(set_.get());
    const auto backend = Observe(one, number);
    (void)backend->Attach({.trace = true});
    (void)!write(ready[1], "x", 1);
    pause();
  });
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  KillAndReap(runner);
  set_->ClearWants(number);
  // What it listed is not taken for what the next one lists: the same file, other numbers.
  const Attacher here(set_.get());
  const auto next = Observe(one, number);
  EXPECT_EQ(MissesByNow(next.get()), 0u);
  Watch(next.get());
  ReadCold(one);
  EXPECT_EQ(Misses(next.get()), 1u << 20);
  set_->RemoveDirectory(number);
  EXPECT_TRUE(set_->IsEmpty());
  for (const int fd : ready) close(fd);
}

// A group of cgroup2 made for a test; empty where there is none that we may write.
std::string MakeGroup() {
  for (const char* const root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    if (access((std::string(root) + "/cgroup.controllers").c_str(), R_OK) != 0) continue;
    const std::string group = std::string(root) + "/ppc-observer-test-" + std::to_string(getpid());
    if (mkdir(group.c_str(), 0755) == 0) return group;
  }
  return "";
}

TEST_F(ObserverSharedTest, AnEventSaysTheReadersCgroup) {
  const std::string group = MakeGroup();
  if (group.empty()) GTEST_SKIP() << "no cgroup2 below /sys/fs/cgroup that we may write";
  struct stat info {};
  ASSERT_EQ(stat(group.c_str(), &info), 0);
  const std::string one = Make("one");
  const Attacher attacher(set_.get());
  const auto backend = Observe(one, *set_->AddDirectory());
  Watch(backend.get());
  const std::string command =
      "echo $$ >" + group + "/cgroup.procs && exec cat '" + one + "/model' >/dev/null";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::array<Event, 256> batch;
  size_t events = 0;
  while (const size_t got = backend->Drain(batch)) {
    for (size_t i = 0; i < got; ++i) EXPECT_EQ(batch[i].cgroup_id, info.st_ino);
    events += got;
  }
  EXPECT_GT(events, 0u);
  EXPECT_EQ(rmdir(group.c_str()), 0);
}

TEST_F(ObserverSharedTest, ThereIsAnEndToDirectories) {
  for (int i = 0; i < kObsMaxDirs; ++i) ASSERT_TRUE(set_->AddDirectory());
  ExpectError(set_->AddDirectory(), ENOSPC);
  set_->RemoveDirectory(7);
  EXPECT_EQ(Value(set_->AddDirectory()), 7u);
}

}  // namespace
}  // namespace ppc
