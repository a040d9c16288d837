// SPDX-License-Identifier: Apache-2.0
// What the observer loads and drops is there and gone; names lead where they should.
#include "daemon/backend/observer/observer_io.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "daemon/backend/file_cache.h"
#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/mount_table.h"
#include "tests/unit/backend/observer_fixture.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

TEST_F(ObserverTest, AnInterruptedLoadStops) {
  const Result<FileInfo> file = backend_->Lookup("model");
  const std::atomic<uint64_t> newest{2};
  const LoadResult loaded = Value(
      backend_->Load({.file = file->file, .length = 2 * kMiB, .generation = 1, .newest = &newest}));
  EXPECT_EQ(loaded.stop, LoadStop::kCancelled);
  EXPECT_EQ(Cached("model"), 0u);
}

// A directory that the mount table says lies on a file system of this type.
class ObserverMountTest : public ClosedObserverTest {
 protected:
  bool OpenOn(const std::string& type) {
    struct stat info {};
    EXPECT_EQ(stat(dir_.c_str(), &info), 0);
    tree_.Write("/proc/self/mountinfo", "22 1 " + std::to_string(major(info.st_dev)) + ":" +
                                            std::to_string(minor(info.st_dev)) + " / / ro - " +
                                            type + " remote: ro\n");
    backend_.reset();
    return Open(SysRoots{.proc = tree_.Root()});
  }
  // Descriptors of this process that are the file.
  int Opens(const std::string& name) const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;
      count += std::filesystem::read_symlink(entry.path(), gone) == Path(name);
    }
    return count;
  }

  TempTree tree_;
};

TEST_F(ObserverMountTest, NothingIsLoadedFromRclone) {
  for (const std::string type : {"fuse.other", "fuse.rclone"}) {
    const bool is_rclone = type == "fuse.rclone";
    if (!OpenOn(type)) GTEST_SKIP() << why_not_;
    const Result<FileInfo> file = backend_->Lookup("model");
    const LoadResult loaded = Value(backend_->Load({.file = file->file, .length = 2 * kMiB}));
    EXPECT_EQ(loaded.stop == LoadStop::kLater, is_rclone);
    EXPECT_EQ(Cached("model"), is_rclone ? 0 : 2 * kMiB);
    const std::vector<std::string> limits = backend_->Caps().limits;
    EXPECT_EQ(std::ranges::count(limits, std::string(kStreamedLimit)), is_rclone ? 1 : 0);
    backend_.reset();
    Drop("model");
  }
}

// Each open of a FUSE file may cost its server a download.
TEST_F(ObserverMountTest, AFuseFileThatWasReadStaysOpen) {
  std::vector<uint8_t> buffer(64 << 10);
  for (const std::string type : {"ext4", "fuse.s3fs"}) {
    if (!OpenOn(type)) GTEST_SKIP() << why_not_;
    for (int i = 0; i < 2; ++i) EXPECT_EQ(Value(backend_->Read("model", 0, buffer)), buffer.size());
    EXPECT_EQ(Opens("model"), type == "ext4" ? 0 : 1);
    EXPECT_EQ(backend_->Caps().most_loads, type == "ext4" ? 16 : 2);
    EXPECT_EQ(buffer[100], static_cast<uint8_t>(100 * 31 / 7));
  }
}

TEST_F(ObserverTest, AStrangersPagesStay) {
  InChild([&] { ReadAll("model", kMiB); });
  const uint64_t warm = Cached("model");
  ASSERT_GT(warm, 0u);
  ASSERT_TRUE(backend_->Attach({}));
  const Result<FileInfo> file = backend_->Lookup("model");
  const EvictResult evicted =
      Value(backend_->Evict({.file = file->file, .length = 8 * kMiB, .unmap = true}));
  EXPECT_EQ(evicted.dropped, 0u);
  EXPECT_EQ(evicted.asked, warm);
  EXPECT_EQ(Cached("model"), warm);
}

