// SPDX-License-Identifier: Apache-2.0
// When looks for readers with O_DIRECT are due, and what does not wait for them.
#include "daemon/backend/observer/direct_readers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "daemon/backend/observer/observer_io.h"
#include "daemon/base/clock.h"
#include "tests/unit/backend/observer_fixture.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

// A look takes milliseconds, and thousands of small files are loaded a second.
TEST(DirectReaders, WhoLoadsAsksForALookOnlyWhereNoneIsDue) {
  DirectReaders readers(SysRoots{}, [](dev_t, ino_t) { return std::nullopt; });
  const uint64_t now = MonotonicNs();
  EXPECT_EQ(readers.Look(now), 0U);
  EXPECT_TRUE(readers.NoteLoad(1, 1));
  EXPECT_FALSE(readers.NoteLoad(2, 1)) << "it has been asked for";
  EXPECT_NE(readers.Look(now), 0U);
  EXPECT_FALSE(readers.NoteLoad(3, 1)) << "the next one is due by itself";
  EXPECT_NE(readers.Look(now + kNsPerSec / 10), 0U);
  // Nothing is loaded for a while.
  EXPECT_EQ(readers.Look(now + 10 * kNsPerSec), 0U);
  EXPECT_TRUE(readers.NoteLoad(4, 1));
}

// A process of a made-up /proc that has `path` open with O_DIRECT, started just now.
void MakeDirectReader(const TempTree& fake, int pid, const std::string& cgroup,
                      const std::string& path) {
  const std::string base = "/proc/" + std::to_string(pid);
  const uint64_t tick_ns = kNsPerSec / static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  fake.Write(base + "/stat", std::to_string(pid) + " (x) S 1 1 1 0 -1 4194560 1 0 0 0 1 1 0 0 20 " +
                                 "0 1 0 " + std::to_string(BootNs() / tick_ns) + " 1 1\n");
  fake.Write(base + "/cgroup", "4:memory:" + cgroup + "\n0::/\n");
  fake.Write(base + "/fdinfo/3", "pos:\t0\nflags:\t0140000\n");
  std::filesystem::create_directories(fake.Root() + base + "/fd");
  std::filesystem::create_symlink(path, fake.Root() + base + "/fd/3");
}

// One tenant's loader must not switch off what is loaded for another.
TEST(DirectReaders, AReaderStopsLoadsForItsOwnCgroupOnly) {
  constexpr uint32_t kFolder = 7;
  const TempTree fake;
  fake.Write("/model", "x");
  MakeDirectReader(fake, 200, "/pods/b/job", fake.Root() + "/model");
  DirectReaders readers(SysRoots{"", fake.Root()}, [](dev_t, ino_t) { return kFolder; });
  ASSERT_TRUE(readers.NoteLoad(1, kFolder));
  ASSERT_NE(readers.Look(MonotonicNs()), 0U);
  using State = DirectReaders::State;
  EXPECT_EQ(readers.Of(kFolder, "/pods/b"), State::kSeen);
  EXPECT_EQ(readers.Of(kFolder, "/pods/b/job"), State::kSeen);
  EXPECT_EQ(readers.Of(kFolder, "/pods/a"), State::kNone);
  EXPECT_EQ(readers.Of(kFolder, "/pods/b/job/inner"), State::kNone);
  EXPECT_EQ(readers.Of(kFolder, "/pods/b/jo"), State::kNone);
  EXPECT_EQ(readers.Of(kFolder, ""), State::kSeen) << "a service without a cgroup of its own";
  EXPECT_EQ(readers.Of(kFolder + 1, ""), State::kNone);
  MakeDirectReader(fake, 201, "/pods/a", fake.Root() + "/model");
  ASSERT_NE(readers.Look(MonotonicNs()), 0U);
  EXPECT_EQ(readers.Of(kFolder, "/pods/a"), State::kSeen);
  EXPECT_EQ(readers.Of(kFolder, "/pods/b"), State::kSeen);
}

