// SPDX-License-Identifier: Apache-2.0
// The threads that load, and when they wake.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <numeric>
#include <span>
#include <system_error>
#include <thread>
#include <vector>

#include "daemon/cache/loader_layout.h"
#include "tests/unit/cache/loader_fixture.h"

namespace ppc {
namespace {

LoadItem Small(LoadItem item) {
  item.is_small = true;
  return item;
}

class LoaderThreadsTest : public LoaderPoolTest {
 protected:
  static void SubmitTo(LoaderPool* pool, std::vector<LoadItem> items, bool replaces = false) {
    pool->Submit(items, replaces);
  }
  void SubmitSmall(uint64_t count) {
    std::vector<LoadItem> items;
    for (uint64_t i = 0; i < count; ++i) items.push_back(Small(Item(i * kMiB, 4096, 63)));
    Submit(items);
  }
  // Until so many results have come, 10 s each.
  void Await(size_t count) {
    std::vector<IoResult> all;
    while (all.size() < count) {
      pollfd ready{completions_.fd(), POLLIN, 0};
      ASSERT_EQ(poll(&ready, 1, 10000), 1);
      std::vector<IoResult> some;
      completions_.Take(&some);
      all.insert(all.end(), some.begin(), some.end());
    }
  }
};

TEST_F(LoaderThreadsTest, EachNodeHasItsOwnThreads) {
  Make({.threads_per_node = 2}, 2);
  ASSERT_EQ(pool_->Threads(), 4);
  Submit({Item(0, 8 * kMiB, 0, 1)});
  EXPECT_FALSE(pool_->RunSlice(0));  // node 0
  EXPECT_TRUE(pool_->RunSlice(1));   // node 1
  pool_->RunUntilIdle();
  EXPECT_EQ(backend_->Resident(1, 0, 0, {})->node[1], 8 * kMiB);
  EXPECT_EQ(pool_->Stats().node_loaded[1], 8 * kMiB);
}

// Pages go where the thread's node is: no load asked for a device's memory.
TEST_F(LoaderThreadsTest, AMemoryOnlyNodeGetsWhatNamesItAndNothingElse) {
  const std::vector<NumaNode> nodes = {NumaNode{0, {}}, NumaNode{1, {0}}, NumaNode{2, {}}};
  LoaderPool pool(backend_.get(), nodes, {.threads_per_node = 1, .manual = true}, &completions_);
  SubmitTo(&pool, {Item(0, 8 * kMiB), Item(8 * kMiB, 8 * kMiB, 0, 2)});
  EXPECT_FALSE(pool.RunSlice(0));
  pool.RunUntilIdle();
  const Residency resident = *backend_->Resident(1, 0, 0, {});
  EXPECT_EQ(resident.node[0], 0u);
  EXPECT_EQ(resident.node[1], 8 * kMiB);
  EXPECT_EQ(resident.node[2], 8 * kMiB);
}

TEST_F(LoaderThreadsTest, ThreadsOfTheRightNodeAreWoken) {
  const std::vector<NumaNode> nodes = {NumaNode{0, {}}, NumaNode{1, {0}}, NumaNode{2, {}}};
  LoaderPool pool(backend_.get(), nodes, {.threads_per_node = 2}, &completions_);
  for (uint64_t i = 0; i < 20; ++i) {
    SubmitTo(&pool, {Item(i * 2 * kMiB, 2 * kMiB, 0, i % 2 == 0 ? -1 : 2)});
    ASSERT_NO_FATAL_FAILURE(Await(1));
  }
  const Residency resident = *backend_->Resident(1, 0, 0, {});
  EXPECT_EQ(resident.node[1], 20 * kMiB);
  EXPECT_EQ(resident.node[2], 20 * kMiB);
}

TEST_F(LoaderThreadsTest, WhatSomebodyWaitsForGoesBeforeWriters) {
  constexpr int kBestEffort = 2 << 13;
  std::atomic<long> seen{-1};
  backend_->OnLoad([&](const LoadRequest&) { seen = syscall(SYS_ioprio_get, 1, 0); });
  LoaderPool pool(backend_.get(), {NumaNode{0, {}}}, {.threads_per_node = 1}, &completions_);
  const auto load = [&](uint64_t at) {
    SubmitTo(&pool, {Item(at, 2 * kMiB)});
    ASSERT_NO_FATAL_FAILURE(Await(1));
  };
  load(0);
  EXPECT_EQ(seen, kBestEffort | 7);
  pool.NoteMiss(4);  // whose item it is
  load(2 * kMiB);
  EXPECT_EQ(seen, kBestEffort | 0);
}

// A device may name a node that is offline, or not allowed to us.
TEST_F(LoaderThreadsTest, ANodeWithoutThreadsIsLoadedByAny) {
  for (const int node : {1, 3, kMaxNodes}) {
    LoaderPool pool(backend_.get(), {NumaNode{0, {}}, NumaNode{2, {}}},
                    {.threads_per_node = 1, .manual = true}, &completions_);
    const auto offset = static_cast<uint64_t>(node) * 2 * kMiB;
    SubmitTo(&pool, {Item(offset, 2 * kMiB, 0, node)});
    pool.RunUntilIdle();
    EXPECT_TRUE(pool.IsIdle()) << node;
    EXPECT_EQ(backend_->Resident(1, offset, 2 * kMiB, {})->resident, 2 * kMiB) << node;
  }
}

// With real threads: one load is held while its group is replaced.
TEST_F(LoaderThreadsTest, ThreadsLoadAndAreInterrupted) {
  std::mutex mutex;
  std::condition_variable changed;
  int held = 0;
  bool open = false;
  backend_->OnLoad([&](const LoadRequest&) {
    std::unique_lock lock(mutex);
    ++held;
    changed.notify_all();
    changed.wait(lock, [&] { return open; });
  });
  LoaderPool pool(backend_.get(), Nodes(1), {.threads_per_node = 2}, &completions_);
  SubmitTo(&pool, {Item(0, 32 * kMiB)});
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return held == 2; });
  }
  SubmitTo(&pool, {Item(128 * kMiB, 8 * kMiB)}, /*replaces=*/true);
  {
    const std::lock_guard lock(mutex);
    open = true;
  }
  changed.notify_all();
  // Both held chunks and the new one come back.
  ASSERT_NO_FATAL_FAILURE(Await(3));
  EXPECT_EQ(Count(pool.Stats(), Interruption::kGeneration), 2u);
  EXPECT_EQ(backend_->Resident(1, 128 * kMiB, 8 * kMiB, {})->resident, 8 * kMiB);
  pool.Stop();
}

