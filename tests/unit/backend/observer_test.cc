// SPDX-License-Identifier: Apache-2.0
// What other processes do to files is seen.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "daemon/base/files.h"
#include "tests/unit/backend/observer_fixture.h"
#include "tests/unit/has.h"

namespace ppc {
namespace {

TEST_F(ObserverTest, AColdReadIsAllMissed) {
  ASSERT_TRUE(backend_->Attach({}));
  InChild([&] { ReadAll("model", 64 << 10); });
  const std::vector<Event> events = Events();
  EXPECT_EQ(Bytes(events, IsMissEvent), 8 * kMiB);
  EXPECT_EQ(Bytes(events, IsProgress), 0u);
  std::string path;
  ASSERT_FALSE(events.empty());
  ASSERT_TRUE(backend_->Resolve(events[0].file, &path));
  EXPECT_EQ(path, "model");
  EXPECT_GT(events[0].start_ns, 0u);
  for (const Event& event : events) {
    EXPECT_TRUE(IsMiss(event.kind));
    EXPECT_NE(event.flags & kEventNotUser, 0);
  }
}

TEST_F(ObserverTest, AWarmReadIsPositionsAndNoMisses) {
  InChild([&] { ReadAll("model", kMiB); });
  ASSERT_TRUE(backend_->Attach({.progress = true, .beacon_bytes = kMiB}));
  InChild([&] { ReadAll("model", 64 << 10); });
  const std::vector<Event> events = Events();
  EXPECT_EQ(Bytes(events, IsMissEvent), 0u);
  const auto positions = std::count_if(events.begin(), events.end(), IsProgress);
  EXPECT_GE(positions, 8);
  EXPECT_LE(positions, 24);
  const BackendCounters counters = Value(backend_->Counters());
  EXPECT_EQ(counters.events_lost, 0u);
  EXPECT_GT(counters.events_coalesced, 50u);
}

// By the same thread: a file that lies within one beacon has no other place to be told of.
TEST_F(ObserverTest, AFileThatIsReadOnceMoreIsToldOfOnceMore) {
  InChild([&] { ReadAll("model", 8 * kMiB); });
  ASSERT_TRUE(backend_->Attach({.progress = true, .beacon_bytes = 64 * kMiB}));
  const auto read_again = [&] {
    InChild([&] {
      for (int i = 0; i < 3; ++i) {
        for (int piece = 0; piece < 2; ++piece) ReadAll("model", 64 << 10);
        usleep(50'000);
      }
    });
    return Events();
  };
  std::vector<Event> events = read_again();
  // A kernel that drops what seems idle may have done so just before.
  for (int i = 0; i < 3 && Bytes(events, IsMissEvent) != 0; ++i) events = read_again();
  const auto positions = std::count_if(events.begin(), events.end(), IsProgress);
  EXPECT_GE(positions, 3);
  EXPECT_EQ(Bytes(events, IsMissEvent), 0u);
  EXPECT_TRUE(std::all_of(events.begin(), events.end(), [](const Event& event) {
    return !IsProgress(event) || event.offset == 0;
  }));
}

TEST_F(ObserverTest, ATraceOfAMappingCoversIt) {
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  InChild([&] { TouchAll("model"); });
  const std::vector<Event> events = Events();
  EXPECT_EQ(Bytes(events, IsAccess), 8 * kMiB);
  for (const Event& event : events) {
    if (!IsAccess(event)) continue;
    EXPECT_EQ(event.flags & (kEventNotUser | kEventMmap), kEventMmap);
  }
}

// What is read ahead for who reads on lies in larger and larger folios.
TEST_F(ObserverTest, ATraceOfAMappingOfLargeFoliosCoversIt) {
  InChild([&] { ReadAll("model", 128 << 10); });
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  InChild([&] { TouchAll("model"); });
  EXPECT_EQ(Bytes(Events(), IsAccess), 8 * kMiB);
}

// Beyond what the page cache has, its tree leads to other pages' entries.
TEST_F(ObserverTest, APageThatIsMissedFarBehindSaysNothingOfOthers) {
  const UniqueFd fd(open(Path("model").c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<char> head(64 << 10);
  ASSERT_EQ(pread(fd.Get(), head.data(), head.size(), 0), static_cast<ssize_t>(head.size()));
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  InChild([&] {
    const void* const at = mmap(nullptr, 8 * kMiB, PROT_READ, MAP_PRIVATE, fd.Get(), 0);
    (void)static_cast<const volatile char*>(at)[5 * kMiB + 4096];
  });
  const std::vector<Event> events = Events();
  EXPECT_GT(Bytes(events, IsAccess), 0u);
  EXPECT_LE(Bytes(events, IsAccess), kMiB);
}

// What is written at once lies in large folios, and is mapped by huge pages where they are as
// large.
TEST_F(ClosedObserverTest, ATraceOfAMappingByHugePagesCoversIt) {
  const std::string all(8 * kMiB, 'x');
  const UniqueFd fd(open(Path("model").c_str(), O_TRUNC | O_WRONLY | O_CLOEXEC));
  ASSERT_EQ(write(fd.Get(), all.data(), all.size()), static_cast<ssize_t>(all.size()));
  ASSERT_EQ(fsync(fd.Get()), 0);
  if (!Open()) GTEST_SKIP() << why_not_;
  if (backend_->Caps().misses_huge) GTEST_SKIP() << "this kernel allows no fentry";
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  int status = 0;
  waitpid(StartChild([&] {
            TouchAll("model");
            const Result<std::string> maps = ReadFile("/proc/self/smaps", 1 << 20);
            const std::regex huge("FilePmdMapped: +[1-9]");
            if (!maps || !std::regex_search(*maps, huge)) _exit(3);
          }),
          &status, 0);
  EXPECT_EQ(Bytes(Events(), IsAccess), 8 * kMiB);
  if (WEXITSTATUS(status) == 3) GTEST_SKIP() << "no huge pages of files here";
}

TEST_F(ObserverTest, WhatIsGatheredIsToldWhenAskedFor) {
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  InChild([&] { ReadAll("model", 64 << 10); });
  backend_->Gather();
  std::vector<Event> told;
  std::vector<Event> batch(512);
  while (const size_t got = backend_->Drain(batch)) {
    told.insert(told.end(), batch.begin(), batch.begin() + static_cast<long>(got));
  }
  EXPECT_EQ(Bytes(told, IsAccess), 8 * kMiB);
}

TEST_F(ObserverTest, AReadBeyondTheEndIsToldUpToTheEnd) {
  Write("small", kMiB);
  ASSERT_EQ(truncate(Path("small").c_str(), 5000), 0);
  InChild([&] { ReadAll("small", kMiB); });
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  InChild([&] { ReadAll("small", 64 * kMiB); });
  for (const Event& event : Events()) {
    EXPECT_TRUE(!IsAccess(event) || event.offset + event.length <= 2 * kPageBytes);
  }
}

TEST_F(ObserverTest, AReaderThatGoesOnWhileItIsAskedForLosesNothing) {
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  const pid_t reader = StartChild([&] { ReadAll("model", 4096); });
  std::vector<Event> told;
  std::vector<Event> batch(512);
  int status = 0;
  while (waitpid(reader, &status, WNOHANG) == 0) {
    backend_->Gather();
    const size_t got = backend_->Drain(batch);
    told.insert(told.end(), batch.begin(), batch.begin() + static_cast<long>(got));
  }
  const std::vector<Event> rest = Events();
  told.insert(told.end(), rest.begin(), rest.end());
  EXPECT_EQ(Bytes(told, IsAccess), 8 * kMiB);
}

TEST_F(ObserverTest, AnAccessKeepsItsTimeWhateverIsInsertedAfterIt) {
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  void* const shared =
      mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const read_ns = static_cast<volatile uint64_t*>(shared);
  InChild([&] {
    const int fd = open(Path("model").c_str(), O_RDONLY);
    char byte = 0;
    (void)!pread(fd, &byte, 1, 0);
    *read_ns = MonotonicNs();
    usleep(20'000);
    posix_fadvise(fd, 4 * kMiB, kMiB, POSIX_FADV_WILLNEED);
  });
  const std::vector<Event> events = Events();
  const auto access = std::find_if(events.begin(), events.end(), IsAccess);
  ASSERT_NE(access, events.end());
  EXPECT_LE(access->time_ns, *read_ns);
  EXPECT_EQ(std::count_if(events.begin(), events.end(), IsAccess), 1);
  munmap(shared, kPageBytes);
}

TEST_F(ObserverTest, PopulatingIsNoUse) {
  for (const std::string& limit : backend_->Caps().limits) {
    if (limit.find("populated pages") != std::string::npos) GTEST_SKIP() << limit;
  }
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  InChild([&] {
    const int fd = open(Path("model").c_str(), O_RDONLY);
    mmap(nullptr, 8 * kMiB, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
  });
  const std::vector<Event> events = Events();
  EXPECT_GT(Bytes(events, IsAccess), 0u);
  for (const Event& event : events) {
    if (!IsAccess(event)) continue;
    EXPECT_NE(event.flags & kEventNotUser, 0);
  }
}

TEST_F(ObserverTest, NothingIsToldWhenNotAttached) {
  ASSERT_TRUE(backend_->Attach({.progress = true, .trace = true}));
  backend_->Detach();
  InChild([&] { ReadAll("model", kMiB); });
  EXPECT_TRUE(Events().empty());
}

TEST_F(ObserverTest, OurOwnLoadIsNoEvent) {
  ASSERT_TRUE(backend_->Attach({.progress = true, .trace = true}));
  const Result<FileInfo> file = backend_->Lookup("model");
  ASSERT_TRUE(file) << file.error().message;
  const LoadResult loaded = Value(backend_->Load({.file = file->file, .length = 2 * kMiB}));
  EXPECT_EQ(loaded.loaded, 2 * kMiB);
  EXPECT_EQ(loaded.stop, LoadStop::kDone);
  EXPECT_EQ(Cached("model"), 2 * kMiB);
  const LoadResult again = Value(backend_->Load({.file = file->file, .length = 2 * kMiB}));
  // A kernel may reclaim idle pages by itself, a few at a time.
  EXPECT_LE(again.loaded, 256u << 10);
  EXPECT_EQ(again.loaded + again.resident, 2 * kMiB);
  EXPECT_TRUE(Events().empty());
  const LoadResult end =
      Value(backend_->Load({.file = file->file, .offset = 7 * kMiB, .length = 2 * kMiB}));
  EXPECT_EQ(end.stop, LoadStop::kEof);
  EXPECT_EQ(end.done, kMiB);
}

// A look at each takes longer than a part: what is not listed must come first.
TEST_F(ClosedObserverTest, ManyDirectoriesAreListedInPartsHoweverShort) {
  Result<std::unique_ptr<ObserverPrograms>> programs = ObserverPrograms::Load(SysRoots{});
  if (!programs) GTEST_SKIP() << programs.error().message;
  constexpr size_t kDirectories = 400;
  for (size_t i = 0; i < kDirectories; ++i) {
    const std::string name = "d" + std::to_string(i);
    std::filesystem::create_directory(Path(name));
    std::filesystem::copy_file("/proc/self/comm", Path(name + "/file"));
  }
  ObserverFiles index(dir_, programs->get(), {});
  bool is_done = false;
  for (int part = 0; !is_done && part < 4000; ++part) {
    is_done = Value(index.Rescan(MonotonicNs() + kNsPerMs / 5));
  }
  EXPECT_TRUE(is_done);
  EXPECT_EQ(index.Files(), kDirectories + 1);
  // And what comes later is found.
  std::filesystem::copy_file("/proc/self/comm", Path("d7/later"));
  EXPECT_TRUE(Value(index.Rescan(MonotonicNs() + 60 * kNsPerSec)));
  EXPECT_EQ(index.Files(), kDirectories + 2);
}

// No process has read either: only the look at the directory can tell that it is another file.
TEST_F(ClosedObserverTest, ALookTellsAFileFromTheOneThatHadItsInode) {
  Result<std::unique_ptr<ObserverPrograms>> programs = ObserverPrograms::Load(SysRoots{});
  if (!programs) GTEST_SKIP() << programs.error().message;
  ObserverFiles index(dir_, programs->get(), {});
  ASSERT_TRUE(index.Rescan(MonotonicNs() + 60 * kNsPerSec));
  const FileInfo before = Value(index.Lookup("model"));
  if (!UseInodeAgain(kMiB)) GTEST_SKIP() << "this file system uses no inode's number again";
  ASSERT_TRUE(index.Rescan(MonotonicNs() + 60 * kNsPerSec));
  EXPECT_NE(Value(index.Lookup("again")).file, before.file);
  EXPECT_FALSE(index.Resolve(before.file, nullptr));
}

}  // namespace
}  // namespace ppc
