// SPDX-License-Identifier: Apache-2.0
// What one chunk goes through.
#include <atomic>
#include <cerrno>

#include "tests/unit/cache/loader_fixture.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

TEST_F(LoaderPoolTest, LoadsInStepsAndReportsChunks) {
  std::vector<uint64_t> lengths;
  std::vector<uint32_t> charges;
  backend_->OnLoad([&](const LoadRequest& request) {
    lengths.push_back(request.length);
    charges.push_back(request.charge);
  });
  Submit({Item(kMiB, 12 * kMiB)});
  pool_->RunUntilIdle();
  // Steps and chunks end at multiples of their size.
  EXPECT_EQ(lengths,
            (std::vector<uint64_t>{kMiB, 2 * kMiB, 2 * kMiB, 2 * kMiB, 2 * kMiB, 2 * kMiB, kMiB}));
  EXPECT_EQ(charges[0], 9u);
  const std::vector<IoResult> results = Results();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].offset, kMiB);
  EXPECT_EQ(results[0].size, 7 * kMiB);
  EXPECT_EQ(results[0].ok, 7 * kMiB);
  EXPECT_EQ(results[0].cookie, 3u);
  EXPECT_EQ(results[0].service, 4u);
  EXPECT_EQ(results[1].size, 5 * kMiB);
  EXPECT_FALSE(results[1].interrupted);
  EXPECT_EQ(pool_->Stats().loaded, 12 * kMiB);
  EXPECT_EQ(pool_->Stats().inflight, 0u);
  EXPECT_TRUE(pool_->IsIdle());
}

TEST_F(LoaderPoolTest, WhatIsResidentIsNotLoaded) {
  (void)backend_->Load({.file = 1, .length = 4 * kMiB});
  Submit({Item(0, 8 * kMiB)});
  pool_->RunUntilIdle();
  EXPECT_EQ(pool_->Stats().loaded, 4 * kMiB);
  EXPECT_EQ(pool_->Stats().resident, 4 * kMiB);
  EXPECT_EQ(Results()[0].resident, 4 * kMiB);
}

TEST_F(LoaderPoolTest, ReplaceStopsWithinOneStep) {
  Submit({Item(0, 64 * kMiB)});
  ASSERT_TRUE(pool_->RunSlice(0));  // 2 MiB of the first chunk
  Submit({Item(128 * kMiB, 2 * kMiB)}, /*replaces=*/true);
  EXPECT_TRUE(pool_->RunSlice(0));
  const std::vector<IoResult> results = Results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_TRUE(results[0].interrupted);
  EXPECT_EQ(results[0].ok, 2 * kMiB);
  EXPECT_EQ(results[0].size, 8 * kMiB);
  EXPECT_EQ(Count(pool_->Stats(), Interruption::kGeneration), 1u);
  EXPECT_EQ(pool_->Stats().replaced, 56 * kMiB);
  pool_->RunUntilIdle();
  EXPECT_EQ(backend_->ResidentBytes(1), 4 * kMiB);
  EXPECT_EQ(pool_->Stats().inflight, 0u);
}

TEST_F(LoaderPoolTest, OtherGroupsGoOn) {
  Submit({Item(0, 8 * kMiB, 1), Item(64 * kMiB, 8 * kMiB, 2)});
  pool_->Interrupt(4, 1);
  pool_->RunUntilIdle();
  EXPECT_EQ(pool_->Stats().loaded, 8 * kMiB);
  EXPECT_EQ(backend_->Resident(1, 64 * kMiB, 8 * kMiB, {})->resident, 8 * kMiB);
}

TEST_F(LoaderPoolTest, MemoryInterruptsAndTheRestComesLater) {
  Submit({Item(0, 8 * kMiB)});
  ASSERT_TRUE(pool_->RunSlice(0));
  backend_->SetMemoryOther(900 * kMiB);
  ASSERT_TRUE(pool_->RunSlice(0));
  EXPECT_EQ(Count(pool_->Stats(), Interruption::kMemory), 1u);
  EXPECT_FALSE(pool_->RunSlice(0));  // no room: nothing is taken
  EXPECT_EQ(pool_->Stats().queued, 6 * kMiB);
  std::vector<IoResult> results = Results();
  ASSERT_EQ(results.size(), 1u);  // what was executed
  EXPECT_EQ(results[0].size, 2 * kMiB);
  EXPECT_FALSE(results[0].interrupted);
  backend_->SetMemoryOther(0);
  pool_->RunUntilIdle();
  EXPECT_EQ(Results()[0].offset, 2 * kMiB);
  EXPECT_EQ(pool_->Stats().loaded, 8 * kMiB);
  EXPECT_EQ(payer_->budget->Read(false).inflight, 0u);
}