TEST_F(ObserverTest, UnmappedPagesOfOursGo) {
  const Result<FileInfo> file = backend_->Lookup("model");
  for (uint64_t at = 0; at < 8 * kMiB; at += 2 * kMiB) {
    ASSERT_TRUE(backend_->Load({.file = file->file, .offset = at, .length = 2 * kMiB}));
  }
  const EvictResult evicted = Value(backend_->Evict({.file = file->file, .length = 4 * kMiB}));
  EXPECT_EQ(evicted.asked, 4 * kMiB);
  EXPECT_EQ(evicted.dropped, 4 * kMiB);
  EXPECT_EQ(Cached("model"), 4 * kMiB);
}

// Pages that come later to a place that we have emptied belong to another.
TEST_F(ObserverTest, DroppedPagesAreOursNoLonger) {
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
  EXPECT_EQ(Value(backend_->Evict({.file = file->file, .length = 8 * kMiB})).dropped, 0u);
  EXPECT_EQ(Cached("model"), warm);
}

// Each begin of it, and all bytes; no read through the page cache.
TEST_F(ObserverTest, ReadsWithODirectAreToldAndCounted) {
  for (const std::string& limit : backend_->Caps().limits)
    if (Has(limit, "does not tell who reads with O_DIRECT")) GTEST_SKIP() << limit;
  const auto read_past = [this](Companion& self) {
    const int fd = open(Path("model").c_str(), O_RDONLY | O_DIRECT);
    self.Wait(fd >= 0 ? 'y' : 'n');
    void* const block = std::aligned_alloc(kPageBytes, kMiB);
    for (off_t at : {0 * kMiB, 4 * kMiB}) (void)!pread(fd, block, kMiB, at);
  };
  ASSERT_TRUE(backend_->Attach({.progress = true, .open_close = true, .beacon_bytes = kMiB}));
  Companion reader(read_past);
  const bool can = reader.said == 'y';
  reader.End();
  if (!can) GTEST_SKIP() << "no O_DIRECT on this file system";
  std::vector<Event> events = Events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, EventKind::kOpen);
  EXPECT_EQ(events[0].flags, kEventDirect);
  EXPECT_EQ(events[0].tgid, reader.pid);
  EXPECT_EQ(backend_->Counters()->bypassed_bytes, 2 * kMiB);
  EXPECT_TRUE(Has(backend_->Caps().limits.back(), "2 MiB were read with O_DIRECT"));
  InChild([&] { ReadAll("model", kMiB); });
  events = Events();
  EXPECT_EQ(std::ranges::count(events, EventKind::kOpen, &Event::kind), 0);
  EXPECT_EQ(backend_->Counters()->bypassed_bytes, 2 * kMiB);
  // No policy wants to know.
  ASSERT_TRUE(backend_->Attach({}));
  Companion unseen(read_past);
  unseen.End();
  EXPECT_TRUE(Events().empty());
}

TEST_F(ObserverTest, AnIdleFileIsClosed) {
  const Result<std::unique_ptr<ObserverPrograms>> programs = ObserverPrograms::Load(SysRoots{});
  if (!programs) GTEST_SKIP() << programs.error().message;
  ObserverFiles index(dir_, programs->get(), {});
  ASSERT_TRUE(index.Scan(MonotonicNs() + 10 * kNsPerSec));
  ObserverIo io(dir_, SysRoots{}, {.index = &index, .programs = programs->get()});
  const auto open_files = [this] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::ranges::count_if(all, [this](const auto& fd) {
      std::error_code ignored;
      return std::filesystem::read_symlink(fd, ignored) == Path("model");
    });
  };
  const uint64_t file = index.Lookup("model")->file;
  ASSERT_TRUE(io.Load({.file = file, .length = kMiB}));
  const uint64_t before = MonotonicNs();
  EXPECT_LE(io.RunPeriodic(before), 200 * kNsPerMs) << "it is to be closed";
  EXPECT_EQ(open_files(), 1);
  // The guard samples what was loaded for no service for as long as nobody reads it.
  EXPECT_EQ(Value(io.SampleCache(file, 0, kMiB, false)), kMiB);
  EXPECT_GT(io.RunPeriodic(before + 500 * kNsPerMs), 0u);
  EXPECT_EQ(open_files(), 0);
  const UniqueFd root(open(dir_.c_str(), O_PATH));
  const Result<uint64_t> cached = io.SampleCache(file, 0, kMiB, false);
  EXPECT_EQ(cached ? 0 : cached.error().code, AsksServer(root.Get()) ? EAGAIN : 0);
  EXPECT_EQ(open_files(), 0);
  // A service may need it.
  ASSERT_TRUE(io.SampleCache(file, 0, kMiB, true) || AsksServer(root.Get()));
  EXPECT_EQ(open_files(), AsksServer(root.Get()) ? 0 : 1);
}

