// SPDX-License-Identifier: Apache-2.0
// The loop against a replayed machine: what reaches the policy, and what becomes of its lists.
#include "daemon/exec/executor.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "tests/unit/exec/executor_fixture.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

// On a disk whose reads the service's group may limit.
class ExecutorOnDiskTest : public ExecutorTest {
 protected:
  void LimitReads(uint64_t bytes_per_s) {
    const std::string limit = "8:0 rbps=" + std::to_string(bytes_per_s) + " riops=max\n";
    tree_.Write("/sys/fs/cgroup/s/memory.max", "max\n");
    tree_.Write("/sys/fs/cgroup/s/io.max", limit);
    tree_.Write("/sys/dev/block/8:0/dev", "8:0\n");
    tree_.Write("/sys/class/block/sda/dev", "8:0\n");
    // The replay backend's files lie on the anonymous device 0:0.
    tree_.Write("/proc/self/mountinfo", "36 35 0:0 / /models rw - btrfs /dev/sda rw\n");
  }
  TempTree tree_;
};

TEST_F(ExecutorTest, AMissReachesThePolicyAndItsListTheDisk) {
  miss_io seen{};
  std::string path;
  policy_.prefetch = [&](const miss_io& miss) {
    seen = miss;
    path = miss.path;
    policy_.list.push_back(
        {.file = miss.file, .offset = miss.offset + miss.size, .size = 8 * kMiB});
  };
  Start();
  EXPECT_TRUE(backend_.Attached().managed_readahead);
  backend_.Push(MissEvent(1, kMiB, kMiB, 77));
  Turn();
  EXPECT_EQ(path, "model/a");
  EXPECT_EQ(seen.offset, kMiB);
  EXPECT_EQ(seen.size, kMiB);
  EXPECT_EQ(seen.tid, 77);
  EXPECT_EQ(seen.kind, PPC_MISS_READ);
  EXPECT_EQ(seen.file_bytes, 256 * kMiB);
  EXPECT_EQ(seen.xpu, -1);
  EXPECT_EQ(backend_.Resident(1, 2 * kMiB, 8 * kMiB, {})->resident, 8 * kMiB);
}

// The service's own misses and what is loaded for it share its cgroup's limit.
TEST_F(ExecutorOnDiskTest, MissesCountAgainstTheReadLimit) {
  LimitReads(10 * kMiB);
  policy_.prefetch = [&](const miss_io& miss) {
    policy_.list.push_back({.file = miss.file, .offset = 64 * kMiB, .size = 32 * kMiB});
  };
  RuntimeConfig config;
  config.roots = SysRoots{tree_.Root(), tree_.Root()};
  config.options.cgroup = "/s";
  Start(std::move(config));
  backend_.Push(MissEvent(1, 0, kMiB, 77));
  Turn();
  EXPECT_EQ(runtime_->loader().Stats().loaded, 2 * kMiB);
  EXPECT_EQ(runtime_->StatusJson()["services"][0]["read_limit"], 10 * kMiB);
  // A second's worth of misses leaves nothing for us.
  for (uint64_t i = 0; i < 10; ++i) {
    backend_.AdvanceClock(100 * kMs);
    backend_.Push(MissEvent(1, (1 + i) * kMiB, kMiB, 77));
    policy_.prefetch = [](const miss_io&) {};
    Turn();
  }
  EXPECT_LE(runtime_->loader().Stats().loaded, 4 * kMiB);
  backend_.AdvanceClock(1000 * kMs);
  Turn();
  EXPECT_GE(runtime_->loader().Stats().loaded, 4 * kMiB);
}

TEST_F(ExecutorTest, OwnReadsAreNotMisses) {
  int calls = 0;
  policy_.prefetch = [&](const miss_io&) { ++calls; };
  Start();
  backend_.Push(MissEvent(1, 0, kMiB, getpid()));
  Turn();
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(runtime_->executor().Stats().own_events, 1u);
}

TEST_F(ExecutorTest, ContiguousMissesAreOneCall) {
  std::vector<uint64_t> sizes;
  policy_.prefetch = [&](const miss_io& miss) { sizes.push_back(miss.size); };
  Start();
  for (uint64_t i = 0; i < 8; ++i) backend_.Push(MissEvent(1, i * kMiB, kMiB));
  Turn();
  EXPECT_EQ(sizes, std::vector<uint64_t>{8 * kMiB});
}