TEST_F(LoaderPoolTest, TheBudgetIsAskedBeforeEveryChunk) {
  backend_->SetMemoryOther(790 * kMiB);  // the threshold is 800 MiB
  Submit({Item(0, 64 * kMiB)});
  pool_->RunUntilIdle();
  EXPECT_EQ(pool_->Stats().loaded, 10 * kMiB);
  EXPECT_EQ(backend_->ReclaimedBytes(), 0u);
}

// io.max of the payer's cgroup, which the kernel does not apply to us.
TEST_F(LoaderPoolTest, LoadsKeepToTheReadLimit) {
  TempTree tree;
  tree.Write("/sys/fs/cgroup/s/io.max", "8:0 rbps=10485760 riops=max\n");
  TokenBuckets buckets;
  payer_->rate = std::make_shared<ReadRate>(
      std::make_unique<IoLimit>(SysRoots{tree.Root(), tree.Root()}, tree.Path("/sys/fs/cgroup/s")),
      &buckets);
  payer_->rate->SetDevice(BlockDevice{8, 0});
  (void)backend_->Load({.file = 1, .length = 32 * kMiB});
  const uint64_t start = backend_->NowNs();
  Submit({Item(0, 64 * kMiB)});
  // What is resident costs nothing: its end is reached at once, however it is cut.
  while (pool_->Stats().resident < 32 * kMiB) ASSERT_TRUE(pool_->RunSlice(0));
  for (int i = 0; i < 10; ++i) {
    pool_->RunUntilIdle();
    const uint64_t passed = backend_->NowNs() - start;
    EXPECT_LE(pool_->Stats().loaded, 2 * kMiB + passed * kMiB / 100000000)
        << passed;  // 10 MiB a second
    backend_->AdvanceClock(200 * 1000 * 1000);
  }
  EXPECT_GE(pool_->Stats().loaded, 18 * kMiB);
  EXPECT_EQ(payer_->budget->Read(false).inflight, 0u);
  // Without the limit the rest comes.
  tree.Write("/sys/fs/cgroup/s/io.max", "");
  backend_->AdvanceClock(1000 * 1000 * 1000);
  pool_->RunUntilIdle();
  EXPECT_EQ(pool_->Stats().loaded, 32 * kMiB);
}

// Wherever the others' are: of the same node, or of none.
TEST_F(LoaderPoolTest, APayerWithoutRoomDoesNotHoldUpOthers) {
  ReplayBackend other({.memory_limit = 1000 * kMiB});
  auto rich = std::make_shared<Payer>();
  rich->budget =
      std::make_shared<Budget>(std::shared_ptr<MemorySource>(&other, [](MemorySource*) {}));
  backend_->SetMemoryOther(900 * kMiB);
  uint64_t at = 0;
  for (const auto& [poor_node, rich_node] : {std::pair{-1, -1}, {0, 0}, {0, -1}, {-1, 0}}) {
    Make({});
    LoadItem second = Item(at + 8 * kMiB, 8 * kMiB, 1, rich_node);
    second.payer = rich;
    Submit({Item(at, 8 * kMiB, 0, poor_node), second});
    pool_->RunUntilIdle();
    EXPECT_EQ(backend_->Resident(1, at + 8 * kMiB, 8 * kMiB, {})->resident, 8 * kMiB)
        << poor_node << " before " << rich_node;
    EXPECT_EQ(pool_->Stats().queued, 8 * kMiB);
    at += 16 * kMiB;
  }
}

TEST_F(LoaderPoolTest, ADeviceThatCannotKeepUpInterrupts) {
  Make({.threads_per_node = 4, .governor = {.bad_windows = 1, .floor = 1}});
  Submit({Item(0, 8 * kMiB)});
  pool_->RunUntilIdle();  // how fast the device can be
  backend_->AdvanceClock(200 * 1000 * 1000);
  Submit({Item(64 * kMiB, 64 * kMiB)});
  for (size_t i = 0; i < 4; ++i) ASSERT_TRUE(pool_->RunSlice(i));
  // From here each step takes long, and the front end misses much.
  backend_->OnLoad([&](const LoadRequest&) { backend_->AdvanceClock(50 * 1000 * 1000); });
  for (int round = 0; round < 12; ++round) {
    pool_->NoteDemand(64 * kMiB);
    for (size_t i = 0; i < 4; ++i) (void)pool_->RunSlice(i);
  }
  EXPECT_GT(Count(pool_->Stats(), Interruption::kBandwidth), 0u);
  pool_->RunUntilIdle();
  EXPECT_EQ(pool_->Stats().loaded, 72 * kMiB);  // nothing was lost
}

