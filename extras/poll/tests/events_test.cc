// SPDX-License-Identifier: Apache-2.0
// What polling sees of real child processes, on ordinary files.
#include <sys/mman.h>

#include "extras/poll/tests/fixture.h"

namespace ppc {
namespace {

char* MapWhole(const std::string& path, uint64_t bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* const map = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (map == MAP_FAILED) _exit(1);
  return static_cast<char*>(map);
}

void Touch(const char* map, uint64_t from, uint64_t to) {
  for (uint64_t at = from; at < to; at += kPageBytes) (void)*(const volatile char*)(map + at);
}

TEST_F(PollTest, FollowsAMappedReader) {
  Child child([this](const auto& tell, const auto& wait) {
    const char* const map = MapWhole(File(), kFileBytes);
    tell();
    for (uint64_t at = 0; at < kFileBytes; at += 8 * kMiB) {
      wait();
      Touch(map, at, at + 8 * kMiB);
      tell();
    }
    wait();
  });
  child.Hear();
  const std::unique_ptr<PollBackend> backend = Open();
  ASSERT_TRUE(backend->Attach(kAll));
  std::vector<Event> events;
  for (uint64_t at = 0; at < kFileBytes; at += 8 * kMiB) {
    child.Go();
    child.Hear();
    const uint64_t end = at + 8 * kMiB;
    EXPECT_TRUE(WaitFor(backend.get(), &events, [&](const Event& event) {
      return event.kind == EventKind::kAccess && event.tgid == child.pid() &&
             event.offset + event.length >= end;
    }));
    // Not beyond what it touched and what a fault maps around.
    for (const Event& event : events) EXPECT_LE(event.offset + event.length, end + 2 * kMiB);
  }
  uint64_t accessed = 0;
  for (const Event& event : events) {
    EXPECT_EQ(event.start_ns, events.front().start_ns);
    if (event.kind != EventKind::kAccess) continue;
    EXPECT_NE(event.flags & kEventMmap, 0);
    accessed += event.length;
  }
  EXPECT_EQ(accessed, kFileBytes) << "each page once";
  EXPECT_TRUE(std::any_of(events.begin(), events.end(), [](const Event& event) {
    return event.kind == EventKind::kMissFault;
  })) << "nobody loaded it before";
  child.End();
  EXPECT_TRUE(WaitFor(backend.get(), &events,
                      [](const Event& event) { return event.kind == EventKind::kClose; }));
}

TEST_F(PollTest, LoadedPagesAreProgress) {
  Child child([this](const auto& tell, const auto& wait) {
    const char* const map = MapWhole(File(), kFileBytes);
    tell();
    wait();
    Touch(map, 0, 4 * kMiB);
    tell();
    wait();
  });
  child.Hear();
  const std::unique_ptr<PollBackend> backend = Open();
  const Result<FileInfo> file = backend->Lookup("a.bin");
  ASSERT_TRUE(file) << file.error().message;
  ASSERT_TRUE(backend->Load({.file = file->file, .length = kFileBytes}));
  ASSERT_TRUE(backend->Attach(kAll));
  child.Go();
  child.Hear();
  std::vector<Event> events;
  EXPECT_TRUE(WaitFor(backend.get(), &events, [](const Event& event) {
    return event.kind == EventKind::kProgress && event.offset + event.length >= 4 * kMiB;
  }));
  for (const Event& event : events) {
    EXPECT_FALSE(IsMiss(event.kind));
    EXPECT_EQ(event.file, file->file) << "the number that the path gave";
  }
}

TEST_F(PollTest, SeesAJumpInAMapping) {
  tree_.Write("/models/b.bin", "");
  ASSERT_EQ(truncate((dir_ + "/b.bin").c_str(), 512 * kMiB), 0);
  Child child([this](const auto& tell, const auto& wait) {
    const char* const map = MapWhole(dir_ + "/b.bin", 512 * kMiB);
    tell();
    wait();
    Touch(map, 300 * kMiB, 302 * kMiB);
    tell();
    wait();
  });
  child.Hear();
  const std::unique_ptr<PollBackend> backend = Open();
  ASSERT_TRUE(backend->Attach(kAll));
  child.Go();
  std::vector<Event> events;
  EXPECT_TRUE(WaitFor(backend.get(), &events, [](const Event& event) {
    return event.kind == EventKind::kAccess && event.offset >= 298 * kMiB;
  }));
  for (const Event& event : events) {
    if (event.kind == EventKind::kAccess) {
      EXPECT_GE(event.offset, 298 * kMiB);
    }
  }
}

TEST_F(PollTest, FollowsReadByTheDescriptorsPosition) {
  Child child([this](const auto& tell, const auto& wait) {
    const int fd = open(File().c_str(), O_RDONLY | O_CLOEXEC);
    std::vector<char> buffer(4 * kMiB);
    tell();
    for (int i = 0; i < 4; ++i) {
      wait();
      if (read(fd, buffer.data(), buffer.size()) <= 0) _exit(1);
      tell();
    }
    wait();
    close(fd);
    tell();
    wait();
  });
  child.Hear();
  const std::unique_ptr<PollBackend> backend = Open();
  ASSERT_TRUE(backend->Attach(kAll));
  std::vector<Event> events;
  EXPECT_TRUE(WaitFor(backend.get(), &events,
                      [](const Event& event) { return event.kind == EventKind::kOpen; }));
  for (uint64_t i = 1; i <= 4; ++i) {
    child.Go();
    child.Hear();
    EXPECT_TRUE(WaitFor(backend.get(), &events, [&](const Event& event) {
      return event.kind == EventKind::kProgress && event.offset + event.length == i * 4 * kMiB;
    }));
  }
  child.Go();
  child.Hear();
  EXPECT_TRUE(WaitFor(backend.get(), &events, [&](const Event& event) {
    return event.kind == EventKind::kClose && event.tgid == child.pid();
  }));
}

TEST_F(PollTest, ForgetsProcessesOnDetach) {
  Child child([this](const auto& tell, const auto& wait) {
    (void)MapWhole(File(), kFileBytes);
    tell();
    wait();
  });
  child.Hear();
  const std::unique_ptr<PollBackend> backend = Open();
  ASSERT_TRUE(backend->Attach(kAll));
  backend->Detach();
  ASSERT_TRUE(backend->Attach(kAll));
  std::vector<Event> events;
  EXPECT_TRUE(WaitFor(backend.get(), &events,
                      [](const Event& event) { return event.kind == EventKind::kOpen; }));
  const Result<BackendCounters> counters = backend->Counters();
  ASSERT_TRUE(counters);
  EXPECT_TRUE(counters->attached);
  EXPECT_EQ(counters->events_lost, 0u);
}

}  // namespace
}  // namespace ppc
