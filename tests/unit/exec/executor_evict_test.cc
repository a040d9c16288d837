// SPDX-License-Identifier: Apache-2.0
// When the loop asks a policy what to drop, and what becomes of the answer; what a runtime says of
// its memory to the one that divides the machine's.
#include <unistd.h>

#include <utility>
#include <vector>

#include "tests/unit/exec/executor_fixture.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

class ExecutorEvictTest : public ExecutorTest {};

TEST_F(ExecutorEvictTest, EvictComesBeforePrefetchAndOnlyAboveTheThreshold) {
  std::string calls;
  policy_.prefetch = [&](const miss_io&) { calls += 'p'; };
  policy_.evict = [&](const miss_io* miss) { calls += miss == nullptr ? 't' : 'e'; };
  Start();
  backend_.Push(MissEvent(1, 0, kMiB));
  Turn();
  EXPECT_EQ(calls, "p");
  backend_.SetMemoryOther(90 * kMiB);
  backend_.AdvanceClock(10 * kMs);
  backend_.Push(MissEvent(1, 8 * kMiB, kMiB));
  Turn();
  EXPECT_EQ(calls, "pep");
}

// It decides by where its readers are, and the last event says that.
TEST_F(ExecutorEvictTest, APolicyThatPlansIsAskedWhatToDropAfterAllEvents) {
  std::string calls;
  policy_.plan = [&](const ppc_plan_request&) {};
  policy_.prefetch = [&](const miss_io&) { calls += 'p'; };
  policy_.evict = [&](const miss_io* miss) { calls += miss == nullptr ? 't' : 'e'; };
  Start();
  Turn();
  backend_.SetMemoryOther(90 * kMiB);
  backend_.AdvanceClock(10 * kMs);
  calls.clear();
  for (uint64_t i = 0; i < 3; ++i) backend_.Push(MissEvent(1, 8 * i * kMiB, kMiB));
  Turn();
  EXPECT_EQ(calls.substr(0, 4), "pppt");
}

TEST_F(ExecutorEvictTest, EvictIsAskedEvery200MsAboveTheThreshold) {
  int asked = 0;
  policy_.evict = [&](const miss_io* miss) { asked += miss == nullptr; };
  Start();
  const uint64_t start = backend_.NowNs();
  while (backend_.NowNs() < start + 1000 * kMs) Turn();
  EXPECT_EQ(asked, 0);
  backend_.SetMemoryOther(90 * kMiB);
  while (backend_.NowNs() < start + 2000 * kMs) Turn();
  EXPECT_NEAR(asked, 5, 1);
}

// The loader waits for a chunk's room, so use does not rise above the threshold.
TEST_F(ExecutorEvictTest, QueuedLoadsThatHaveNoRoomAskForIt) {
  for (const bool is_queued : {false, true}) {
    int asked = 0;
    bool has_more = is_queued;
    policy_.plan = [&](const ppc_plan_request&) {
      if (std::exchange(has_more, false))
        policy_.list.push_back({.file = 1, .offset = 0, .size = 16 * kMiB});
    };
    policy_.evict = [&](const miss_io*) { ++asked; };
    Start();
    // Nothing is loaded meanwhile, and there is no tick.
    const auto turn = [this] {
      backend_.Push(MissEvent(1, 0, kPageBytes, getpid()));
      (void)runtime_->executor().RunOnce();
    };
    turn();
    turn();
    backend_.SetMemoryOther(80 * kMiB);
    backend_.AdvanceClock(20 * kMs);
    turn();
    EXPECT_EQ(asked, is_queued ? 1 : 0);
    backend_.SetMemoryOther(0);
    runtime_.reset();
  }
}