// Ten groups of one service beside one of another: the device is shared by services.
TEST_F(LoaderPoolTest, ServicesShareAlike) {
  Make({.threads_per_node = 1});
  const auto other = std::make_shared<Payer>(Payer{.service = 7});
  std::vector<LoadItem> items;
  for (uint32_t group = 0; group < 10; ++group)
    items.push_back(Item(group * 8 * kMiB, 8 * kMiB, group));
  items.push_back(Item(128 * kMiB, 32 * kMiB));
  items.back().payer = other;
  Submit(items);
  for (int i = 0; i < 32; ++i) ASSERT_TRUE(pool_->RunSlice(0));
  EXPECT_EQ(backend_->Resident(1, 0, 80 * kMiB, {})->resident, 32 * kMiB);
  EXPECT_EQ(backend_->Resident(1, 128 * kMiB, 32 * kMiB, {})->resident, 32 * kMiB);
}

TEST_F(LoaderPoolTest, AGroupIsItsServicesOwn) {
  LoadItem others = Item(64 * kMiB, 8 * kMiB, 1);
  others.payer = std::make_shared<Payer>(Payer{.service = 7});
  Submit({Item(0, 8 * kMiB, 1), others});
  pool_->Interrupt(4, 1);
  pool_->RunUntilIdle();
  EXPECT_EQ(backend_->ResidentBytes(1), 8 * kMiB);
  EXPECT_EQ(backend_->Resident(1, 64 * kMiB, 8 * kMiB, {})->resident, 8 * kMiB);
  Submit({Item(0, 8 * kMiB, 2), others});
  pool_->InterruptAll(1);
  pool_->RunUntilIdle();
  EXPECT_EQ(backend_->Resident(1, 0, 8 * kMiB, {})->resident, 8 * kMiB);
}

TEST_F(LoaderPoolTest, WhatAnEndedServiceAskedForIsNotLoaded) {
  Submit({Item(0, 64 * kMiB, 1), Item(128 * kMiB, 64 * kMiB, 2)});
  ASSERT_TRUE(pool_->RunSlice(0));
  pool_->EndService(4);
  // Another one gets the places; nothing of its own is taken for old.
  LoadItem next = Item(200 * kMiB, 8 * kMiB, 5);
  next.payer = std::make_shared<Payer>(Payer{.service = 7});
  Submit({next});
  pool_->RunUntilIdle();
  EXPECT_EQ(backend_->ResidentBytes(1), 10 * kMiB);
  EXPECT_EQ(pool_->Stats().queued, 0u);
  EXPECT_EQ(pool_->Stats().inflight, 0u);
}

// The module has 64 places for all groups of all services.
TEST_F(LoaderPoolTest, AnotherGroupsInterruptionOnlyDelays) {
  Submit({Item(0, 8 * kMiB)});
  backend_->CancelNextLoad();
  pool_->RunUntilIdle();
  EXPECT_EQ(pool_->Stats().loaded, 8 * kMiB);
  EXPECT_EQ(Count(pool_->Stats(), Interruption::kGeneration), 0u);
}

TEST_F(LoaderPoolTest, AFullQueueInterruptsTheOldestList) {
  Make({.max_items = 2});
  Submit({Item(0, 8 * kMiB, 1), Item(8 * kMiB, 8 * kMiB, 1)});
  Submit({Item(64 * kMiB, 8 * kMiB, 2)});
  const std::vector<IoResult> results = Results();
  ASSERT_EQ(results.size(), 1u);
  EXPECT_TRUE(results[0].interrupted);
  EXPECT_EQ(results[0].offset, 0u);
  EXPECT_EQ(Count(pool_->Stats(), Interruption::kQueue), 1u);
  // A list that alone is too long is cut.
  Submit({Item(0, kMiB, 3), Item(kMiB, kMiB, 3), Item(2 * kMiB, kMiB, 3)});
  EXPECT_EQ(pool_->Stats().refused, kMiB);
}

TEST_F(LoaderPoolTest, WhatIsWithdrawnIsReportedAndTheChunkInFlightGoesOn) {
  LoadItem others = Item(128 * kMiB, 8 * kMiB, 1);
  others.payer = std::make_shared<Payer>(Payer{.service = 7});
  Submit({Item(0, 64 * kMiB, 1), Item(64 * kMiB, 8 * kMiB, 2), others});
  ASSERT_TRUE(pool_->RunSlice(0));
  pool_->Withdraw(4);
  EXPECT_EQ(pool_->QueuedOf(4), 0u);
  pool_->RunUntilIdle();
  uint64_t interrupted = 0;
  uint64_t loaded = 0;
  for (const IoResult& result : Results()) {
    interrupted += result.interrupted ? result.size : 0;
    loaded += result.ok;
  }
  EXPECT_EQ(interrupted, 64 * kMiB);
  EXPECT_EQ(loaded, 16 * kMiB) << "a chunk, and the other service's";
}

