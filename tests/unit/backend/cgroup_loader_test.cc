// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/cgroup_loader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

#include "daemon/backend/cgroup_loaders.h"
#include "tests/unit/eventually.h"
#include "tests/unit/has.h"
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
    return OpenWith({.program = program, .lanes = lanes, .idle_ms = idle_ms});
  }
  std::unique_ptr<CgroupLoader> OpenWith(CgroupLoaderOptions options) {
    if (options.program == CgroupLoaderOptions().program) options.program = PPC_TEST_RUNNER;
    Result<std::unique_ptr<CgroupLoader>> loader =
        CgroupLoader::Open(group_.Get(), device_.Get(), std::move(options));
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
  // All of its threads: until then one of them may still answer.
  static void Stop(pid_t pid) {
    siginfo_t info{};
    ASSERT_EQ(kill(pid, SIGSTOP), 0);
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WNOWAIT), 0);
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

TEST_F(CgroupLoaderTest, AProcessThatEndsBeforeItAnswersIsNotStartedForEachLoad) {
  for (const char* const program : {"/bin/false", "/absent"}) {
    const auto loader = Open(2, 1000, program);
    EXPECT_EQ(Load(loader.get()), CgroupLoader::kNoAnswer);
    while (waitpid(-1, nullptr, 0) > 0) {
    }
    for (int i = 0; i < 10; ++i) EXPECT_EQ(Load(loader.get()), CgroupLoader::kNoAnswer);
    EXPECT_EQ(Child(), 0);
  }
}

// As one in a frozen cgroup.
TEST_F(CgroupLoaderTest, AProcessThatDoesNotAnswerIsWaitedForOnce) {
  const auto loader = OpenWith({.lanes = 4, .answer_timeout_ms = 1000});
  EXPECT_EQ(Load(loader.get()), ENOTTY);
  const pid_t child = Child();
  ASSERT_NO_FATAL_FAILURE(Stop(child));
  EXPECT_EQ(Load(loader.get()), CgroupLoader::kNoAnswer);
  const long before = WaitsOfThisThread();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Load(loader.get()), CgroupLoader::kNoAnswer);
  EXPECT_LT(WaitsOfThisThread() - before, 100);
  ASSERT_EQ(kill(child, SIGCONT), 0);
  while (Load(loader.get()) == CgroupLoader::kNoAnswer) std::this_thread::yield();
  EXPECT_EQ(Load(loader.get()), ENOTTY);
  EXPECT_EQ(Child(), child) << "its late answer was taken";
}

TEST_F(CgroupLoaderTest, AProcessThatStaysSilentIsReplacedAsLongAsItDies) {
  const auto loader = OpenWith({.answer_timeout_ms = 1000, .unresponsive_ms = 0});
  EXPECT_EQ(Load(loader.get()), ENOTTY);
  const pid_t child = Child();
  ASSERT_NO_FATAL_FAILURE(Stop(child));
  EXPECT_EQ(Load(loader.get()), CgroupLoader::kNoAnswer);
  while (Load(loader.get()) == CgroupLoader::kNoAnswer) std::this_thread::yield();
  while (Child() == child) loader->Reap();
  EXPECT_NE(Child(), 0);
}

// Each counts in the cgroup's pids.max.
TEST_F(CgroupLoaderTest, OneLoadAfterTheOtherTakesTwoThreads) {
  const auto loader = OpenWith({.lanes = 32});
  for (int i = 0; i < 100; ++i) EXPECT_EQ(Load(loader.get()), ENOTTY);
#ifdef __SANITIZE_THREAD__
  constexpr int kThreads = 3;  // one is the sanitizer's
#else
  constexpr int kThreads = 2;
#endif
  const std::filesystem::directory_iterator tasks("/proc/" + std::to_string(Child()) + "/task");
  EXPECT_LE(std::distance(begin(tasks), end(tasks)), kThreads);
}

TEST_F(CgroupLoaderTest, TheKernelKillsALoaderRatherThanItsService) {
  const auto loader = Open();
  EXPECT_EQ(Load(loader.get()), ENOTTY);
  std::ifstream file("/proc/" + std::to_string(Child()) + "/oom_score_adj");
  int score = 0;
  file >> score;
  EXPECT_EQ(score, 1000);
}

TEST_F(CgroupLoaderTest, WhatHasEndedIsWaitedForWithoutALoad) {
  const auto loader = Open(2, 20);
  EXPECT_EQ(Load(loader.get()), ENOTTY);
  WaitUntilDead();
  loader->Reap();
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "nothing is left";
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
    EXPECT_EQ(waitid(P_ALL, 0, &info, WEXITED | WNOWAIT), -1);  // no process was started
  }
}

TEST_F(CgroupLoaderTest, ACgroupThatGoesOrIsNoneIsAnError) {
  const auto loader = Open();
  unlink(tree_.Path("/group/cgroup.procs").c_str());
  EXPECT_EQ(Load(loader.get()), ECHILD);
  const auto none = CgroupLoader::Open(group_.Get(), device_.Get());
  ASSERT_FALSE(none.ok());
  EXPECT_TRUE(Has(none.error().message, "join the cgroup"));
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
