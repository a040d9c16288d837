// SPDX-License-Identifier: Apache-2.0
// What a runtime says of its memory to who divides the machine's.
#include "tests/unit/exec/executor_fixture.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

constexpr uint64_t kSecond = 1000 * kMs;

class MemoryShareTest : public ExecutorTest {
 protected:
  MemoryShareTest() {
    tree_.Write("/proc/meminfo", "MemTotal: 4096000 kB\nMemAvailable: 2048000 kB\n");
    backend_.AddFile(2, "model/b", 1024 * kMiB);
    policy_.prefetch = [this](const miss_io& miss) {
      policy_.list.push_back({.file = miss.file, .offset = kMiB, .size = 8 * kMiB});
    };
    RuntimeConfig config;
    config.roots = SysRoots{tree_.Root(), tree_.Root()};
    config.options.threshold = 0.75;
    Start(std::move(config));
  }
  Json Memory(const std::vector<std::shared_ptr<const Cgroup>>& groups = {nullptr}) {
    return runtime_->MemoryJson(groups);
  }
  std::shared_ptr<const Cgroup> Limited(const std::string& name, uint64_t bytes) {
    tree_.Write("/sys/fs/cgroup/" + name + "/memory.max", std::to_string(bytes) + "\n");
    tree_.Write("/sys/fs/cgroup/" + name + "/memory.current", "0\n");
    Result<Cgroup> group =
        Cgroup::Open("/" + name, SysRoots{.sys = tree_.Root(), .proc = tree_.Root()});
    EXPECT_TRUE(group.ok());
    return std::make_shared<Cgroup>(std::move(*group));
  }
  TempTree tree_;
};

TEST_F(MemoryShareTest, OneThatDoesNothingWantsRoomToBegin) {
  const Json memory = Memory();
  EXPECT_EQ(memory["budget"], uint64_t{1024000} * 1024);
  EXPECT_EQ(memory["keeps"], 0u);
  EXPECT_EQ(memory["wants"], 256 * kMiB);
}

TEST_F(MemoryShareTest, OneThatLoadsWantsItsFilesUntilItRests) {
  backend_.Push(MissEvent(2, 0, kMiB, 77));
  Turn();
  EXPECT_EQ(Memory()["keeps"], 9 * kMiB) << "a miss and what was loaded, counted at once";
  EXPECT_EQ(Memory()["wants"], 1024 * kMiB);
  backend_.AdvanceClock(3 * kSecond);
  EXPECT_EQ(Memory()["wants"], (9 + 256) * kMiB);
}

TEST_F(MemoryShareTest, NobodyWantsMoreThanTheServicesMayHave) {
  backend_.Push(MissEvent(2, 0, kMiB, 77));
  Turn();
  const auto one = Limited("one", 400 * kMiB);
  EXPECT_EQ(Memory({one})["wants"], 400 * kMiB);
  EXPECT_EQ(Memory({one, Limited("two", 200 * kMiB)})["wants"], 600 * kMiB);
  EXPECT_EQ(Memory({one, nullptr})["wants"], 1024 * kMiB);
}

}  // namespace
}  // namespace ppc
