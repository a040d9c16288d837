// SPDX-License-Identifier: Apache-2.0
// Numbers, loading, dropping and counting without privileges, and the parts that read /proc.
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "daemon/machine/mount_table.h"
#include "extras/poll/proc_view.h"
#include "extras/poll/tests/fixture.h"
#include "extras/poll/watched_process.h"

namespace ppc {
namespace {

TEST_F(PollTest, NumbersNameOneFile) {
  const std::unique_ptr<PollBackend> backend = Open();
  const FileInfo first = Value(backend->Lookup("a.bin"));
  EXPECT_EQ(first.size, kFileBytes);
  ASSERT_EQ(symlink("a.bin", (dir_ + "/link").c_str()), 0);
  EXPECT_EQ(backend->Lookup("link")->file, first.file);
  ASSERT_EQ(rename(File().c_str(), (dir_ + "/moved").c_str()), 0);
  std::string path;
  EXPECT_EQ(backend->Resolve(first.file, &path).error().code, ESTALE);
  EXPECT_EQ(backend->Lookup("moved")->file, first.file) << "the same file by its new name";
  ASSERT_TRUE(backend->Resolve(first.file, &path));
  EXPECT_EQ(path, "moved");
  tree_.Write("/models/moved.new", "other");
  ASSERT_EQ(rename((dir_ + "/moved.new").c_str(), (dir_ + "/moved").c_str()), 0);
  EXPECT_EQ(backend->Resolve(first.file, &path).error().code, ESTALE);
  EXPECT_NE(backend->Lookup("moved")->file, first.file);
  EXPECT_FALSE(backend->Lookup("../outside"));
  EXPECT_FALSE(backend->Lookup(""));
}

TEST_F(PollTest, LoadsDropsAndCounts) {
  const std::unique_ptr<PollBackend> backend = Open();
  const uint64_t file = backend->Lookup("a.bin")->file;
  ASSERT_TRUE(backend->Evict({.file = file, .length = kFileBytes}));
  const LoadResult loaded = Value(backend->Load({.file = file, .length = 8 * kMiB}));
  EXPECT_EQ(loaded.done, 8 * kMiB);
  EXPECT_EQ(loaded.loaded + loaded.resident, 8 * kMiB);
  EXPECT_EQ(loaded.failed, 0u);
  const Result<LoadResult> again = backend->Load({.file = file, .length = 8 * kMiB});
  EXPECT_EQ(again->done, 8 * kMiB);
  std::vector<uint8_t> bitmap(kFileBytes / kPageBytes / 8);
  const Residency there = Value(backend->Resident(file, 0, 0, bitmap));
  EXPECT_GT(there.resident, 0u);
  EXPECT_LE(there.resident, kFileBytes);
  const EvictResult dropped = Value(backend->Evict({.file = file, .length = kFileBytes}));
  EXPECT_EQ(dropped.asked, dropped.dropped + dropped.mapped + dropped.dirty + dropped.busy);
  EXPECT_EQ(dropped.mapped, 0u);
}

TEST_F(PollTest, LoadsNothingFromRclone) {
  struct stat info {};
  ASSERT_EQ(stat(dir_.c_str(), &info), 0);
  tree_.Write("/proc/self/mountinfo", "22 1 " + std::to_string(major(info.st_dev)) + ":" +
                                          std::to_string(minor(info.st_dev)) +
                                          " / / ro - fuse.rclone remote: ro\n");
  const std::unique_ptr<PollBackend> backend = Open(SysRoots{.proc = tree_.Root()});
  const uint64_t file = backend->Lookup("a.bin")->file;
  EXPECT_EQ(Value(backend->Load({.file = file, .length = kMiB})).stop, LoadStop::kLater);
  EXPECT_EQ(std::ranges::count(backend->Caps().limits, std::string(kStreamedLimit)), 1);
}

TEST_F(PollTest, StopsWhenNobodyWantsIt) {
  const std::unique_ptr<PollBackend> backend = Open();
  const uint64_t file = backend->Lookup("a.bin")->file;
  ASSERT_TRUE(backend->Evict({.file = file, .length = kFileBytes}));
  const std::atomic<uint64_t> newest{2};
  const LoadResult loaded = Value(
      backend->Load({.file = file, .length = kFileBytes, .generation = 1, .newest = &newest}));
  // A file system in memory has nothing to load.
  if (loaded.resident < kFileBytes) {
    EXPECT_EQ(loaded.stop, LoadStop::kCancelled);
  }
  EXPECT_EQ(backend->Load({.file = file, .offset = kFileBytes, .length = 1})->stop, LoadStop::kEof);
  EXPECT_EQ(backend->Load({.file = 99, .length = 1}).error().code, ESTALE);
}

TEST_F(PollTest, MappedPagesAreCountedAsMapped) {
  Child child([this](const auto& tell, const auto& wait) {
    const int fd = open(File().c_str(), O_RDONLY | O_CLOEXEC);
    const auto* const map =
        static_cast<const char*>(mmap(nullptr, kFileBytes, PROT_READ, MAP_PRIVATE, fd, 0));
    for (uint64_t at = 0; at < 4 * kMiB; at += kPageBytes) (void)*(const volatile char*)(map + at);
    tell();
    wait();
  });
  child.Hear();
  const std::unique_ptr<PollBackend> backend = Open();
  ASSERT_TRUE(backend->Attach(kAll));
  std::vector<Event> events;
  ASSERT_TRUE(WaitFor(backend.get(), &events, EventKind::kAccess));
  const uint64_t file = backend->Lookup("a.bin")->file;
  const EvictResult result = Value(backend->Evict({.file = file, .length = 4 * kMiB}));
  EXPECT_EQ(result.mapped, 4 * kMiB);
  EXPECT_EQ(result.asked, result.dropped + result.mapped + result.dirty + result.busy);
}

TEST_F(PollTest, SaysWhatItCannotDo) {
  const std::unique_ptr<PollBackend> backend = Open();
  const Capabilities caps = backend->Caps();
  EXPECT_EQ(caps.backend, "poll");
  EXPECT_TRUE(caps.sampled);
  EXPECT_FALSE(caps.exact_counts);
  EXPECT_FALSE(caps.unmap);
  EXPECT_FALSE(caps.limits.empty());
  EXPECT_EQ(backend->Charge(-1).error().code, EOPNOTSUPP);
  EXPECT_EQ(PollBackend::Open(File(), SysRoots{}).error().code, ENOTDIR);
  EXPECT_EQ(PollBackend::Open(dir_ + "/none", SysRoots{}).error().code, ENOENT);
  ASSERT_TRUE(backend->Attach({}).ok());
  EXPECT_TRUE(backend->Counters());
  std::filesystem::rename(dir_, tree_.Path("/elsewhere"));
  while (backend->Counters()) std::this_thread::yield();  // its thread looks
}

TEST(PollIndexTest, BelievesWhatWasLoaded) {
  TempTree tree;
  tree.Write("/f", std::string(kMiB, 'f'));
  PolledFiles files(tree.Root());
  const uint64_t file = files.Lookup("f")->file;
  files.MarkPresent(file, 100, 1);
  EXPECT_EQ(files.PresentBytes(file, 0, kMiB), PolledFiles::kUnitBytes);
  files.MarkPresent(file, 0, 10 * kMiB);
  EXPECT_EQ(files.PresentBytes(file, 0, 10 * kMiB), kMiB);
  files.MarkAbsent(file, 1, PolledFiles::kUnitBytes * 2);
  EXPECT_TRUE(files.IsPresent(file, 0)) << "a part of it may be there";
  EXPECT_FALSE(files.IsPresent(file, PolledFiles::kUnitBytes));
  files.MarkAbsent(file, 0, 10 * kMiB);
  EXPECT_EQ(files.PresentBytes(file, 0, kMiB), 0u);
  EXPECT_EQ(files.PresentBytes(77, 0, kMiB), 0u);
}

TEST(PollQueueTest, CountsWhatDoesNotFit) {
  EventQueue queue(2);
  for (uint64_t i = 0; i < 5; ++i) queue.Push(Event{.offset = i});
  std::vector<Event> batch(8);
  EXPECT_EQ(queue.Drain(batch), 2u);
  queue.Push(Event{});
  EXPECT_EQ(queue.Drain(batch), 1u);
  EXPECT_NE(batch[0].flags & kEventLost, 0);
  EXPECT_EQ(queue.Count().lost, 3u);
  EXPECT_EQ(queue.Count().queued, 3u);
}

TEST(PollProcTest, ReadsWaitsAndMaps) {
  const std::string number = std::to_string(SYS_pread64);
  const std::optional<ProcRead> read =
      ParseSyscall(number + " 0x5 0x7f00 0x100000 0x200000 0x0 0x0 0x7ffe 0x7f11\n");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->fd, 5);
  EXPECT_TRUE(read->has_offset);
  EXPECT_EQ(read->offset, 0x200000u);
  EXPECT_EQ(read->length, 0x100000u);
  EXPECT_FALSE(ParseSyscall("running\n"));
  EXPECT_FALSE(ParseSyscall("-1 0x7ffe 0x7f11\n"));
  EXPECT_FALSE(ParseSyscall("999 0x1 0x2 0x3 0x4 0x0 0x0 0x7ffe 0x7f11\n"));
  const std::optional<ProcMap> map =
      ParseMap("7f00-9f00 r--p 00002000 fe:01 123                  /a dir/with space");
  ASSERT_TRUE(map);
  EXPECT_EQ(map->start, 0x7f00u);
  EXPECT_EQ(map->offset, 0x2000u);
  EXPECT_EQ(map->path, "/a dir/with space");
  EXPECT_FALSE(ParseMap("nonsense"));
}

// A pipe's reader waits as long as the test wants, in the same call as a file's reader.
TEST(PollProcTest, SeesAWaitingThread) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  Child child([&](const auto& tell, const auto&) {
    char byte;
    tell();
    (void)!read(ends[0], &byte, 1);
  });
  child.Hear();
  const ProcView view(SysRoots{}, child.pid());
  bool is_denied = false;
  std::optional<ProcRead> read;
  for (int i = 0; i < 1000 && !read && !is_denied; ++i) {
    usleep(10000);
    read = view.WaitingRead(child.pid(), &is_denied);
  }
  if (is_denied) GTEST_SKIP() << "the kernel does not show where processes wait";
  ASSERT_TRUE(read);
  EXPECT_EQ(read->fd, ends[0]);
  EXPECT_EQ(read->length, 1u);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace ppc
