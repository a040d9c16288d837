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
#include <chrono>
#include <cstdlib>
#include <map>
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
#include "tests/unit/eventually.h"

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
  void ClearWants(uint32_t dir) {
    With([dir](ObserverProgramSet& set) { set.ClearWants(dir); });
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

  // A directory with a model of 1 MiB, and with the fence of Misses().
  std::string Make(const std::string& name) const {
    const std::string dir = dir_ + "/" + name;
    mkdir(dir.c_str(), 0755);
    WriteModel(dir + "/model");
    WriteModel(dir + "/fence");
    return dir;
  }
  std::unique_ptr<ObserverBackend> Observe(const std::string& dir, uint32_t number,
                                           ObserverFiles::Limits limits = {}) {
    Result<ObserverFds> fds = set_->Share(number);
    EXPECT_TRUE(fds);
    auto programs = ObserverPrograms::Adopt(std::move(*fds), number);
    EXPECT_TRUE(programs);
    auto backend = ObserverBackend::Open(dir, SysRoots{}, std::move(*programs), limits);
    EXPECT_TRUE(backend);
    dirs_[backend->get()] = dir;
    return std::move(*backend);
  }
  static void ReadCold(const std::string& dir, const char* name = "model") {
    const std::string path = dir + "/" + name;
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    posix_fadvise(fd.Get(), 0, 0, POSIX_FADV_DONTNEED);
    EXPECT_EQ(std::system(("cat '" + path + "' >/dev/null").c_str()), 0);
  }
  // Attached when this returns, which Attach alone does not promise.
  void Watch(ObserverBackend* backend) {
    ASSERT_TRUE(backend->Attach({}));
    (void)Misses(backend);
  }
  // Bytes missed of what has been read so far.  Another file of the directory is read last, alike:
  // what is told of reads before has come when all of this one is told.
  uint64_t Misses(ObserverBackend* backend) {
    const std::string& dir = dirs_.at(backend);
    const Result<FileInfo> fence = backend->Lookup("fence");
    EXPECT_TRUE(fence);
    if (fence) (void)backend->Resolve(fence->file, nullptr);  // a met one is told of from then on
    uint64_t missed = 0;
    uint64_t told = 0;  // of the fence
    const auto drain = [&] {
      missed += Drain(backend, fence ? fence->file : 0, &told);
      return told >= kModelBytes;
    };
    EXPECT_TRUE(Eventually([&] {
      ReadCold(dir, "fence");
      // Where it is told nothing the backend was not attached yet.
      return Eventually(drain, std::chrono::seconds(1));
    })) << dir;
    return missed;
  }
  // The same behind another backend's fence: this one may be told nothing.
  static uint64_t MissesByNow(ObserverBackend* backend) {
    uint64_t told = 0;
    return Drain(backend, 0, &told);
  }
  // A file that appears is not known at once: it is read again until the backend is told of it.
  bool IsToldAtLast(ObserverBackend* backend, const std::string& dir) {
    return Eventually([&] {
      ReadCold(dir);
      return Misses(backend) > 0;
    });
  }

  std::unique_ptr<SharedSet> set_;

 private:
  static constexpr uint64_t kModelBytes = 1 << 20;

  static void WriteModel(const std::string& path) {
    const UniqueFd fd(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644));
    const std::vector<char> bytes(kModelBytes, 'x');
    EXPECT_EQ(write(fd.Get(), bytes.data(), bytes.size()), static_cast<ssize_t>(kModelBytes));
    fsync(fd.Get());
    posix_fadvise(fd.Get(), 0, 0, POSIX_FADV_DONTNEED);
  }
  // Takes all that there is; bytes missed of all files but one, whose own go to *of_that_one.
  static uint64_t Drain(ObserverBackend* backend, uint64_t one, uint64_t* of_that_one) {
    std::array<Event, 256> batch;
    uint64_t missed = 0;
    while (const size_t got = backend->Drain(batch)) {
      for (size_t i = 0; i < got; ++i) {
        if (IsMiss(batch[i].kind))
          (batch[i].file == one ? *of_that_one : missed) += batch[i].length;
      }
    }
    return missed;
  }

  std::map<const ObserverBackend*, std::string> dirs_;
};

}  // namespace ppc

#endif  // PPC_TESTS_UNIT_BACKEND_OBSERVER_SHARED_FIXTURE_H_
