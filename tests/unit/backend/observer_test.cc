// SPDX-License-Identifier: Apache-2.0
// The observer against this machine's own kernel: what other processes do to files is seen, what
// we load and drop is there and gone.  Skipped, with the reason, where the kernel refuses.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "daemon/backend/file_cache.h"
#include "daemon/backend/observer/observer_backend.h"
#include "daemon/base/clock.h"

namespace ppc {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kQuietNs = 400 * kNsPerMs;

// A directory below the build tree: /tmp may be a file system without the page cache's tracepoints.
class ObserverTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "observer-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    char real[4096];
    ASSERT_NE(realpath(name, real), nullptr);
    dir_ = real;
    Write("model", 8 * kMiB);
  }
  void TearDown() override {
    backend_.reset();
    const std::string command = "rm -rf '" + dir_ + "'";
    (void)!std::system(command.c_str());
  }
  bool Open() {
    Result<std::unique_ptr<ObserverBackend>> opened = ObserverBackend::Open(dir_, SysRoots{});
    if (opened) backend_ = std::move(*opened);
    if (!opened) why_not_ = opened.error().message;
    return opened.ok();
  }
  std::string Path(const std::string& name) const { return dir_ + "/" + name; }
  void Write(const std::string& name, uint64_t bytes) const {
    const UniqueFd fd(open(Path(name).c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644));
    std::vector<char> block(kMiB);
    for (size_t i = 0; i < block.size(); ++i) block[i] = static_cast<char>(i * 31 / 7);
    for (uint64_t at = 0; at < bytes; at += block.size()) {
      ASSERT_EQ(write(fd.Get(), block.data(), block.size()), static_cast<ssize_t>(block.size()));
    }
    fsync(fd.Get());
    Drop(name);
  }
  void Drop(const std::string& name) const {
    const UniqueFd fd(open(Path(name).c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(posix_fadvise(fd.Get(), 0, 0, POSIX_FADV_DONTNEED), 0);
  }
  uint64_t Cached(const std::string& name) const {
    const UniqueFd fd(open(Path(name).c_str(), O_RDONLY | O_CLOEXEC));
    const Result<uint64_t> bytes = CachedBytes(fd.Get(), 0, 0);
    return bytes ? *bytes : ~0ull;
  }
  // In another process, whose accesses are not ours.
  pid_t Fork(const std::function<void()>& work) const {
    const pid_t pid = fork();
    if (pid == 0) {
      work();
      _exit(0);
    }
    return pid;
  }
  void InChild(const std::function<void()>& work) const {
    int status = 0;
    waitpid(Fork(work), &status, 0);
    EXPECT_EQ(status, 0);
  }
  void ReadAll(const std::string& name, size_t piece) const {
    const int fd = open(Path(name).c_str(), O_RDONLY);
    std::vector<char> buffer(piece);
    while (read(fd, buffer.data(), piece) > 0) {
    }
    close(fd);
  }
  void TouchAll(const std::string& name, int extra_flags = 0) const {
    const int fd = open(Path(name).c_str(), O_RDONLY);
    struct stat info {};
    fstat(fd, &info);
    const auto bytes = static_cast<size_t>(info.st_size);
    const auto* at = static_cast<volatile char*>(
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | extra_flags, fd, 0));
    for (size_t i = 0; i < bytes; i += 4096) (void)at[i];
    close(fd);
  }
  // Everything that comes until nothing comes for longer than accesses are gathered.
  std::vector<Event> Events() {
    std::vector<Event> all;
    std::vector<Event> batch(512);
    uint64_t until = MonotonicNs() + kQuietNs;
    while (MonotonicNs() < until) {
      const size_t got = backend_->Drain(batch);
      all.insert(all.end(), batch.begin(), batch.begin() + static_cast<long>(got));
      if (got > 0) until = MonotonicNs() + kQuietNs;
      if (got == 0) (void)backend_->Wait(20 * kNsPerMs, false, {});
    }
    return all;
  }
  static uint64_t Bytes(const std::vector<Event>& events,
                        const std::function<bool(const Event&)>& is) {
    std::vector<bool> pages(1 << 20);
    for (const Event& event : events) {
      if (!is(event)) continue;
      for (uint64_t at = event.offset; at < event.offset + event.length; at += kPageBytes) {
        pages[at / kPageBytes] = true;
      }
    }
    return static_cast<uint64_t>(std::count(pages.begin(), pages.end(), true)) * kPageBytes;
  }

  std::string dir_;
  std::string why_not_;
  std::unique_ptr<ObserverBackend> backend_;
};

bool IsMissEvent(const Event& event) { return IsMiss(event.kind); }
bool IsAccess(const Event& event) { return event.kind == EventKind::kAccess; }
bool IsProgress(const Event& event) { return event.kind == EventKind::kProgress; }