TEST_F(ExecutorTest, ProgressGoesToEventThenEvict) {
  std::string calls;
  policy_.Want(PPC_WANT_PROGRESS, 2 * kMiB);
  policy_.event = [&](const miss_io& event) {
    calls += event.kind == PPC_PROGRESS ? 'P' : event.kind == PPC_OPEN ? 'O' : 'C';
  };
  policy_.evict = [&](const miss_io* miss) { calls += miss == nullptr ? 't' : 'e'; };
  policy_.prefetch = [&](const miss_io&) { calls += 'p'; };
  Start();
  EXPECT_TRUE(backend_.Attached().progress);
  EXPECT_FALSE(backend_.Attached().managed_readahead);  // it said what it wants
  EXPECT_EQ(backend_.Attached().beacon_bytes, 2 * kMiB);
  Turn();
  calls.clear();
  backend_.SetMemoryOther(90 * kMiB);
  backend_.AdvanceClock(10 * kMs);
  for (const EventKind kind : {EventKind::kOpen, EventKind::kProgress, EventKind::kClose}) {
    Event event = MissEvent(1, 0, kMiB);
    event.time_ns = static_cast<uint64_t>(kind == EventKind::kOpen       ? 1
                                          : kind == EventKind::kProgress ? 2
                                                                         : 3);
    event.kind = kind;
    backend_.Push(event);
  }
  Turn();
  EXPECT_EQ(calls.substr(0, 4), "OPeC");  // a tick may follow
}

TEST_F(ExecutorTest, PlanIsAskedWhileTheLoaderHasRoom) {
  uint64_t at = 0;
  uint64_t most = 0;
  policy_.plan = [&](const ppc_plan_request& request) {
    most = std::max(most, request.max_bytes);
    EXPECT_LE(request.max_bytes, request.memory->room);
    if (at < 64 * kMiB) policy_.list.push_back({.file = 1, .offset = at, .size = 16 * kMiB});
    at += 16 * kMiB;
  };
  Start();
  Turn(20);
  EXPECT_EQ(backend_.ResidentBytes(1), 64 * kMiB);  // without any miss
  EXPECT_GT(most, 0u);
}

TEST_F(ExecutorTest, WhoHadNothingToLoadIsAskedNowAndThenWhileItsReadersGoOn) {
  int asked = 0;
  policy_.plan = [&](const ppc_plan_request&) { ++asked; };
  policy_.event = [](const miss_io&) {};
  Start();
  const auto read = [&](EventKind kind) {
    Event event = MissEvent(1, 0, kPageBytes);
    event.kind = kind;
    backend_.Push(event);
    Turn();
    return std::exchange(asked, 0);
  };
  Turn();
  asked = 0;
  EXPECT_EQ(read(EventKind::kProgress), 1) << "with the tick";
  int times = 0;
  for (int i = 0; i < 100; ++i) times += read(EventKind::kProgress);  // a ms each
  EXPECT_GE(times, 3);
  EXPECT_LE(times, 5);
  EXPECT_EQ(read(EventKind::kMissRead), 1) << "somebody waits";
  EXPECT_EQ(read(EventKind::kProgress), 0);
  Turn();
  EXPECT_EQ(asked, 1) << "there are no more events";
}

TEST_F(ExecutorOnDiskTest, PlanKnowsHowFastTheDeviceIs) {
  LimitReads(100 * kMiB);
  for (const bool is_limited : {false, true}) {
    uint64_t at = 0;
    ppc_plan_request last{};
    policy_.plan = [&](const ppc_plan_request& request) {
      last = request;
      if (at < 48 * kMiB) policy_.list.push_back({.file = 1, .offset = at, .size = 8 * kMiB});
      at += 8 * kMiB;
    };
    RuntimeConfig config;
    config.roots = SysRoots{tree_.Root(), tree_.Root()};
    if (is_limited) config.options.cgroup = "/s";
    (void)backend_.Evict({.file = 1, .length = 256 * kMiB});
    Start(std::move(config));
    for (int i = 0; i < 10; ++i) {
      Turn();
      backend_.AdvanceClock(200 * kMs);
    }
    // The replayed disk gives 1 GiB/s, and takes 0.1 ms beside.
    EXPECT_NEAR(static_cast<double>(last.device_step_ns), 2.05 * kMs, 0.1 * kMs);
    EXPECT_NEAR(static_cast<double>(last.device_rate), is_limited ? 100.0 * kMiB : 1e9, 5e7);
    const Json loader = runtime_->StatusJson()["loader"];
    EXPECT_EQ(loader["latency_us"], last.device_step_ns / 1000);
    EXPECT_GT(loader["device_mbps"], 900);
  }
}

