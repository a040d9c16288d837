// SPDX-License-Identifier: Apache-2.0
// Owns what tests of several observed directories share: one set of programs, as ppcd has it.
#ifndef PPC_TESTS_UNIT_BACKEND_OBSERVER_SHARED_FIXTURE_H_
#define PPC_TESTS_UNIT_BACKEND_OBSERVER_SHARED_FIXTURE_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/backend/observer/observer_backend.h"
#include "daemon/backend/observer/program_set.h"
#include "daemon/base/clock.h"
#include "tests/unit/backend/observer_fixture.h"

namespace ppc {

// The set as ppcd has it, which calls it from one thread: here another one attaches beside the
// test's.
class SharedSet {
 public:
  explicit SharedSet(std::unique_ptr<ObserverProgramSet> set) : set_(std::move(set)) {}

  // One call, with no other in the set.
  template <typename Call>
  auto With(Call call) {
    const std::lock_guard lock(mutex_);
    return call(*set_);
  }
  Result<uint32_t> AddDirectory() {
    return With([](ObserverProgramSet& set) { return set.AddDirectory(); });
  }
  void RemoveDirectory(uint32_t dir) {
    With([dir](ObserverProgramSet& set) { set.RemoveDirectory(dir); });
  }
  void Silence(uint32_t dir) {
    With([dir](ObserverProgramSet& set) { set.Silence(dir); });
  }
  Result<ObserverFds> Share(uint32_t dir) {
    return With([dir](ObserverProgramSet& set) { return set.Share(dir); });
  }
  bool IsEmpty() {
    return With([](ObserverProgramSet& set) { return set.IsEmpty(); });
  }
  Status Update() {
    return With([](ObserverProgramSet& set) { return set.Update(); });
  }
  int WakeFd() const { return set_->WakeFd(); }

 private:
  std::mutex mutex_;
  const std::unique_ptr<ObserverProgramSet> set_;
};

// As ppcd does: attaches when a runner says that it wants something else.
class Attacher {
 public:
  explicit Attacher(SharedSet* set)
      : thread_([set](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            pollfd fd{set->WakeFd(), POLLIN, 0};
            if (poll(&fd, 1, 5) > 0) (void)set->Update();
          }
        }) {}

 private:
  std::jthread thread_;
};

class ObserverSharedTest : public BuildTreeTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(BuildTreeTest::SetUp());
    Result<std::unique_ptr<ObserverProgramSet>> set = ObserverProgramSet::Load(SysRoots{});
    if (!set) GTEST_SKIP() << set.error().message;
    set_ = std::make_unique<SharedSet>(std::move(*set));
  }

  std::string Make(const std::string& name) const {
    const std::string dir = dir_ + "/" + name;
    mkdir(dir.c_str(), 0755);
    const UniqueFd fd(open((dir + "/model").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644));
    const std::vector<char> bytes(1 << 20, 'x');
    EXPECT_EQ(write(fd.Get(), bytes.data(), bytes.size()), 1 << 20);
    fsync(fd.Get());
    posix_fadvise(fd.Get(), 0, 0, POSIX_FADV_DONTNEED);
    return dir;
  }
  std::unique_ptr<ObserverBackend> Observe(const std::string& dir, uint32_t number,
                                           ObserverFiles::Limits limits = {}) const {
    Result<ObserverFds> fds = set_->Share(number);
    EXPECT_TRUE(fds);
    auto programs = ObserverPrograms::Adopt(std::move(*fds), number);
    EXPECT_TRUE(programs);
    auto backend = ObserverBackend::Open(dir, SysRoots{}, std::move(*programs), limits);
    EXPECT_TRUE(backend);
    return std::move(*backend);
  }
  static void ReadCold(const std::string& dir) {
    const UniqueFd fd(open((dir + "/model").c_str(), O_RDONLY | O_CLOEXEC));
    posix_fadvise(fd.Get(), 0, 0, POSIX_FADV_DONTNEED);
    const std::string command = "cat '" + dir + "/model' >/dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  static uint64_t Misses(ObserverBackend* backend) {
    std::array<Event, 256> batch;
    uint64_t bytes = 0;
    const uint64_t until = MonotonicNs() + 400 * kNsPerMs;
    while (MonotonicNs() < until) {
      const size_t got = backend->Drain(batch);
      for (size_t i = 0; i < got; ++i) bytes += IsMiss(batch[i].kind) ? batch[i].length : 0;
      if (got == 0) (void)backend->Wait(20 * kNsPerMs, false, {});
    }
    return bytes;
  }

  std::unique_ptr<SharedSet> set_;
};

}  // namespace ppc

#endif  // PPC_TESTS_UNIT_BACKEND_OBSERVER_SHARED_FIXTURE_H_