TEST_F(LoaderThreadsTest, ThreadsWaitForRoomWithoutBeingAsked) {
  backend_->SetMemoryOther(900 * kMiB);
  LoaderPool pool(backend_.get(), Nodes(2), {.threads_per_node = 2, .retry_ns = 1000 * 1000},
                  &completions_);
  SubmitTo(&pool, {Item(0, 8 * kMiB, 0, 0), Item(8 * kMiB, 8 * kMiB, 0, 1)});
  backend_->SetMemoryOther(0);
  backend_->AdvanceClock(50 * 1000 * 1000);  // what was seen before is old
  ASSERT_NO_FATAL_FAILURE(Await(2));
  EXPECT_EQ(backend_->ResidentBytes(1), 16 * kMiB);
}

// Reading a cgroup's files can take long: its lock is the kernel's.
class SlowMemory : public MemorySource {
 public:
  MemoryReading Read(bool) override {
    std::unique_lock lock(mutex_);
    is_read_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
    return MemoryReading{.limit = 1000 * kMiB, .used = 0, .threshold = 800 * kMiB};
  }
  void AwaitReader() {
    std::unique_lock lock(mutex_);
    ASSERT_TRUE(changed_.wait_for(lock, std::chrono::seconds(10), [this] { return is_read_; }));
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_read_ = false;
  bool is_open_ = false;
};

TEST_F(LoaderThreadsTest, WhoReadsMemoryHoldsUpNobody) {
  const auto slow = std::make_shared<SlowMemory>();
  const auto other = std::make_shared<Payer>();
  other->service = 5;
  other->budget = std::make_shared<Budget>(slow);
  LoaderPool pool(backend_.get(), Nodes(1), {.threads_per_node = 2, .retry_ns = 1000 * 1000},
                  &completions_);
  LoadItem held = Item(0, 8 * kMiB);
  held.payer = other;
  pool.Submit(std::span(&held, 1), false);
  ASSERT_NO_FATAL_FAILURE(slow->AwaitReader());
  // Submitting does not wait, nor does the other thread.
  std::thread submits([&] {
    LoadItem item = Item(128 * kMiB, 8 * kMiB);
    pool.Submit(std::span(&item, 1), false);
  });
  Await(1);
  EXPECT_EQ(backend_->Resident(1, 128 * kMiB, 8 * kMiB, {})->resident, 8 * kMiB);
  EXPECT_EQ(backend_->Resident(1, 0, 8 * kMiB, {})->resident, 0u);
  slow->Open();
  submits.join();
  Await(1);
  EXPECT_EQ(backend_->Resident(1, 0, 8 * kMiB, {})->resident, 8 * kMiB);
}

// ------------------------------------------------------------------ small items

TEST_F(LoaderThreadsTest, SmallItemsHaveThreadsOfTheirOwn) {
  Make({.threads_per_node = 1, .small_loads = 3});
  ASSERT_EQ(pool_->Threads(), 1);
  ASSERT_EQ(pool_->SmallThreads(), 3);
  Submit({Small(Item(0, 4096, 63)), Item(8 * kMiB, 2 * kMiB, 0)});
  EXPECT_FALSE(pool_->RunSlice(0) && backend_->Resident(1, 0, 4096, {})->resident > 0);
  EXPECT_EQ(backend_->Resident(1, 8 * kMiB, 2 * kMiB, {})->resident, 2 * kMiB);
  EXPECT_FALSE(pool_->RunSlice(0));  // what is left is not its own
  EXPECT_TRUE(pool_->RunSlice(2));
  EXPECT_EQ(backend_->Resident(1, 0, 4096, {})->resident, 4096u);
  EXPECT_FALSE(pool_->RunSlice(1));
  EXPECT_TRUE(pool_->IsIdle());
}

TEST_F(LoaderThreadsTest, WithoutSuchThreadsAnyLoadsSmallItems) {
  Make({.threads_per_node = 1});
  Submit({Small(Item(0, 4096, 63))});
  pool_->RunUntilIdle();
  EXPECT_EQ(backend_->Resident(1, 0, 4096, {})->resident, 4096u);
  EXPECT_EQ(Results().size(), 1u);
}

// They say how long the disk takes to answer, not what it gives.
TEST_F(LoaderThreadsTest, SmallItemsDoNotTellTheDevicesSpeed) {
  Make({.threads_per_node = 1, .small_loads = 2});
  SubmitSmall(100);
  pool_->RunUntilIdle();
  EXPECT_EQ(pool_->Device().bytes_per_s, 0u);
  EXPECT_EQ(pool_->Stats().loaded, 100u * 4096);
}

TEST_F(LoaderThreadsTest, AnInterruptedGroupOfSmallItemsIsOver) {
  Make({.threads_per_node = 1, .small_loads = 2});
  SubmitSmall(100);
  EXPECT_TRUE(pool_->RunSlice(1));
  pool_->Interrupt(4, 63);
  EXPECT_TRUE(pool_->IsIdle());
  EXPECT_EQ(pool_->Stats().loaded, 4096u);
}

// With real threads, which come with the first of them: as many are under way at once.
TEST_F(LoaderThreadsTest, AsManySmallItemsAreUnderWayAsThereAreThreads) {
  constexpr int kAtOnce = 8;
  std::mutex mutex;
  std::condition_variable changed;
  int held = 0;
  backend_->OnLoad([&](const LoadRequest& request) {
    if (request.length > 4096) return;
    std::unique_lock lock(mutex);
    ++held;
    changed.notify_all();
    changed.wait_for(lock, std::chrono::seconds(10), [&] { return held >= kAtOnce; });
  });
  LoaderPool pool(backend_.get(), Nodes(1), {.threads_per_node = 1, .small_loads = kAtOnce},
                  &completions_);
  EXPECT_EQ(pool.SmallThreads(), 0);
  std::vector<LoadItem> items{Item(128 * kMiB, 2 * kMiB)};
  for (uint64_t i = 0; i < kAtOnce; ++i) items.push_back(Small(Item(i * kMiB, 4096, 63)));
  pool.Submit(items, false);
  Await(kAtOnce + 1);
  EXPECT_EQ(pool.SmallThreads(), kAtOnce);
  EXPECT_EQ(held, kAtOnce);
  pool.Stop();
}

// Sanitizers need memory of their own for each thread.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// In a process of its own, whose memory has room for the stacks of a few more.
void StartMoreThanThereCanBe(Backend* backend) {
  constexpr rlim_t kRoom = 64 << 20;
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kRoom;
  const rlimit limit{most, most};
  setrlimit(RLIMIT_AS, &limit);
  try {
    Completions completions;
    const LoaderPool pool(backend, Nodes(2), {.threads_per_node = 64}, &completions);
  } catch (const std::system_error& error) {
    std::fputs(error.what(), stderr);
    std::_Exit(1);
  }
  std::_Exit(0);
}

// Those that run already end before the error does.
TEST_F(LoaderThreadsTest, NoMoreThreadsIsOneErrorWithARemedy) {
  EXPECT_EXIT(StartMoreThanThereCanBe(backend_.get()), testing::ExitedWithCode(1),
              "cannot start a thread that loads; raise TasksMax=.*Resource temporarily");
}
#endif

NumaNode NodeOf(int id, int first_cpu, size_t cpus) {
  NumaNode node{id, CpuList(cpus)};
  std::iota(node.cpus.begin(), node.cpus.end(), first_cpu);
  return node;
}

int ThreadsOf(const LoaderLayout& layout, int node) {
  return static_cast<int>(
      std::ranges::count(layout.Threads(), node, [](const auto& thread) { return thread.node; }));
}

TEST(LoaderLayout, ANodeHasAThreadForFourOfItsCpusWithinLimits) {
  const LoaderLayout layout(
      {NodeOf(0, 0, 2), NodeOf(1, 2, 32), NodeOf(2, 34, 200), NodeOf(3, 0, 0)}, 0, 4);
  EXPECT_EQ(ThreadsOf(layout, 0), 4);
  EXPECT_EQ(ThreadsOf(layout, 1), 8);
  EXPECT_EQ(ThreadsOf(layout, 2), 16);
  EXPECT_EQ(ThreadsOf(layout, 3), 4);
  EXPECT_EQ(layout.Threads().size(), 32u);
}

TEST(LoaderLayout, NoMoreThanTheMostAreTheLeast) {
  EXPECT_EQ(ThreadsOf(LoaderLayout({NodeOf(0, 0, 4)}, 0, 64), 0), 16);
  EXPECT_EQ(ThreadsOf(LoaderLayout({NodeOf(0, 0, 64)}, 0, 2, 2), 0), 2);
}

TEST(LoaderLayout, WhatIsConfiguredHolds) {
  const LoaderLayout layout({NodeOf(0, 0, 4), NodeOf(1, 4, 64)}, 20, 4);
  EXPECT_EQ(ThreadsOf(layout, 0), 20);
  EXPECT_EQ(ThreadsOf(layout, 1), 20);
}

// A node with more threads than another has the last of them.
TEST(LoaderLayout, NodesComeInTurnAndCoresToo) {
  const LoaderLayout layout({NodeOf(0, 0, 2), NodeOf(1, 2, 16)}, 0, 3);
  std::vector<int> nodes;
  std::vector<CpuList> cpus;
  for (const LoaderLayout::Thread& thread : layout.Threads()) {
    nodes.push_back(thread.node);
    cpus.push_back(thread.cpus);
  }
  EXPECT_EQ(nodes, (std::vector<int>{0, 1, 0, 1, 0, 1, 1}));
  EXPECT_EQ(cpus, (std::vector<CpuList>{{0}, {2}, {1}, {3}, {0}, {4}, {5}}));
}

TEST(LoaderLayout, NodesWithCpusTakeWhatIsForNone) {
  const LoaderLayout layout({NodeOf(0, 0, 0), NodeOf(1, 0, 4), NodeOf(3, 4, 4)}, 1, 1);
  EXPECT_EQ(layout.Nodes(), 4);
  EXPECT_TRUE(layout.HasThreads(0));
  EXPECT_FALSE(layout.HasThreads(2));
  EXPECT_FALSE(layout.TakesAny(0));
  EXPECT_TRUE(layout.TakesAny(1));
  EXPECT_FALSE(layout.TakesAny(2));
  EXPECT_TRUE(layout.TakesAny(3));
  EXPECT_EQ(layout.NodeInTurn(0), 1);
  EXPECT_EQ(layout.NodeInTurn(1), 3);
  EXPECT_EQ(layout.NodeInTurn(2), 1);
  EXPECT_TRUE(layout.Threads()[0].cpus.empty()) << "from anywhere";
}

TEST(LoaderLayout, WhereNoNodeHasCpusAllTakeWhatIsForNone) {
  const LoaderLayout layout({NodeOf(0, 0, 0), NodeOf(1, 0, 0)}, 1, 1);
  EXPECT_TRUE(layout.TakesAny(0));
  EXPECT_TRUE(layout.TakesAny(1));
}

}  // namespace
}  // namespace ppc