TEST(DirectReaders, WhatGoesPastTheCacheIsCounted) {
  constexpr uint32_t kFolder = 7;
  const TempTree fake;
  fake.Write("/model", "x");
  fake.Write("/proc/200/io", "rchar: 0\nread_bytes: 5000000\n");
  MakeDirectReader(fake, 200, "/a", fake.Root() + "/model");
  DirectReaders readers(SysRoots{"", fake.Root()}, [](dev_t, ino_t) { return kFolder; });
  ASSERT_TRUE(readers.NoteLoad(1, kFolder));
  ASSERT_NE(readers.Look(MonotonicNs()), 0U);
  EXPECT_EQ(readers.bypassed_bytes(), 0U) << "before it was found it read what it likes";
  fake.Write("/proc/200/io", "rchar: 0\nread_bytes: 25000000\n");
  ASSERT_NE(readers.Look(MonotonicNs()), 0U);
  EXPECT_EQ(readers.bypassed_bytes(), 20000000U);
  ASSERT_NE(readers.Look(MonotonicNs()), 0U);
  EXPECT_EQ(readers.bypassed_bytes(), 20000000U);
  EXPECT_NE(readers.Words().find("19 MiB"), std::string::npos) << readers.Words();
}

// A file of /proc that answers late.
class SlowFile {
 public:
  explicit SlowFile(std::string path) : path_(std::move(path)) {
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
    EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0);
    thread_ = std::thread([this] { Serve(); });
  }
  ~SlowFile() {
    is_ending_ = true;
    thread_.join();
  }

 private:
  void Serve() const {
    while (!is_ending_) {
      const UniqueFd fd(open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
      if (fd.IsValid()) usleep(200'000);  // it has a reader
      usleep(1000);
    }
  }

  const std::string path_;
  std::atomic<bool> is_ending_{false};
  std::thread thread_;
};

// The longer a look at processes takes the longer it rests; files are not held open so long.
TEST_F(ObserverTest, AnIdleFileIsClosedBetweenLooksAtProcesses) {
  const Result<std::unique_ptr<ObserverPrograms>> programs = ObserverPrograms::Load(SysRoots{});
  if (!programs) GTEST_SKIP() << programs.error().message;
  const TempTree fake;
  const SlowFile slow(fake.Root() + "/proc/100/io");
  Write("other", kMiB);
  DiscoveredFiles discovered(16);
  ObserverFiles index(dir_, programs->get(), &discovered, {});
  ASSERT_TRUE(index.Scan(MonotonicNs() + 10 * kNsPerSec));
  int hurried = 0;
  ObserverIo io(dir_, SysRoots{"", fake.Root()},
                {.index = &index,
                 .discovered = &discovered,
                 .programs = programs->get(),
                 .hurry = [&hurried] { ++hurried; }});
  const auto open_files = [this] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::ranges::count_if(all, [this](const auto& fd) {
      std::error_code ignored;
      return std::filesystem::read_symlink(fd, ignored) == Path("model");
    });
  };
  const Result<FileInfo> file = index.Lookup("model");
  ASSERT_TRUE(file);
  ASSERT_TRUE(io.Load({.file = file->file, .length = kMiB}));
  EXPECT_EQ(hurried, 1);
  const uint64_t before = MonotonicNs();
  EXPECT_LE(io.Look(before), 200 * kNsPerMs) << "it is to be closed";
  EXPECT_EQ(open_files(), 1);
  // A process that a look would find.
  MakeDirectReader(fake, 200, "/", Path("model"));
  // Something is loaded still, so that a look at processes would find it.
  const Result<FileInfo> other = index.Lookup("other");
  ASSERT_TRUE(other);
  ASSERT_TRUE(io.Load({.file = other->file, .length = kMiB, .is_small = true}));
  EXPECT_GT(io.Look(before + 600 * kNsPerMs), 0u);
  EXPECT_EQ(open_files(), 0);
  EXPECT_EQ(io.DirectWords(), "") << "not before it is due";
}

}  // namespace
}  // namespace ppc
