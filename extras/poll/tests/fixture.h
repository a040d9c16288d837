// SPDX-License-Identifier: Apache-2.0
// Owns the shared parts of polling tests: a directory with a file of known bytes, and child
// processes that read it on command.
#ifndef PPC_EXTRAS_POLL_TESTS_FIXTURE_H_
#define PPC_EXTRAS_POLL_TESTS_FIXTURE_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "extras/poll/poll_backend.h"
#include "tests/unit/child.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc {

inline constexpr uint64_t kMiB = 1 << 20;

// A child that runs `body`, which may wait for Go() with its argument.
class Child {
 public:
  using WaitFor = std::function<void()>;

  explicit Child(const std::function<void(const WaitFor& tell, const WaitFor& wait)>& body) {
    EXPECT_EQ(pipe2(go_, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(said_, O_CLOEXEC), 0);
    pid_ = StartChild([&] {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(go_[1]);
      char byte = 0;
      body([this] { (void)!write(said_[1], "x", 1); },
           [&] {
             if (read(go_[0], &byte, 1) != 1) _exit(0);
           });
    });
  }
  ~Child() {
    End();
    for (const int fd : {go_[0], go_[1], said_[0], said_[1]}) close(fd);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int pid() const { return pid_; }
  void Go() { EXPECT_EQ(write(go_[1], "x", 1), 1); }
  // Waits for a message of the child.
  void Hear() {
    char byte = 0;
    EXPECT_EQ(read(said_[0], &byte, 1), 1);
  }
  void End() {
    if (pid_ > 0) KillAndReap(std::exchange(pid_, 0));
  }

 private:
  int go_[2] = {-1, -1};
  int said_[2] = {-1, -1};
  int pid_ = 0;
};

class PollTest : public testing::Test {
 protected:
  static constexpr uint64_t kFileBytes = 32 * kMiB;

  void SetUp() override {
    tree_.Write("/models/a.bin", std::string(kFileBytes, 'a'));
    const int fd = open(tree_.Path("/models/a.bin").c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_EQ(fsync(fd), 0);
    close(fd);
    dir_ = std::filesystem::canonical(tree_.Path("/models"));
  }

  std::string File() const { return dir_ + "/a.bin"; }

  std::unique_ptr<PollBackend> Open(const SysRoots& roots = {}) {
    setenv("PPC_POLL_PID", std::to_string(getpid()).c_str(), 1);
    Result<std::unique_ptr<PollBackend>> backend = PollBackend::Open(dir_, roots);
    unsetenv("PPC_POLL_PID");
    return Value(std::move(backend));
  }

  static bool WaitFor(Backend* backend, std::vector<Event>* all, EventKind kind) {
    return WaitFor(backend, all, [kind](const Event& event) { return event.kind == kind; });
  }
  // Takes events until one matches; false after a long time.
  static bool WaitFor(Backend* backend, std::vector<Event>* all,
                      const std::function<bool(const Event&)>& fits) {
    std::vector<Event> batch(64);
    for (int i = 0; i < 600; ++i) {
      const size_t got = backend->Drain(batch);
      bool found = false;
      for (size_t n = 0; n < got; ++n) {
        all->push_back(batch[n]);
        found |= fits(batch[n]);
      }
      if (found) return true;
      if (got == 0) (void)backend->Wait(100 * 1000 * 1000, false, {});
    }
    return false;
  }

  static constexpr AttachOptions kAll{.progress = true, .trace = true, .open_close = true};

  TempTree tree_;
  std::string dir_;
};

}  // namespace ppc

#endif  // PPC_EXTRAS_POLL_TESTS_FIXTURE_H_