// One process maps: its pages go although it goes on; two: they stay, and it is said.
TEST_F(ObserverTest, MappedPagesAreEvictedInSteps) {
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  const auto hold = [&](Companion& self) {
    TouchAll("model");
    self.Wait();
  };
  Companion first(hold);
  (void)Events();
  const Result<FileInfo> file = backend_->Lookup("model");
  const EvictRequest request{.file = file->file, .length = 4 * kMiB, .unmap = true};
  const EvictResult gone = Value(backend_->Evict(request));
  EXPECT_EQ(gone.asked, 4 * kMiB);
  EXPECT_EQ(gone.mapped, 0u);
  // A page that the kernel holds for a moment (in another CPU's batch, isolated) is told as busy.
  uint64_t dropped = gone.dropped;
  EXPECT_EQ(Cached("model"), 8 * kMiB - dropped);
  for (int i = 0; i < 20 && dropped < 4 * kMiB; ++i) {
    usleep(100'000);
    const EvictResult again = Value(backend_->Evict(request));
    EXPECT_EQ(again.asked, 4 * kMiB - dropped);
    dropped += again.dropped;
  }
  EXPECT_EQ(dropped, 4 * kMiB);
  EXPECT_EQ(Cached("model"), 4 * kMiB);
  Companion second(hold);
  (void)Events();
  EvictRequest upper = request;
  upper.offset = 4 * kMiB;
  const EvictResult kept = Value(backend_->Evict(upper));
  EXPECT_EQ(kept.dropped, 0u);
  EXPECT_EQ(kept.mapped, 4 * kMiB);
  first.End();
  second.End();
}

// A loader that has read a shard maps the next one in the place of the one before.
TEST_F(ClosedObserverTest, WhatIsMappedWhereAFileWasIsLeftAlone) {
  // Before it is opened: of a file that is not listed yet no access is told.
  Write("next", 8 * kMiB);
  Write("seen", kMiB);
  if (!Open()) GTEST_SKIP() << why_not_;
  const Result<FileInfo> file = backend_->Lookup("model");
  ASSERT_TRUE(backend_->Load({.file = file->file, .length = 8 * kMiB}));
  // Keeps the file mapped, and is not seen.
  Companion other([&](Companion& self) {
    TouchAll("model");
    self.Wait();
  });
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  Companion loader([&](Companion& self) {
    TouchAll("seen");
    const int fd = open(Path("model").c_str(), O_RDONLY);
    const int next = open(Path("next").c_str(), O_RDONLY);
    void* const place = mmap(nullptr, 8 * kMiB, PROT_READ, MAP_SHARED, fd, 0);
    self.Wait();
    const auto* const at = static_cast<volatile char*>(
        mmap(place, 8 * kMiB, PROT_READ, MAP_SHARED | MAP_FIXED, next, 0));
    for (uint64_t i = 0; i < 8 * kMiB; i += kPageBytes) (void)at[i];
    self.Wait();
  });
  (void)Events();
  const EvictRequest request{.file = file->file, .length = 8 * kMiB, .unmap = true};
  EXPECT_EQ(backend_->Evict(request)->mapped, 8 * kMiB);
  loader.Go();
  loader.Await();
  EXPECT_EQ(backend_->Evict(request)->dropped, 0u);
  EXPECT_EQ(Cached("next"), 8 * kMiB);
  loader.End();
  other.End();
}

// A torn-off page of a private mapping is memory: it is neither lost nor swapped out.
TEST_F(ObserverTest, WrittenPagesOfAPrivateMappingStay) {
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  Companion writer([&](Companion& self) {
    const int fd = open(Path("model").c_str(), O_RDONLY);
    auto* at = static_cast<volatile char*>(
        mmap(nullptr, 8 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    for (size_t i = 0; i < 8 * kMiB; i += 4096) (void)at[i];
    at[kMiB] = 77;
    self.Wait();
    if (at[kMiB] != 77) _exit(1);
  });
  (void)Events();
  const Result<FileInfo> file = backend_->Lookup("model");
  const EvictResult gone =
      Value(backend_->Evict({.file = file->file, .length = 8 * kMiB, .unmap = true}));
  EXPECT_GE(gone.dropped, 7 * kMiB);
  writer.End();
}

TEST_F(ObserverTest, AFileThatAppearsLaterIsFound) {
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
  const FileInfo before = Value(backend_->Lookup("model"));
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  ASSERT_EQ(rename(Path("model").c_str(), Path("renamed").c_str()), 0);
  Write("new", 4 * kMiB);
  // That the directory was looked at meanwhile, its new file shows.
  for (int i = 0; i < 50 && Bytes(Events(), IsAccess) == 0; ++i) {
    Drop("new");
    InChild([&] { ReadAll("new", 64 << 10); });
  }
  std::string path;
  ASSERT_TRUE(backend_->Resolve(before.file, &path));
  EXPECT_EQ(path, "renamed");
  EXPECT_TRUE(backend_->Load({.file = before.file, .length = kMiB}));
}

TEST_F(ObserverTest, AReplacedFileIsAnother) {
  const FileInfo before = Value(backend_->Lookup("model"));
  Write("other", 2 * kMiB);
  ASSERT_EQ(rename(Path("other").c_str(), Path("model").c_str()), 0);
  EXPECT_EQ(backend_->Load({.file = before.file, .length = kMiB}).error().code, ESTALE);
  const FileInfo after = Value(backend_->Lookup("model"));
  EXPECT_NE(after.file, before.file);
  EXPECT_EQ(after.size, 2 * kMiB);
  EXPECT_EQ(backend_->Resolve(before.file, nullptr).error().code, ESTALE);
}

// The number of an inode, and often its place in memory, is used again; its generation is not.
TEST_F(ObserverTest, AnInodeUsedAgainIsAnotherFile) {
  const FileInfo before = Value(backend_->Lookup("model"));
  ASSERT_TRUE(backend_->Attach({.trace = true}));
  if (!UseInodeAgain(4 * kMiB)) GTEST_SKIP() << "this file system uses no inode's number again";
  std::vector<Event> events;
  for (int i = 0; i < 50 && Bytes(events, IsAccess) < 4 * kMiB; ++i) {
    Drop("again");
    InChild([&] { ReadAll("again", 64 << 10); });
    events = Events();
    for (const Event& event : events) EXPECT_NE(event.file, before.file);
  }
  EXPECT_EQ(Bytes(events, IsAccess), 4 * kMiB);
  std::string path;
  ASSERT_TRUE(backend_->Resolve(events.back().file, &path));
  EXPECT_EQ(path, "again");
  ExpectError(backend_->Resolve(before.file, nullptr), ESTALE);
}

TEST_F(ObserverTest, ADirectoryThatGoesIsNoticed) {
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
  ASSERT_EQ(symlink("/etc/passwd", Path("out").c_str()), 0);
  ASSERT_EQ(symlink("model", Path("alias").c_str()), 0);
  EXPECT_FALSE(backend_->Lookup("out"));
  EXPECT_FALSE(backend_->Lookup("../" + dir_.substr(dir_.rfind('/') + 1) + "/model"));
  EXPECT_EQ(Value(backend_->Lookup("alias")).file, backend_->Lookup("model")->file);
}

TEST(ObserverRefuses, WhatIsNoDirectory) {
  EXPECT_EQ(ObserverBackend::Open("/etc/passwd", SysRoots{}).error().code, ENOTDIR);
  EXPECT_EQ(ObserverBackend::Open("/absent/dir", SysRoots{}).error().code, ENOENT);
}

}  // namespace
}  // namespace ppc
