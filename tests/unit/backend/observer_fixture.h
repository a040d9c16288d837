// SPDX-License-Identifier: Apache-2.0
// Owns what the tests of the observer share: a directory on this machine's own page cache, and
// other processes that read its files.  Skipped, with the reason, where the kernel refuses BPF.
#ifndef PPC_TESTS_UNIT_BACKEND_OBSERVER_FIXTURE_H_
#define PPC_TESTS_UNIT_BACKEND_OBSERVER_FIXTURE_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "daemon/backend/file_cache.h"
#include "daemon/backend/observer/observer_backend.h"
#include "daemon/base/clock.h"
#include "tests/unit/child.h"

namespace ppc {

inline constexpr uint64_t kMiB = 1 << 20;
// Accesses are told a fifth of a second later at most.
inline constexpr uint64_t kQuietNs = 250 * kNsPerMs;

// A directory below the build tree: /tmp may be a file system without the page cache's tracepoints.
class BuildTreeTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "observer-test-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    dir_ = std::filesystem::canonical(name);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string dir_;
};

// A process beside the test, which says when it is ready and goes on when it is told.
class Companion {
 public:
  explicit Companion(const std::function<void(Companion&)>& work) {
    EXPECT_EQ(pipe(ready_), 0);
    EXPECT_EQ(pipe(go_), 0);
    pid = StartChild([&] { work(*this); });
    Await();
  }
  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;
  ~Companion() {
    for (const int fd : {ready_[0], ready_[1], go_[0], go_[1]}) close(fd);
  }
  // For itself.
  void Wait(char word = 'y') {
    (void)!write(ready_[1], &word, 1);
    (void)!read(go_[0], &word, 1);
  }
  // For the test.
  void Await() { EXPECT_EQ(read(ready_[0], &said, 1), 1); }
  void Go() { EXPECT_EQ(write(go_[1], "x", 1), 1); }
  void End() {
    Go();
    EXPECT_EQ(EndOf(pid), 0);
  }
  pid_t pid = -1;
  char said = 0;

 private:
  int ready_[2];
  int go_[2];
};

// An observer that is not open yet.
class ClosedObserverTest : public BuildTreeTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(BuildTreeTest::SetUp());
    Write("model", 8 * kMiB);
  }
  void TearDown() override {
    backend_.reset();
    BuildTreeTest::TearDown();
  }
  bool Open(const SysRoots& roots = {}) {
    Result<std::unique_ptr<ObserverBackend>> opened = ObserverBackend::Open(dir_, roots);
    if (opened) backend_ = std::move(*opened);
    if (!opened) why_not_ = opened.error().message;
    return opened.ok();
  }
  std::string Path(const std::string& name) const { return dir_ + "/" + name; }
  // Instead of "model" there is "again", with its inode; false where the file system uses no
  // inode's number again.
  bool UseInodeAgain(uint64_t bytes) const {
    struct stat was {};
    struct stat is {};
    EXPECT_EQ(stat(Path("model").c_str(), &was), 0);
    for (int i = 0; i < 50 && is.st_ino != was.st_ino; ++i) {
      EXPECT_EQ(unlink(Path(i == 0 ? "model" : "again").c_str()), 0);
      Write("again", bytes);
      EXPECT_EQ(stat(Path("again").c_str(), &is), 0);
    }
    return is.st_ino == was.st_ino;
  }
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
  void InChild(const std::function<void()>& work) const { EXPECT_EQ(EndOf(StartChild(work)), 0); }
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
  // Everything that comes until nothing comes for longer than accesses are gathered, however late
  // this thread looks.
  std::vector<Event> Events() {
    std::vector<Event> all;
    std::vector<Event> batch(512);
    uint64_t quiet_since = MonotonicNs();
    while (true) {
      const uint64_t now = MonotonicNs();
      const size_t got = backend_->Drain(batch);
      all.insert(all.end(), batch.begin(), batch.begin() + static_cast<long>(got));
      if (got > 0) quiet_since = MonotonicNs();
      if (got == 0 && now >= quiet_since + kQuietNs) return all;
      if (got == 0) (void)backend_->Wait(20 * kNsPerMs, false, {});
    }
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

  std::string why_not_;
  std::unique_ptr<ObserverBackend> backend_;
};

class ObserverTest : public ClosedObserverTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(ClosedObserverTest::SetUp());
    if (!Open()) GTEST_SKIP() << why_not_;
  }
};

inline bool IsMissEvent(const Event& event) { return IsMiss(event.kind); }
inline bool IsAccess(const Event& event) { return event.kind == EventKind::kAccess; }
inline bool IsProgress(const Event& event) { return event.kind == EventKind::kProgress; }

}  // namespace ppc

#endif  // PPC_TESTS_UNIT_BACKEND_OBSERVER_FIXTURE_H_