TEST_F(LoaderPoolTest, ShutdownInterrupts) {
  Submit({Item(0, 8 * kMiB)});
  ASSERT_TRUE(pool_->RunSlice(0));
  pool_->Stop();
  EXPECT_EQ(Count(pool_->Stats(), Interruption::kShutdown), 1u);
  EXPECT_TRUE(Results()[0].interrupted);
  EXPECT_FALSE(pool_->RunSlice(0));
}

TEST_F(LoaderPoolTest, AFileThatIsGoneHasFailed) {
  backend_->MakeStale(1);
  Submit({Item(0, 8 * kMiB)});
  pool_->RunUntilIdle();
  const IoResult result = Results()[0];
  EXPECT_EQ(result.error, ESTALE);
  EXPECT_EQ(result.failed, 8 * kMiB);
}

TEST_F(LoaderPoolTest, ReadErrorsAreFailures) {
  backend_->SetReadErrors(1, true);
  Submit({Item(0, 4 * kMiB)});
  pool_->RunUntilIdle();
  EXPECT_EQ(Results()[0].failed, 4 * kMiB);
  EXPECT_EQ(pool_->Stats().loaded, 0u);
  EXPECT_EQ(pool_->Stats().failed, 4 * kMiB);
}

// The budget has room, the kernel has no page for group 0: `left` times.
class NoMemoryBackend : public ReplayBackend {
 public:
  NoMemoryBackend() : ReplayBackend({}) {}
  Result<LoadResult> Load(const LoadRequest& request) override {
    if (request.group != 0 || left.fetch_sub(1) <= 0) return ReplayBackend::Load(request);
    return LoadResult{.loaded = loaded, .stop = LoadStop::kNoMemory};
  }
  std::atomic<int> left{0};
  uint64_t loaded = 0;  // all the same
};

TEST_F(LoaderPoolTest, WhoGetsNoPageRests) {
  NoMemoryBackend backend;
  backend.AddFile(1, "a", 64 * kMiB);
  LoaderPool pool(&backend, Nodes(1), {.threads_per_node = 2, .manual = true}, &completions_);
  backend.left = 1000;
  std::vector<LoadItem> items{Item(0, 32 * kMiB)};
  pool.Submit(items, false);
  for (int i = 0; i < 100; ++i) {
    (void)pool.RunSlice(0);
    (void)pool.RunSlice(1);
  }
  EXPECT_EQ(backend.left, 1000 - 1);
  EXPECT_EQ(Count(pool.Stats(), Interruption::kMemory), 1u);
  backend.AdvanceClock(100 * 1000 * 1000);
  EXPECT_TRUE(pool.RunSlice(0));
  EXPECT_EQ(backend.left, 1000 - 2);
  backend.left = 0;
  backend.AdvanceClock(100 * 1000 * 1000);
  pool.RunUntilIdle();
  EXPECT_EQ(pool.Stats().loaded, 32 * kMiB);
}

TEST_F(LoaderPoolTest, WhoGetsSomePagesGoesOn) {
  NoMemoryBackend backend;
  backend.AddFile(1, "a", 64 * kMiB);
  LoaderPool pool(&backend, Nodes(1), {.threads_per_node = 1, .manual = true}, &completions_);
  backend.left = 3;
  backend.loaded = kPageBytes;
  std::vector<LoadItem> items{Item(0, 32 * kMiB)};
  pool.Submit(items, false);
  pool.RunUntilIdle();
  EXPECT_EQ(backend.ResidentBytes(1), 32 * kMiB);
}

TEST_F(LoaderPoolTest, WhoGetsNoPageDoesNotHoldUpOthers) {
  NoMemoryBackend backend;
  backend.AddFile(1, "a", 64 * kMiB);
  LoaderPool pool(&backend, Nodes(1), {.threads_per_node = 1, .manual = true}, &completions_);
  backend.left = 1000;
  std::vector<LoadItem> items{Item(0, 32 * kMiB), Item(32 * kMiB, 32 * kMiB, 1)};
  pool.Submit(items, false);
  for (int i = 0; i < 100; ++i) (void)pool.RunSlice(0);
  EXPECT_EQ(backend.Resident(1, 32 * kMiB, 32 * kMiB, {})->resident, 32 * kMiB);
  EXPECT_EQ(backend.left, 1000 - 1);
}

TEST_F(LoaderPoolTest, UnmountEndsAllLoads) {
  Submit({Item(0, 4 * kMiB)});
  backend_->Unmount();
  pool_->RunUntilIdle();
  EXPECT_EQ(Count(pool_->Stats(), Interruption::kShutdown), 1u);
}

}  // namespace
}  // namespace ppc
