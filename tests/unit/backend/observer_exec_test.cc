// SPDX-License-Identifier: Apache-2.0
// Who begins to run an executable is told, of those that are watched.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/backend/observer_fixture.h"

namespace ppc {
namespace {

class ObserverExecTest : public ObserverTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ObserverTest::SetUp());
    for (const char* name : {"learnt", "other"})
      std::filesystem::copy_file("/bin/true", Path(name));
  }
  bool OpenHere() {
    if (!Open()) return false;
    why_not_ = "this kernel tells no exec";
    return backend_->Caps().execs;
  }
  // Its process, which need not have a way to the directory.
  pid_t Run(const std::string& name, uint32_t uid = getuid()) const {
    const int fd = open(Path(name).c_str(), O_RDONLY);
    const pid_t pid = fork();
    if (pid == 0) {
      char* const words[] = {const_cast<char*>("learnt"), nullptr};
      if (uid == getuid() || setuid(uid) == 0) fexecve(fd, words, environ);
      _exit(1);
    }
    close(fd);
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
    return pid;
  }
  std::vector<Exec> Execs() {
    std::vector<Event> events = Events();
    EXPECT_TRUE(events.empty());
    std::vector<Exec> execs;
    backend_->TakeExecs(&execs);
    return execs;
  }
  Executable At(const std::string& name) {
    const Result<Executable> file = backend_->ExecutableAt(Path(name));
    EXPECT_TRUE(file) << file.error().message;
    return file ? *file : Executable{};
  }
};

TEST_F(ObserverExecTest, AWatchedExecutableIsTold) {
  if (!OpenHere()) GTEST_SKIP() << why_not_;
  ASSERT_TRUE(backend_->Attach({}));
  const Executable learnt = At("learnt");
  EXPECT_NE(learnt.ino, 0u);
  EXPECT_NE(learnt, At("other"));
  backend_->WatchExecs(std::vector{learnt});
  (void)Run("other");
  const pid_t pid = Run("learnt");
  (void)Run("other");
  const std::vector<Exec> execs = Execs();
  ASSERT_EQ(execs.size(), 1u);
  EXPECT_EQ(execs[0].file, learnt);
  EXPECT_EQ(execs[0].pid, pid);
  EXPECT_EQ(execs[0].uid, getuid());
  EXPECT_GT(execs[0].start_ns, 0u);
}

TEST_F(ObserverExecTest, TheUserIsTheProcess) {
  if (!OpenHere()) GTEST_SKIP() << why_not_;
  constexpr uint32_t kNobody = 65534;
  if (getuid() != 0) GTEST_SKIP() << "only root runs programs as others";
  ASSERT_TRUE(backend_->Attach({}));
  backend_->WatchExecs(std::vector{At("learnt")});
  (void)Run("learnt", kNobody);
  const std::vector<Exec> execs = Execs();
  ASSERT_EQ(execs.size(), 1u);
  EXPECT_EQ(execs[0].uid, kNobody);
}

TEST_F(ObserverExecTest, OfAScriptItIsTheInterpreter) {
  if (!OpenHere()) GTEST_SKIP() << why_not_;
  std::ofstream(Path("script")) << "#!" << Path("learnt") << "\n";
  std::filesystem::permissions(Path("script"), std::filesystem::perms(0755));
  ASSERT_TRUE(backend_->Attach({}));
  backend_->WatchExecs(std::vector{At("learnt")});
  (void)Run("script");
  EXPECT_EQ(Execs().size(), 1u);
}

TEST_F(ObserverExecTest, WhatIsWatchedNoMoreIsNotTold) {
  if (!OpenHere()) GTEST_SKIP() << why_not_;
  ASSERT_TRUE(backend_->Attach({}));
  backend_->WatchExecs(std::vector{At("learnt")});
  backend_->WatchExecs(std::vector{At("other")});
  (void)Run("learnt");
  EXPECT_TRUE(Execs().empty());
  (void)Run("other");
  EXPECT_EQ(Execs().size(), 1u);
  backend_->Detach();
  (void)Run("other");
  EXPECT_TRUE(Execs().empty());
  ASSERT_TRUE(backend_->Attach({}));
  (void)Run("other");
  EXPECT_EQ(Execs().size(), 1u);
}

}  // namespace
}  // namespace ppc