// Neither takes the other's part of the queue.
TEST_F(ExecutorTest, EachServiceIsPlannedByItself) {
  std::map<uint32_t, uint64_t> at;
  uint64_t most = 0;
  policy_.plan = [&](const ppc_plan_request& request) {
    most = std::max(most, request.max_bytes);
    uint64_t& next = at[request.service];
    if (next >= 16 * kMiB) return;
    policy_.list.push_back({.file = 1,
                            .offset = (request.service == 0 ? 0 : 128 * kMiB) + next,
                            .size = 8 * kMiB,
                            .service = request.service});
    next += 8 * kMiB;
  };
  StartTwoServices();
  Turn(20);
  EXPECT_EQ(at.size(), 2u);
  EXPECT_EQ(backend_.ResidentBytes(1), 32 * kMiB);
  // Half of the queue's depth, at most.
  EXPECT_LE(most, 32 * kMiB);
}

// With hundreds of services each load that ends would else ask all of them.
TEST_F(ExecutorTest, ALoadThatEndsAsksItsOwnServiceAlone) {
  std::map<uint32_t, int> asked;
  int left = 8;
  policy_.plan = [&](const ppc_plan_request& request) {
    ++asked[request.service];
    if (request.service != 0 || left == 0) return;
    --left;
    policy_.list.push_back(
        {.file = 1, .offset = static_cast<uint64_t>(left) * 8 * kMiB, .size = 8 * kMiB});
  };
  StartTwoServices();
  Turn(40);
  EXPECT_EQ(left, 0);
  const auto ticks = static_cast<int>(runtime_->executor().Stats().ticks);
  EXPECT_LE(asked[1], ticks + 4) << "it has nothing to load";
}

// A service that fills its part of the queue does not keep the other from being asked.
TEST_F(ExecutorTest, AFullQueueOfOneServiceDoesNotStarveAnother) {
  std::map<uint32_t, uint64_t> asked;
  policy_.plan = [&](const ppc_plan_request& request) {
    asked[request.service] += request.max_bytes;
    policy_.list.push_back({.file = 1,
                            .offset = request.service == 0 ? 0 : 128 * kMiB,
                            .size = request.max_bytes,
                            .service = request.service});
  };
  StartTwoServices();
  (void)runtime_->executor().RunOnce();  // nothing is loaded meanwhile
  EXPECT_GT(asked[0], 0u);
  EXPECT_GT(asked[1], 0u);
}

TEST_F(ExecutorTest, PlanNeverOvershootsTheBudget) {
  uint64_t at = 0;
  policy_.plan = [&](const ppc_plan_request&) {
    policy_.list.push_back({.file = 1, .offset = at, .size = 32 * kMiB});
    at = (at + 32 * kMiB) % (256 * kMiB);
  };
  Start();
  Turn(50);
  EXPECT_LE(backend_.ResidentBytes(1), 80 * kMiB);
  EXPECT_GE(backend_.ResidentBytes(1), 70 * kMiB);
  EXPECT_EQ(backend_.ReclaimedBytes(), 0u);
}

TEST_F(ExecutorTest, DoneTellsWhatBecameOfEachChunk) {
  std::vector<ppc_result> results;
  policy_.prefetch = [&](const miss_io&) {
    policy_.list.push_back(
        {.file = 1, .offset = 8 * kMiB, .size = 16 * kMiB, .group = 6, .cookie = 11});
  };
  policy_.done = [&](const ppc_result& result) { results.push_back(result); };
  Start();
  backend_.Push(MissEvent(1, 0, kMiB));
  Turn(3);
  uint64_t loaded = 0;
  for (const ppc_result& result : results) {
    EXPECT_EQ(result.kind, static_cast<uint32_t>(PPC_LOADED));
    EXPECT_EQ(result.group, 6u);
    EXPECT_EQ(result.cookie, 11u);
    EXPECT_EQ(result.ok, result.size);
    EXPECT_EQ(result.interrupted, 0);
    loaded += result.ok;
  }
  EXPECT_EQ(loaded, 16 * kMiB);
}