TEST_F(ObserverTest, AColdReadIsAllMissed) {
  if (!Open()) GTEST_SKIP() << why_not_;
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
  if (!Open()) GTEST_SKIP() << why_not_;
  InChild([&] { ReadAll("model", kMiB); });
  ASSERT_TRUE(backend_->Attach({.progress = true, .beacon_bytes = kMiB}));
  InChild([&] { ReadAll("model", 64 << 10); });
  const std::vector<Event> events = Events();
  EXPECT_EQ(Bytes(events, IsMissEvent), 0u);
  const auto positions = std::count_if(events.begin(), events.end(), IsProgress);
  EXPECT_GE(positions, 8);
  EXPECT_LE(positions, 24);
  const Result<BackendCounters> counters = backend_->Counters();
  ASSERT_TRUE(counters);
  EXPECT_EQ(counters->events_lost, 0u);
  EXPECT_GT(counters->events_coalesced, 50u);
}

TEST_F(ObserverTest, ATraceOfAMappingCoversIt) {
  if (!Open()) GTEST_SKIP() << why_not_;
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  InChild([&] { TouchAll("model"); });
  const std::vector<Event> events = Events();
  EXPECT_EQ(Bytes(events, IsAccess), 8 * kMiB);
  for (const Event& event : events) {
    if (!IsAccess(event)) continue;
    EXPECT_EQ(event.flags & (kEventNotUser | kEventMmap), kEventMmap);
  }
}

TEST_F(ObserverTest, PopulatingIsNoUse) {
  if (!Open()) GTEST_SKIP() << why_not_;
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
  if (!Open()) GTEST_SKIP() << why_not_;
  ASSERT_TRUE(backend_->Attach({.progress = true, .trace = true}));
  backend_->Detach();
  InChild([&] { ReadAll("model", kMiB); });
  EXPECT_TRUE(Events().empty());
}

TEST_F(ObserverTest, OurOwnLoadIsNoEvent) {
  if (!Open()) GTEST_SKIP() << why_not_;
  ASSERT_TRUE(backend_->Attach({.progress = true, .trace = true}));
  const Result<FileInfo> file = backend_->Lookup("model");
  ASSERT_TRUE(file) << file.error().message;
  const Result<LoadResult> loaded = backend_->Load({.file = file->file, .length = 2 * kMiB});
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->loaded, 2 * kMiB);
  EXPECT_EQ(loaded->stop, LoadStop::kDone);
  EXPECT_EQ(Cached("model"), 2 * kMiB);
  const Result<LoadResult> again = backend_->Load({.file = file->file, .length = 2 * kMiB});
  ASSERT_TRUE(again);
  // A machine may reclaim idle pages by itself (DAMON), a few at a time.
  EXPECT_LE(again->loaded, 256u << 10);
  EXPECT_EQ(again->loaded + again->resident, 2 * kMiB);
  EXPECT_TRUE(Events().empty());
  const Result<LoadResult> end =
      backend_->Load({.file = file->file, .offset = 7 * kMiB, .length = 2 * kMiB});
  ASSERT_TRUE(end);
  EXPECT_EQ(end->stop, LoadStop::kEof);
  EXPECT_EQ(end->done, kMiB);
}

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

// What comes later to a place that we have emptied is somebody else's.
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
  const Result<EvictResult> evicted = backend_->Evict({.file = file->file, .length = 8 * kMiB});
  ASSERT_TRUE(evicted);
  EXPECT_EQ(evicted->dropped, 0u);
  EXPECT_EQ(Cached("model"), warm);
}

// A process that has a file of the folder open with O_DIRECT ends the loads there; they begin again
// when somebody reads through the cache.
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
    for (int i = 0; i < 200 && load() != wanted; ++i) usleep(20000);
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
  InChild([&] { ReadAll("other", kMiB); });
  (void)Events();
  EXPECT_TRUE(becomes(LoadStop::kDone));
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
  EXPECT_EQ(gone->dropped, 4 * kMiB);
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
  // The first reads are of a file that nobody knows; they make it known.
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

TEST_F(ObserverTest, ADirectoryThatGoesIsNoticed) {
  if (!Open()) GTEST_SKIP() << why_not_;
  ASSERT_TRUE(backend_->Attach({}));
  const std::string away = dir_ + "-away";
  ASSERT_EQ(rename(dir_.c_str(), away.c_str()), 0);
  WaitOutcome outcome = WaitOutcome::kTimeout;
  std::vector<Event> batch(64);
  for (int i = 0; i < 100 && outcome != WaitOutcome::kGone; ++i) {
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
