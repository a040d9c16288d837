// SPDX-License-Identifier: Apache-2.0
// A pread loader followed through a /proc of the test's own, so that when it waits is ours to say.
#include "extras/poll/watched.h"

#include <sys/syscall.h>

#include "extras/poll/tests/fixture.h"

namespace ppc {
namespace {

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
  // What a look at the process tells.
  std::vector<Event> Look() {
    watched_->LookAtFiles();
    watched_->LookAtUse(64);
    std::vector<Event> events(64);
    events.resize(queue_.Drain(events));
    return events;
  }

  void Watch() {
    files_ = std::make_unique<PolledFiles>(dir_);
    sink_ = std::make_unique<EventSink>(files_.get(), &queue_);
    sink_->Set({.progress = true});
    watched_ = std::make_unique<Watched>(SysRoots{.sys = "", .proc = tree_.Root()}, kPid, 1,
                                         files_.get(), sink_.get(), &next_open_id_);
  }

  EventQueue queue_{1024};
  uint32_t next_open_id_ = 0;
  std::unique_ptr<PolledFiles> files_;
  std::unique_ptr<EventSink> sink_;
  std::unique_ptr<Watched> watched_;
};

TEST_F(PollWatchedTest, FollowsPreadByWaitsAndBytes) {
  Watch();
  EXPECT_TRUE(Look().empty()) << "nothing is known of a thread that was never seen waiting";
  Waits(1000, 4 * kMiB, 2 * kMiB);
  std::vector<Event> events = Look();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, EventKind::kMissRead);
  EXPECT_EQ(events[0].offset, 4 * kMiB);
  EXPECT_EQ(events[0].length, EventSink::kWindowBytes) << "how far it has got is unknown";
  EXPECT_EQ(events[0].tid, kPid);
  EXPECT_TRUE(Look().empty()) << "the same wait is told once";
  Runs(1000 + 2 * kMiB);
  events = Look();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, EventKind::kProgress);
  EXPECT_EQ(events[0].offset, 4 * kMiB);
  EXPECT_EQ(events[0].length, 2 * kMiB);
  Waits(1000 + 2 * kMiB, 20 * kMiB, kMiB);
  events = Look();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, EventKind::kMissRead);
  EXPECT_EQ(events[0].offset, 20 * kMiB) << "a wait is where it is, not where it was expected";
  Runs(1000 + 100 * kMiB);
  for (const Event& event : Look()) EXPECT_LE(event.offset + event.length, kFileBytes);
}

TEST_F(PollWatchedTest, SeekingIsNotReading) {
  Watch();
  (void)Look();
  tree_.Write("/proc/77/fdinfo/5", "pos:\t4194304\n");
  std::vector<Event> events = Look();
  EXPECT_TRUE(events.empty()) << "no read has returned so much";
  tree_.Write("/proc/77/fdinfo/5", "pos:\t8388608\n");
  Runs(1000 + 4 * kMiB);
  events = Look();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].offset, 4 * kMiB);
  EXPECT_EQ(events[0].length, 4 * kMiB);
}

// It is counted before it moves the position: a look may come in between.
TEST_F(PollWatchedTest, AReadThatIsCountedBeforeItShowsIsTold) {
  Watch();
  (void)Look();
  Runs(1000 + 4 * kMiB);
  EXPECT_TRUE(Look().empty());
  tree_.Write("/proc/77/fdinfo/5", "pos:\t4194304\n");
  const std::vector<Event> events = Look();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, EventKind::kProgress);
  EXPECT_EQ(events[0].offset, 0u);
  EXPECT_EQ(events[0].length, 4 * kMiB);
  tree_.Write("/proc/77/fdinfo/5", "pos:\t8388608\n");
  EXPECT_TRUE(Look().empty()) << "what was counted has been told";
  tree_.Write("/proc/77/fdinfo/5", "pos:\t20971520\n");
  Runs(1000 + 8 * kMiB);
  EXPECT_TRUE(Look().empty()) << "it has sought and read";
  tree_.Write("/proc/77/fdinfo/5", "pos:\t22020096\n");
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
