// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/cgroup_loader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <thread>

#include "daemon/backend/cgroup_loaders.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

// /dev/null stands for the device: an answer of ENOTTY has been through the other process.
class CgroupLoaderTest : public testing::Test {
 protected:
  CgroupLoaderTest() {
    tree_.Write("/group/cgroup.procs", "");
    group_.Reset(open(tree_.Path("/group").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    device_.Reset(open("/dev/null", O_RDWR | O_CLOEXEC));
  }
  // A process that outlives its owner would keep us here.
  void TearDown() override {
    while (waitpid(-1, nullptr, 0) > 0) {
    }
  }
  std::unique_ptr<CgroupLoader> Open(int lanes = 2, int idle_ms = 60000,
                                     const std::string& program = PPC_TEST_RUNNER) {
    Result<std::unique_ptr<CgroupLoader>> loader = CgroupLoader::Open(
        group_.Get(), device_.Get(), {.program = program, .lanes = lanes, .idle_ms = idle_ms});
    EXPECT_TRUE(loader.ok());
    return std::move(*loader);
  }
  static int Load(CgroupLoader* loader) {
    ppc_load load{};
    load.file_id = 5;
    const int code = loader->Load(&load, -1);
    EXPECT_EQ(load.file_id, 5u);
    return code;
  }
  // The only child we have; 0 without one.
  static pid_t Child() {
    std::ifstream list("/proc/self/task/" + std::to_string(getpid()) + "/children");
    pid_t pid = 0;
    list >> pid;
    return pid;
  }
  static void WaitUntilDead() {
    siginfo_t info{};
    ASSERT_EQ(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), 0);
  }
  std::string Joined() {
    std::ifstream file(tree_.Path("/group/cgroup.procs"));
    std::string text;
    file >> text;
    return text;
  }
  TempTree tree_;
  UniqueFd group_;
  UniqueFd device_;
};

TEST_F(CgroupLoaderTest, JoinsBeforeTheFirstLoadAndEndsWithItsOwner) {
  const auto loader = Open();
  EXPECT_EQ(Child(), 0);
  EXPECT_EQ(Joined(), "");
  EXPECT_EQ(Load(loader.get()), ENOTTY);
  EXPECT_NE(Child(), 0);
  EXPECT_EQ(Joined(), "0");
}

TEST_F(CgroupLoaderTest, EndsWhenIdleAndComesBack) {
  const auto loader = Open(2, 100);
  EXPECT_EQ(Load(loader.get()), ENOTTY);
  const pid_t first = Child();
  WaitUntilDead();
  EXPECT_EQ(Load(loader.get()), ENOTTY);
  EXPECT_NE(Child(), first);
}

TEST_F(CgroupLoaderTest, ComesBackAfterItWasKilled) {
  const auto loader = Open();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Load(loader.get()), ENOTTY);
    ASSERT_NE(Child(), 0);
    kill(Child(), SIGKILL);
    WaitUntilDead();
  }
}

TEST_F(CgroupLoaderTest, ServesMoreCallersThanLanes) {
  const auto loader = Open();
  std::atomic<int> right{0};
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 8; ++i) {
      callers.emplace_back([&] {
        for (int n = 0; n < 50; ++n) right += Load(loader.get()) == ENOTTY;
      });
    }
  }
  EXPECT_EQ(right, 400);
}

TEST_F(CgroupLoaderTest, AnEndlessStartIsGivenUp) {
  EXPECT_EQ(Load(Open(2, 1000, "/bin/false").get()), ECHILD);
  EXPECT_EQ(Load(Open(2, 1000, "/absent").get()), ECHILD);
}

// A cgroup with children that have controllers takes no process; /dev/full refuses as it does.
TEST_F(CgroupLoaderTest, ACgroupThatTakesNoProcessIsAskedOnce) {
  unlink(tree_.Path("/group/cgroup.procs").c_str());
  tree_.Link("/group/cgroup.procs", "/dev/full");
  const auto loader = Open();
  EXPECT_EQ(Load(loader.get()), EBUSY);
  while (waitpid(-1, nullptr, 0) > 0) {
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Load(loader.get()), EBUSY);
    siginfo_t info{};
    EXPECT_EQ(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), -1);  // nobody was started
  }
}

TEST_F(CgroupLoaderTest, ACgroupThatGoesOrIsNoneIsAnError) {
  const auto loader = Open();
  unlink(tree_.Path("/group/cgroup.procs").c_str());
  EXPECT_EQ(Load(loader.get()), ECHILD);
  const auto none = CgroupLoader::Open(group_.Get(), device_.Get());
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("join the cgroup"), std::string::npos);
}

TEST_F(CgroupLoaderTest, AHandleLoadsInItsCgroupUntilItIsClosed) {
  CgroupLoaders loaders;
  const CgroupLoaderOptions options{.program = PPC_TEST_RUNNER, .lanes = 1, .idle_ms = 60000};
  const Result<uint32_t> first = loaders.Open(group_.Get(), device_.Get(), options);
  const Result<uint32_t> second = loaders.Open(group_.Get(), device_.Get(), options);
  ASSERT_TRUE(first && second);
  EXPECT_NE(*first, 0u);
  EXPECT_NE(*first, *second);
  ppc_load load{};
  EXPECT_EQ(loaders.Load(*second, &load, -1), ENOTTY);
  EXPECT_EQ(loaders.Load(*second + 1, &load, -1), EBADF);
  loaders.Close(*second);
  loaders.Close(*second);
  EXPECT_EQ(loaders.Load(*second, &load, -1), EBADF);
  EXPECT_EQ(loaders.Load(*first, &load, -1), ENOTTY);
}

}  // namespace
}  // namespace ppc
