// SPDX-License-Identifier: Apache-2.0
// Polling sees accesses of real child processes to ordinary files; a pread loader is followed
// through a made-up /proc, so that the test controls its waits.
#include <sys/mman.h>
#include <sys/syscall.h>

#include "extras/poll/tests/fixture.h"
#include "extras/poll/watched_process.h"

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
    // Only the touched pages and those of fault-around.
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
  EXPECT_TRUE(WaitFor(backend.get(), &events, EventKind::kClose));
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
  const uint64_t file = Value(backend->Lookup("a.bin")).file;
  ASSERT_TRUE(backend->Load({.file = file, .length = kFileBytes}));
  ASSERT_TRUE(backend->Attach(kAll));
  child.Go();
  child.Hear();
  std::vector<Event> events;
  EXPECT_TRUE(WaitFor(backend.get(), &events, [](const Event& event) {
    return event.kind == EventKind::kProgress && event.offset + event.length >= 4 * kMiB;
  }));
  for (const Event& event : events) {
    EXPECT_FALSE(IsMiss(event.kind));
    EXPECT_EQ(event.file, file) << "the number that the path gave";
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
    EXPECT_TRUE(event.kind != EventKind::kAccess || event.offset >= 298 * kMiB) << event.offset;
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
  EXPECT_TRUE(WaitFor(backend.get(), &events, EventKind::kOpen));
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
  EXPECT_TRUE(WaitFor(backend.get(), &events, EventKind::kOpen));
  const BackendCounters counters = Value(backend->Counters());
  EXPECT_TRUE(counters.attached);
  EXPECT_EQ(counters.events_lost, 0u);
}

class PollWatchedTest : public PollTest {
 protected:
  static constexpr int kPid = 77;

  void SetUp() override {
    PollTest::SetUp();
    tree_.Link("/proc/77/fd/5", File());
    tree_.Write("/proc/77/fdinfo/5", "pos:\t0\nflags:\t0100000\n");
    tree_.Write("/proc/77/statm", "100 10 10 1 0 10 0\n");
    tree_.Write("/proc/77/maps", "");
    Runs(1000);
  }

  void Runs(uint64_t read_bytes) {
    tree_.Write("/proc/77/task/77/syscall", "running\n");
    const std::string counts = "rchar: " + std::to_string(read_bytes) + "\nwchar: 0\n";
    tree_.Write("/proc/77/task/77/io", counts);
    tree_.Write("/proc/77/io", counts);
  }
  void Waits(uint64_t read_bytes, uint64_t offset, uint64_t length) {
    Runs(read_bytes);
    char line[160];
    std::snprintf(line, sizeof(line), "%d 0x5 0x7f00 0x%llx 0x%llx 0x0 0x0 0x7ffe 0x7f11\n",
                  static_cast<int>(SYS_pread64), static_cast<unsigned long long>(length),
                  static_cast<unsigned long long>(offset));
    tree_.Write("/proc/77/task/77/syscall", line);
  }
  // The events of a look at the process.
  std::vector<Event> Look() {
    watched_->LookAtFiles();
    watched_->LookAtUse(64);
    std::vector<Event> events(64);
    events.resize(queue_.Drain(events));
    return events;
  }
  // The events of this look only.
  void ExpectOne(EventKind kind, uint64_t offset, uint64_t length) {
    const std::vector<Event> events = Look();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].kind, kind);
    EXPECT_EQ(events[0].offset, offset);
    EXPECT_EQ(events[0].length, length);
    EXPECT_EQ(events[0].tid, kPid);
  }
  void Position(uint64_t bytes) {
    tree_.Write("/proc/77/fdinfo/5", "pos:\t" + std::to_string(bytes) + "\n");
  }

  void Watch() {
    files_ = std::make_unique<PolledFiles>(dir_);
    sink_ = std::make_unique<EventSink>(files_.get(), &queue_);
    sink_->Set({.progress = true});
    watched_ = std::make_unique<WatchedProcess>(SysRoots{.sys = "", .proc = tree_.Root()}, kPid, 1,
                                                files_.get(), sink_.get(), &next_open_id_);
  }

  EventQueue queue_{1024};
  uint32_t next_open_id_ = 0;
  std::unique_ptr<PolledFiles> files_;
  std::unique_ptr<EventSink> sink_;
  std::unique_ptr<WatchedProcess> watched_;
};

TEST_F(PollWatchedTest, FollowsPreadByWaitsAndBytes) {
  Watch();
  EXPECT_TRUE(Look().empty()) << "nothing is known of a thread that was never seen waiting";
  Waits(1000, 4 * kMiB, 2 * kMiB);
  // Its progress is unknown.
  ExpectOne(EventKind::kMissRead, 4 * kMiB, EventSink::kWindowBytes);
  EXPECT_TRUE(Look().empty()) << "the same wait is told once";
  Runs(1000 + 2 * kMiB);
  ExpectOne(EventKind::kProgress, 4 * kMiB, 2 * kMiB);
  Waits(1000 + 2 * kMiB, 20 * kMiB, kMiB);
  // A wait shows the real position, whatever was expected.
  ExpectOne(EventKind::kMissRead, 20 * kMiB, EventSink::kWindowBytes);
  Runs(1000 + 100 * kMiB);
  for (const Event& event : Look()) EXPECT_LE(event.offset + event.length, kFileBytes);
}

TEST_F(PollWatchedTest, SeekingIsNotReading) {
  Watch();
  (void)Look();
  Position(4 * kMiB);
  EXPECT_TRUE(Look().empty()) << "no read has returned so much";
  Position(8 * kMiB);
  Runs(1000 + 4 * kMiB);
  ExpectOne(EventKind::kProgress, 4 * kMiB, 4 * kMiB);
}

// A read is counted before it moves the position: a look may come in between.
TEST_F(PollWatchedTest, AReadThatIsCountedBeforeItShowsIsTold) {
  Watch();
  (void)Look();
  Runs(1000 + 4 * kMiB);
  EXPECT_TRUE(Look().empty());
  Position(4 * kMiB);
  ExpectOne(EventKind::kProgress, 0, 4 * kMiB);
  Position(8 * kMiB);
  EXPECT_TRUE(Look().empty()) << "what was counted has been told";
  Position(20 * kMiB);
  Runs(1000 + 8 * kMiB);
  EXPECT_TRUE(Look().empty()) << "it has sought and read";
  Position(21 * kMiB);
  EXPECT_TRUE(Look().empty()) << "what it read behind the seek counts no more";
}

TEST_F(PollWatchedTest, FilesOutsideAreNobodysBusiness) {
  tree_.Write("/other/b.bin", "b");
  std::filesystem::remove(tree_.Path("/proc/77/fd/5"));
  tree_.Link("/proc/77/fd/5", tree_.Path("/other/b.bin"));
  Watch();
  Waits(1000, 0, kMiB);
  EXPECT_TRUE(Look().empty());
  EXPECT_FALSE(watched_->HasFiles());
}

}  // namespace
}  // namespace ppc
