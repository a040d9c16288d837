// SPDX-License-Identifier: Apache-2.0
// What the observer tells of processes: their threads, what they begin to run, how they populate.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/backend/observer/observer_thread.h"
#include "daemon/base/clock.h"
#include "tests/unit/backend/observer_fixture.h"
#include "tests/unit/child.h"
#include "tests/unit/eventually.h"

namespace ppc {
namespace {

ObserverThread::Options OptionsOfRoot() {
  struct stat info {};
  (void)stat("/", &info);
  return {.dir = "/", .dev = info.st_dev, .ino = info.st_ino, .run_periodic = [] {
            return ObserverThread::PeriodicResult{kNsPerSec, false};
          }};
}

ObserverThread::Answer Number(uint64_t file) { return {FileInfo{.file = file}, ""}; }

TEST(ObserverThread, AnswersManyQuestionsSideBySide) {
  constexpr int kQuestions = 16;
  // Each waits for all others, as for a disk that answers them together.
  std::barrier all(kQuestions);
  ObserverThread worker(nullptr, OptionsOfRoot());
  std::vector<uint64_t> answers(kQuestions);
  {
    std::vector<std::jthread> askers;
    for (int i = 0; i < kQuestions; i++) {
      askers.emplace_back([&, i] {
        const ObserverThread::Answer answer = worker.Ask([&all, i] {
          all.arrive_and_wait();
          return Number(static_cast<uint64_t>(i) + 1);
        });
        if (answer.info) answers[static_cast<size_t>(i)] = answer.info->file;
      });
    }
  }
  for (size_t i = 0; i < answers.size(); i++) EXPECT_EQ(answers[i], i + 1);
}

TEST(ObserverThread, WhatIsAskedOnceIsAnsweredByTheThreadItself) {
  ObserverThread worker(nullptr, OptionsOfRoot());
  for (uint64_t i = 1; i <= 100; i++)
    EXPECT_EQ(worker.Ask([i] { return Number(i); }).info->file, i);
}

TEST(ObserverThread, NobodyWaitsForAFileSystemThatDoesNotAnswer) {
  std::promise<void> answers;
  const std::shared_future<void> future = answers.get_future().share();
  ObserverThread worker(nullptr, OptionsOfRoot());
  const auto hang = [future] {
    future.wait();
    return Number(1);
  };
  const ObserverThread::Answer late = worker.Ask(hang);
  ASSERT_FALSE(late.info);
  EXPECT_EQ(late.info.error().code, ETIMEDOUT);
  const long before = WaitsOfThisThread();
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(worker.Ask([] { return Number(2); }).info);
  EXPECT_LT(WaitsOfThisThread() - before, 100);
  answers.set_value();
  // It answers again: that is noticed.
  const uint64_t deadline = MonotonicNs() + 20 * kNsPerSec;
  bool is_answered = false;
  while (!is_answered && MonotonicNs() < deadline)
    is_answered = static_cast<bool>(worker.Ask([] { return Number(3); }).info);
  EXPECT_TRUE(is_answered);
}

// Who begins to run an executable is told, of those that are watched.

class ObserverExecTest : public ClosedObserverTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ClosedObserverTest::SetUp());
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
    const pid_t pid = StartChild([&] {
      char* const words[] = {const_cast<char*>("learnt"), nullptr};
      if (uid == getuid() || setuid(uid) == 0) fexecve(fd, words, environ);
      return 1;
    });
    close(fd);
    EXPECT_EQ(EndOf(pid), 0);
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

// Loads for a service that populates its mappings.

// Pages of the file that the kernel holds for used, by /proc/kpageflags; nullopt: it does not tell.
std::optional<uint64_t> UsedPages(const std::string& path, uint64_t bytes) {
  constexpr uint64_t kUsed = 1 << 2 | 1 << 6;  // referenced, active
  constexpr uint64_t kPfn = (uint64_t{1} << 55) - 1;
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const UniqueFd pagemap(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  const UniqueFd flags(open("/proc/kpageflags", O_RDONLY | O_CLOEXEC));
  // A fault marks nothing before the mapping goes; MAP_POPULATE does.
  void* const at = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.Get(), 0);
  std::optional<uint64_t> used = 0;
  for (uint64_t page = 0; used && page < bytes / kPageBytes; ++page) {
    const uint64_t number = reinterpret_cast<uintptr_t>(at) / kPageBytes + page;
    (void)static_cast<volatile char*>(at)[page * kPageBytes];
    uint64_t entry = 0;
    uint64_t seen = 0;
    const bool is_told = pread(pagemap.Get(), &entry, 8, static_cast<off_t>(number * 8)) == 8 &&
                         (entry & kPfn) != 0 &&
                         pread(flags.Get(), &seen, 8, static_cast<off_t>((entry & kPfn) * 8)) == 8;
    if (!is_told) used.reset();
    if (is_told && (seen & kUsed) != 0) ++*used;
  }
  munmap(at, bytes);
  return used;
}

// Natively a populate marks what it maps, and reclaim takes such pages last.
TEST_F(ObserverTest, LoadsForAPopulateLookUsed) {
  const Result<FileInfo> file = backend_->Lookup("model");
  uint64_t used[2] = {};
  for (const bool is_populated : {false, true}) {
    Drop("model");
    ASSERT_TRUE(
        backend_->Load({.file = file->file, .length = 2 * kMiB, .is_populated = is_populated}));
    const std::optional<uint64_t> pages = UsedPages(Path("model"), 2 * kMiB);
    if (!pages) GTEST_SKIP() << "this kernel does not tell a page's flags";
    used[is_populated] = *pages;
  }
  EXPECT_LT(used[0], 2 * kMiB / kPageBytes / 2);
  // A page that waits in a CPU's batch shows neither flag.
  EXPECT_GT(used[1], 2 * kMiB / kPageBytes / 8 * 7);
}

}  // namespace
}  // namespace ppc