TEST_F(ExecutorTest, NonsenseRangesAreRefusedByName) {
  policy_.prefetch = [&](const miss_io&) {
    policy_.list = {{.path = "../etc/passwd", .size = 1},
                    {.file = 999, .size = 1},
                    {.file = 1, .offset = UINT64_MAX, .size = 1},
                    {.file = 1, .size = 1, .group = PPC_MAX_GROUPS},
                    {.file = 1, .offset = 300 * kMiB, .size = 1},
                    {.file = 1, .size = 2 * kMiB}};
  };
  Start();
  backend_.Push(MissEvent(1, 100 * kMiB, kMiB));
  Turn();
  const Json refused = runtime_->StatusJson()["events"]["refused"];
  EXPECT_EQ(refused["path"], 1);
  EXPECT_EQ(refused["file"], 1);
  EXPECT_EQ(refused["range"], 1);
  EXPECT_EQ(refused["group"], 1);
  EXPECT_EQ(refused["empty"], 1);
  EXPECT_EQ(runtime_->executor().Stats().prefetch_ranges, 1u);
  EXPECT_FALSE(runtime_->host().IsDropped());
}

TEST_F(ExecutorTest, ReplaceInterruptsWhatIsQueued) {
  int calls = 0;
  policy_.prefetch = [&](const miss_io& miss) {
    ++calls;
    policy_.list_flags = PPC_IOS_REPLACE;
    policy_.list.push_back({.file = 1, .offset = miss.offset, .size = 32 * kMiB, .group = 2});
  };
  Start();
  backend_.Push(MissEvent(1, 0, 4096, 1));
  backend_.Push(MissEvent(1, 64 * kMiB, 4096, 2));
  Turn();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(runtime_->loader().Stats().replaced, 32 * kMiB);
  EXPECT_EQ(backend_.Resident(1, 0, 32 * kMiB, {})->resident, kMiB);  // the demand window
}

TEST_F(ExecutorTest, EventsOfAGoneFileAreCounted) {
  policy_.prefetch = [](const miss_io&) { FAIL(); };
  Start();
  backend_.Push(MissEvent(42, 0, kMiB));
  Turn();
  EXPECT_EQ(runtime_->executor().Stats().unresolved, 1u);
}

TEST_F(ExecutorTest, AThrowingPolicyIsDropped) {
  policy_.prefetch = [](const miss_io&) { throw 1; };
  bool exited = false;
  policy_.exit = [&] { exited = true; };
  Start();
  backend_.Push(MissEvent(1, 0, kMiB, 1));
  backend_.Push(MissEvent(1, 8 * kMiB, kMiB, 2));
  EXPECT_EQ(Turn(3), Executor::End::kDropped);
  runtime_->Shutdown();
  EXPECT_TRUE(exited);
  EXPECT_FALSE(backend_.IsAttached());
}

TEST_F(ExecutorTest, LeaseAndMountAreTwoEnds) {
  Start();
  backend_.Expire();
  EXPECT_EQ(Turn(3), Executor::End::kExpired);
  backend_.Unmount();
  EXPECT_EQ(Turn(3), Executor::End::kGone);
}

TEST_F(ExecutorTest, StopEndsTheLoop) {
  Start();
  runtime_->RequestStop();
  EXPECT_EQ(runtime_->Run(), Executor::End::kStopped);
}

TEST_F(ExecutorTest, OtherDescriptorsAreServed) {
  Start();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  int called = 0;
  runtime_->executor().AddSource(ends[0], [&](short) {
    ++called;
    char byte = 0;
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
  });
  ASSERT_EQ(write(ends[1], "x", 1), 1);
  Turn(5);
  EXPECT_EQ(called, 1);
  close(ends[0]);
  close(ends[1]);
}

TEST_F(ExecutorTest, OtherDescriptorsAreServedAmidAFlood) {
  Start();
  const UniqueFd ready(eventfd(1, EFD_CLOEXEC));
  int called = 0;
  runtime_->executor().AddSource(ready.Get(), [&](short) { ++called; });
  for (int turn = 0; turn < 3; ++turn) {
    for (int i = 0; i < 2000; ++i) backend_.Push(MissEvent(1, 0, kMiB, 1000 + i));
    const uint64_t before = backend_.NowNs();
    Turn();
    EXPECT_EQ(backend_.NowNs(), before);  // it did not sleep
  }
  EXPECT_EQ(called, 3);
}

}  // namespace
}  // namespace ppc
