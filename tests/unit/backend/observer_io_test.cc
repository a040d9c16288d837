// SPDX-License-Identifier: Apache-2.0
// What the observer loads and drops is there and gone; names lead where they should.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "daemon/base/clock.h"
#include "tests/unit/backend/observer_fixture.h"

namespace ppc {
namespace {

TEST_F(ObserverTest, AnInterruptedLoadStops) {
  if (!Open()) GTEST_SKIP() << why_not_;
  const Result<FileInfo> file = backend_->Lookup("model");
  const std::atomic<uint64_t> newest{2};
  const Result<LoadResult> loaded =
      backend_->Load({.file = file->file, .length = 2 * kMiB, .generation = 1, .newest = &newest});
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->stop, LoadStop::kCancelled);
  EXPECT_EQ(Cached("model"), 0u);
}

TEST_F(ObserverTest, AStrangersPagesStay) {
  if (!Open()) GTEST_SKIP() << why_not_;
  InChild([&] { ReadAll("model", kMiB); });
  const uint64_t warm = Cached("model");
  ASSERT_GT(warm, 0u);
  ASSERT_TRUE(backend_->Attach({}));
  const Result<FileInfo> file = backend_->Lookup("model");
  const Result<EvictResult> evicted =
      backend_->Evict({.file = file->file, .length = 8 * kMiB, .unmap = true});
  ASSERT_TRUE(evicted);
  EXPECT_EQ(evicted->dropped, 0u);
  EXPECT_EQ(evicted->asked, warm);
  EXPECT_EQ(Cached("model"), warm);
}

TEST_F(ObserverTest, UnmappedPagesOfOursGo) {
  if (!Open()) GTEST_SKIP() << why_not_;
  const Result<FileInfo> file = backend_->Lookup("model");
  for (uint64_t at = 0; at < 8 * kMiB; at += 2 * kMiB) {
    ASSERT_TRUE(backend_->Load({.file = file->file, .offset = at, .length = 2 * kMiB}));
  }
  const Result<EvictResult> evicted = backend_->Evict({.file = file->file, .length = 4 * kMiB});
  ASSERT_TRUE(evicted);
  EXPECT_EQ(evicted->asked, 4 * kMiB);
  EXPECT_EQ(evicted->dropped, 4 * kMiB);
  EXPECT_EQ(Cached("model"), 4 * kMiB);
}

// Pages that come later to a place that we have emptied belong to another.
TEST_F(ObserverTest, DroppedPagesAreOursNoLonger) {
  ASSERT_NO_FATAL_FAILURE(Open());
  const Result<FileInfo> file = backend_->Lookup("model");
  ASSERT_TRUE(backend_->Load({.file = file->file, .length = 2 * kMiB}));
  // In parts that share a unit: the last of them takes the mark with it.
  const uint64_t middle = kMiB + 8 * kPageBytes;
  ASSERT_TRUE(backend_->Evict({.file = file->file, .length = middle}));
  ASSERT_TRUE(backend_->Evict({.file = file->file, .offset = middle, .length = kMiB}));
  ASSERT_EQ(Cached("model"), 0u);
  InChild([&] { ReadAll("model", kMiB); });
  const uint64_t warm = Cached("model");
  ASSERT_GT(warm, 0u);
  const Result<EvictResult> evicted = backend_->Evict({.file = file->file, .length = 8 * kMiB});
  ASSERT_TRUE(evicted);
  EXPECT_EQ(evicted->dropped, 0u);
  EXPECT_EQ(Cached("model"), warm);
}

// A process that has a file of the folder open with O_DIRECT ends the loads there; they begin again
// when a process reads through the cache.
TEST_F(ObserverTest, ADirectReaderEndsLoads) {
  ASSERT_NO_FATAL_FAILURE(Open());
  Write("other", 32 * kMiB);
  ASSERT_TRUE(backend_->Attach({}));
  const Result<FileInfo> file = backend_->Lookup("model");
  int ready[2];
  int go[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(go), 0);
  const pid_t pid = Fork([&] {
    char byte = open(Path("model").c_str(), O_RDONLY | O_DIRECT) >= 0 ? 'y' : 'n';
    (void)!write(ready[1], &byte, 1);
    (void)!read(go[0], &byte, 1);
  });
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const auto load = [&] {
    const Result<LoadResult> loaded = backend_->Load({.file = file->file, .length = kPageBytes});
    return loaded ? loaded->stop : LoadStop::kSignal;
  };
  const auto becomes = [&](LoadStop wanted) {
    for (int i = 0; i < 1500 && load() != wanted; ++i) usleep(20000);
    return load() == wanted;
  };
  if (byte == 'y') {
    EXPECT_TRUE(becomes(LoadStop::kUnsupported));
    EXPECT_NE(backend_->Caps().limits.back().find(std::to_string(pid)), std::string::npos);
  }
  ASSERT_EQ(write(go[1], "x", 1), 1);
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  for (const int fd : {ready[0], ready[1], go[0], go[1]}) close(fd);
  if (byte != 'y') GTEST_SKIP() << "no O_DIRECT on this file system";
  // Remembered for the next start, until it is seen that this one reads otherwise.
  EXPECT_TRUE(becomes(LoadStop::kLater));
  const Result<FileInfo> other = backend_->Lookup("other");
  EXPECT_EQ(backend_->Load({.file = other->file, .length = kPageBytes})->stop, LoadStop::kLater);
  // How much of what is read is told of depends on what else the machine does.
  for (int i = 0; i < 20 && load() != LoadStop::kDone; ++i) {
    Drop("other");
    InChild([&] { ReadAll("other", kMiB); });
    (void)Events();
  }
  EXPECT_EQ(load(), LoadStop::kDone);
}

// One process maps: its pages go although it goes on; two: they stay, and it is said.
TEST_F(ObserverTest, MappedPagesGoByTheLadder) {
  if (!Open()) GTEST_SKIP() << why_not_;
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  const auto hold = [&](int ready, int go) {
    TouchAll("model");
    char byte = 0;
    (void)!write(ready, &byte, 1);
    (void)!read(go, &byte, 1);
  };
  int ready[2];
  int go[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(go), 0);
  const pid_t first = Fork([&] { hold(ready[1], go[0]); });
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  (void)Events();
  const Result<FileInfo> file = backend_->Lookup("model");
  const EvictRequest request{.file = file->file, .length = 4 * kMiB, .unmap = true};
  const Result<EvictResult> gone = backend_->Evict(request);
  ASSERT_TRUE(gone);
  EXPECT_EQ(gone->asked, 4 * kMiB);
  EXPECT_EQ(gone->mapped, 0u);
  // A page that the kernel holds for a moment (in another CPU's batch, isolated) is told as busy.
  uint64_t dropped = gone->dropped;
  EXPECT_EQ(Cached("model"), 8 * kMiB - dropped);
  for (int i = 0; i < 20 && dropped < 4 * kMiB; ++i) {
    usleep(100'000);
    const Result<EvictResult> again = backend_->Evict(request);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->asked, 4 * kMiB - dropped);
    dropped += again->dropped;
  }
  EXPECT_EQ(dropped, 4 * kMiB);
  EXPECT_EQ(Cached("model"), 4 * kMiB);
  const pid_t second = Fork([&] { hold(ready[1], go[0]); });
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  (void)Events();
  EvictRequest upper = request;
  upper.offset = 4 * kMiB;
  const Result<EvictResult> kept = backend_->Evict(upper);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->dropped, 0u);
  EXPECT_EQ(kept->mapped, 4 * kMiB);
  ASSERT_EQ(write(go[1], "xx", 2), 2);
  for (const pid_t pid : {first, second}) {
    int status = -1;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  for (const int fd : {ready[0], ready[1], go[0], go[1]}) close(fd);
}

// A loader that has read a shard maps the next one in the place of the one before.
TEST_F(ObserverTest, WhatIsMappedWhereAFileWasIsLeftAlone) {
  // Before it is opened: of a file that is not listed yet no access is told.
  Write("next", 8 * kMiB);
  Write("seen", kMiB);
  if (!Open()) GTEST_SKIP() << why_not_;
  const Result<FileInfo> file = backend_->Lookup("model");
  ASSERT_TRUE(backend_->Load({.file = file->file, .length = 8 * kMiB}));
  int ready[2];
  int go[2];
  int end[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(go), 0);
  ASSERT_EQ(pipe(end), 0);
  char byte = 0;
  const auto tell_and_wait = [&](int fd) {
    char own = 0;
    (void)!write(ready[1], &own, 1);
    (void)!read(fd, &own, 1);
  };
  // Keeps the file mapped, and is not seen.
  const pid_t other = Fork([&] {
    TouchAll("model");
    tell_and_wait(end[0]);
  });
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  const pid_t loader = Fork([&] {
    TouchAll("seen");
    const int fd = open(Path("model").c_str(), O_RDONLY);
    const int next = open(Path("next").c_str(), O_RDONLY);
    void* const place = mmap(nullptr, 8 * kMiB, PROT_READ, MAP_SHARED, fd, 0);
    tell_and_wait(go[0]);
    const auto* const at = static_cast<volatile char*>(
        mmap(place, 8 * kMiB, PROT_READ, MAP_SHARED | MAP_FIXED, next, 0));
    for (uint64_t i = 0; i < 8 * kMiB; i += kPageBytes) (void)at[i];
    tell_and_wait(end[0]);
  });
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  (void)Events();
  const EvictRequest request{.file = file->file, .length = 8 * kMiB, .unmap = true};
  EXPECT_EQ(backend_->Evict(request)->mapped, 8 * kMiB);
  ASSERT_EQ(write(go[1], "x", 1), 1);
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(backend_->Evict(request)->dropped, 0u);
  EXPECT_EQ(Cached("next"), 8 * kMiB);
  ASSERT_EQ(write(end[1], "xx", 2), 2);
  for (const pid_t pid : {other, loader}) {
    int status = -1;
    waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  for (const int fd : {ready[0], ready[1], go[0], go[1], end[0], end[1]}) close(fd);
}

// A torn-off page of a private mapping is memory: it is neither lost nor swapped out.
TEST_F(ObserverTest, WrittenPagesOfAPrivateMappingStay) {
  if (!Open()) GTEST_SKIP() << why_not_;
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  int ready[2];
  int go[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(go), 0);
  const pid_t pid = Fork([&] {
    const int fd = open(Path("model").c_str(), O_RDONLY);
    auto* at = static_cast<volatile char*>(
        mmap(nullptr, 8 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    for (size_t i = 0; i < 8 * kMiB; i += 4096) (void)at[i];
    at[kMiB] = 77;
    char byte = 0;
    (void)!write(ready[1], &byte, 1);
    (void)!read(go[0], &byte, 1);
    if (at[kMiB] != 77) _exit(1);
  });
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  (void)Events();
  const Result<FileInfo> file = backend_->Lookup("model");
  const Result<EvictResult> gone =
      backend_->Evict({.file = file->file, .length = 8 * kMiB, .unmap = true});
  ASSERT_TRUE(gone);
  EXPECT_GE(gone->dropped, 7 * kMiB);
  ASSERT_EQ(write(go[1], "x", 1), 1);
  int status = -1;
  waitpid(pid, &status, 0);
  EXPECT_EQ(status, 0);
  for (const int fd : {ready[0], ready[1], go[0], go[1]}) close(fd);
}

TEST_F(ObserverTest, AFileThatAppearsLaterIsFound) {
  if (!Open()) GTEST_SKIP() << why_not_;
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  mkdir(Path("later").c_str(), 0755);
  Write("later/new", 4 * kMiB);
  // The first reads are of an unknown file; they make it known.
  std::vector<Event> events;
  for (int i = 0; i < 50 && Bytes(events, IsAccess) == 0; ++i) {
    Drop("later/new");
    InChild([&] { ReadAll("later/new", 64 << 10); });
    events = Events();
  }
  ASSERT_GT(Bytes(events, IsAccess), 0u);
  std::string path;
  ASSERT_TRUE(backend_->Resolve(events.back().file, &path));
  EXPECT_EQ(path, "later/new");
}

TEST_F(ObserverTest, ARenamedFileIsTheSame) {
  if (!Open()) GTEST_SKIP() << why_not_;
  const Result<FileInfo> before = backend_->Lookup("model");
  ASSERT_TRUE(before);
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  ASSERT_EQ(rename(Path("model").c_str(), Path("renamed").c_str()), 0);
  Write("new", 4 * kMiB);
  // That the directory was looked at meanwhile, its new file shows.
  for (int i = 0; i < 50 && Bytes(Events(), IsAccess) == 0; ++i) {
    Drop("new");
    InChild([&] { ReadAll("new", 64 << 10); });
  }
  std::string path;
  ASSERT_TRUE(backend_->Resolve(before->file, &path));
  EXPECT_EQ(path, "renamed");
  EXPECT_TRUE(backend_->Load({.file = before->file, .length = kMiB}));
}

TEST_F(ObserverTest, AReplacedFileIsAnother) {
  if (!Open()) GTEST_SKIP() << why_not_;
  const Result<FileInfo> before = backend_->Lookup("model");
  ASSERT_TRUE(before);
  Write("other", 2 * kMiB);
  ASSERT_EQ(rename(Path("other").c_str(), Path("model").c_str()), 0);
  EXPECT_EQ(backend_->Load({.file = before->file, .length = kMiB}).error().code, ESTALE);
  const Result<FileInfo> after = backend_->Lookup("model");
  ASSERT_TRUE(after);
  EXPECT_NE(after->file, before->file);
  EXPECT_EQ(after->size, 2 * kMiB);
  EXPECT_EQ(backend_->Resolve(before->file, nullptr).error().code, ESTALE);
}

// The number of an inode, and often its place in memory, is used again; its generation is not.
TEST_F(ObserverTest, AnInodeUsedAgainIsAnotherFile) {
  if (!Open()) GTEST_SKIP() << why_not_;
  const Result<FileInfo> before = backend_->Lookup("model");
  ASSERT_TRUE(before);
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  struct stat was {};
  struct stat is {};
  ASSERT_EQ(stat(Path("model").c_str(), &was), 0);
  for (int i = 0; i < 50 && is.st_ino != was.st_ino; ++i) {
    ASSERT_EQ(unlink(Path(i == 0 ? "model" : "again").c_str()), 0);
    Write("again", 4 * kMiB);
    ASSERT_EQ(stat(Path("again").c_str(), &is), 0);
  }
  if (is.st_ino != was.st_ino) GTEST_SKIP() << "this file system uses no inode's number again";
  std::vector<Event> events;
  for (int i = 0; i < 50 && Bytes(events, IsAccess) < 4 * kMiB; ++i) {
    Drop("again");
    InChild([&] { ReadAll("again", 64 << 10); });
    events = Events();
    for (const Event& event : events) EXPECT_NE(event.file, before->file);
  }
  EXPECT_EQ(Bytes(events, IsAccess), 4 * kMiB);
  std::string path;
  ASSERT_TRUE(backend_->Resolve(events.back().file, &path));
  EXPECT_EQ(path, "again");
  const Result<FileInfo> gone = backend_->Resolve(before->file, nullptr);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ESTALE);
}

TEST_F(ObserverTest, ADirectoryThatGoesIsNoticed) {
  if (!Open()) GTEST_SKIP() << why_not_;
  ASSERT_TRUE(backend_->Attach({}));
  const std::string away = dir_ + "-away";
  ASSERT_EQ(rename(dir_.c_str(), away.c_str()), 0);
  WaitOutcome outcome = WaitOutcome::kTimeout;
  std::vector<Event> batch(64);
  // It waits no longer than until something is told: not so often, but so long.
  const uint64_t end = MonotonicNs() + 20 * kNsPerSec;
  while (outcome != WaitOutcome::kGone && MonotonicNs() < end) {
    (void)backend_->Drain(batch);
    outcome = backend_->Wait(50 * kNsPerMs, false, {});
  }
  EXPECT_EQ(outcome, WaitOutcome::kGone);
  ASSERT_EQ(rename(away.c_str(), dir_.c_str()), 0);
}

TEST_F(ObserverTest, LooksLeadNowhereElse) {
  if (!Open()) GTEST_SKIP() << why_not_;
  ASSERT_EQ(symlink("/etc/passwd", Path("out").c_str()), 0);
  ASSERT_EQ(symlink("model", Path("alias").c_str()), 0);
  EXPECT_FALSE(backend_->Lookup("out"));
  EXPECT_FALSE(backend_->Lookup("../" + dir_.substr(dir_.rfind('/') + 1) + "/model"));
  const Result<FileInfo> alias = backend_->Lookup("alias");
  ASSERT_TRUE(alias);
  EXPECT_EQ(alias->file, backend_->Lookup("model")->file);
}

TEST(ObserverRefuses, WhatIsNoDirectory) {
  EXPECT_EQ(ObserverBackend::Open("/etc/passwd", SysRoots{}).error().code, ENOTDIR);
  EXPECT_EQ(ObserverBackend::Open("/absent/dir", SysRoots{}).error().code, ENOENT);
}

}  // namespace
}  // namespace ppc