TEST_F(ExecutorEvictTest, EvictListsAreExecutedAndReported) {
  std::vector<ppc_result> results;
  policy_.evict = [&](const miss_io*) {
    policy_.evict_list.push_back({.path = "model/a", .offset = 0, .size = 4 * kMiB, .cookie = 5});
  };
  policy_.done = [&](const ppc_result& result) { results.push_back(result); };
  Start();
  (void)backend_.Load({.file = 1, .length = 90 * kMiB});
  backend_.AdvanceClock(200 * kMs);
  Turn(2);
  ASSERT_GE(results.size(), 1u);
  EXPECT_EQ(results[0].kind, PPC_EVICTED);
  EXPECT_EQ(results[0].ok, 4 * kMiB);
  EXPECT_EQ(results[0].cookie, 5u);
  EXPECT_EQ(backend_.ResidentBytes(1), 86 * kMiB);
}

class Estimate : public MemorySource {
 public:
  MemoryReading Read(bool) override {
    return {.limit = 100 * kMiB, .used = 90 * kMiB, .threshold = 80 * kMiB, .is_estimate = true};
  }
};

// What the kernel has reclaimed is still in it.
TEST_F(ExecutorEvictTest, NothingIsDroppedForAnEstimateBeforeALookAtThePageCache) {
  int asked = 0;
  policy_.evict = [&](const miss_io*) { ++asked; };
  Start({.memory = [](std::shared_ptr<const Cgroup>) { return std::make_shared<Estimate>(); }});
  backend_.Push(MissEvent(1, 0, kMiB));
  backend_.AdvanceClock(200 * kMs);
  (void)runtime_->executor().RunOnce();  // the look waits for its thread
  EXPECT_EQ(asked, 0);
  while (runtime_->evictor().RunOne()) {
  }
  backend_.AdvanceClock(200 * kMs);
  Turn();
  EXPECT_GT(asked, 0);
}

// The answer does not stand for ever.
TEST_F(ExecutorEvictTest, AnOldLookIsRepeatedFirst) {
  int asked = 0;
  policy_.evict = [&](const miss_io*) { ++asked; };
  Start({.memory = [](std::shared_ptr<const Cgroup>) { return std::make_shared<Estimate>(); }});
  backend_.AdvanceClock(200 * kMs);
  Turn(2);
  backend_.AdvanceClock(60 * 1000 * kMs);
  asked = 0;
  (void)runtime_->executor().RunOnce();
  EXPECT_EQ(asked, 0);
}

TEST_F(ExecutorEvictTest, WhoWantsItIsAskedWhatToDropWhileThereIsRoom) {
  int asked = 0;
  bool wants = false;
  policy_.init = [&](ppc_context* context) {
    return context->want(context, wants ? PPC_WANT_EVICT : 0, 0);
  };
  policy_.evict = [&](const miss_io* miss) { asked += miss == nullptr; };
  for (const bool each : {false, true}) {
    wants = each;
    asked = 0;
    Start();
    for (int tick = 0; tick < 3; ++tick) {
      backend_.AdvanceClock(200 * kMs);
      Turn();
    }
    EXPECT_EQ(asked, wants ? 3 : 0);
  }
}

// No other code reads ahead for a reader whose loads wait.
TEST_F(ExecutorEvictTest, WhereNothingIsLoadedReadAheadIsTheKernels) {
  policy_.prefetch = [&](const miss_io& miss) {
    policy_.list.push_back({.file = miss.file, .offset = 64 * kMiB, .size = 8 * kMiB});
  };
  Start();
  backend_.SetMemoryOther(90 * kMiB);
  auto miss = [this, at = uint64_t{0}](int times) mutable {
    for (int i = 0; i < times; ++i) {
      backend_.Push(MissEvent(1, at++ * kPageBytes, kPageBytes));
      backend_.AdvanceClock(200 * kMs);
      Turn();
    }
  };
  miss(9);
  EXPECT_TRUE(backend_.Attached().managed_readahead);
  miss(4);
  EXPECT_FALSE(backend_.Attached().managed_readahead);
  backend_.SetMemoryOther(0);
  miss(3);
  EXPECT_GT(runtime_->loader().Stats().loaded, 0u);
  EXPECT_TRUE(backend_.Attached().managed_readahead);
}

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
