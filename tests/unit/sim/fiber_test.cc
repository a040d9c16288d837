// SPDX-License-Identifier: Apache-2.0
#include "sim/fiber.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "sim/disk.h"

namespace ppc::sim {
namespace {

bool Never() { return false; }
constexpr uint64_t kEnd = 1'000'000'000'000;

TEST(Scheduler, RunsInOrderOfTimeAndThenOfAsking) {
  Scheduler scheduler;
  std::string order;
  const uint64_t start = scheduler.NowNs();
  scheduler.At(start + 20, [&] { order += 'c'; });
  scheduler.At(start + 10, [&] { order += 'a'; });
  scheduler.At(start + 10, [&] { order += 'b'; });
  EXPECT_FALSE(scheduler.RunUntil(Never, kEnd));
  EXPECT_EQ(order, "abc");
  EXPECT_EQ(scheduler.NowNs(), start + 20);
}

TEST(Scheduler, AFiberSleepsUntilItsTimeOrUntilWoken) {
  Scheduler scheduler;
  const uint64_t start = scheduler.NowNs();
  bool early = true;
  bool woken = false;
  uint64_t slept = 0;
  uint64_t waited = 0;
  scheduler.Spawn([&] {
    early = scheduler.SleepUntil(start + 100);
    slept = scheduler.NowNs();
  });
  Fiber* waits = scheduler.Spawn([&] {
    woken = scheduler.SleepUntil(start + 1000);
    waited = scheduler.NowNs();
    scheduler.Sleep(5000);  // the timer of before must not end this one
    waited = scheduler.NowNs();
  });
  scheduler.At(start + 30, [&] { scheduler.Wake(waits); });
  scheduler.RunUntil([&] { return waits->IsDone(); }, kEnd);
  EXPECT_FALSE(early);
  EXPECT_EQ(slept, start + 100);
  EXPECT_TRUE(woken);
  EXPECT_EQ(waited, start + 5030);
}

TEST(Scheduler, AHeldFiberGoesOnWhenItIsReleased) {
  Scheduler scheduler;
  const uint64_t start = scheduler.NowNs();
  uint64_t slept = 0;
  uint64_t waited = 0;
  Fiber* sleeps = scheduler.Spawn([&] {
    scheduler.SleepUntil(start + 100);
    slept = scheduler.NowNs();
    scheduler.Wait();
    waited = scheduler.NowNs();
  });
  scheduler.At(start + 50, [&] { scheduler.Hold(sleeps); });
  scheduler.At(start + 300, [&] { scheduler.Release(sleeps); });  // its time has come
  scheduler.At(start + 400, [&] { scheduler.Hold(sleeps); });
  scheduler.At(start + 500, [&] { scheduler.Wake(sleeps); });
  scheduler.At(start + 600, [&] { scheduler.Release(sleeps); });
  scheduler.RunUntil([&] { return sleeps->IsDone(); }, kEnd);
  EXPECT_EQ(slept, start + 300);
  EXPECT_EQ(waited, start + 600);
}

TEST(Scheduler, AKilledFiberUnwindsItsStack) {
  auto alive = std::make_shared<int>(1);
  Scheduler scheduler;
  Fiber* fiber = scheduler.Spawn([&scheduler, alive] {
    const std::shared_ptr<int> copy = alive;
    scheduler.Wait();
    ADD_FAILURE() << "a killed fiber ran on";
  });
  scheduler.RunUntil(Never, scheduler.NowNs() + 1);
  EXPECT_GT(alive.use_count(), 1);
  scheduler.Kill(fiber);
  EXPECT_TRUE(fiber->IsDone());
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(Disk, TakesLatencyAndRate) {
  Scheduler scheduler;
  Disk disk(&scheduler, {.bytes_per_s = 1e6, .latency_ns = 1000, .burst_ns = 0, .queue_depth = 8});
  const uint64_t start = scheduler.NowNs();
  std::vector<uint64_t> ends;
  for (int i = 0; i < 3; ++i) disk.Submit(1000, [&] { ends.push_back(scheduler.NowNs() - start); });
  scheduler.RunUntil(Never, kEnd);
  // The latencies run side by side, the transfers do not.
  EXPECT_EQ(ends, (std::vector<uint64_t>{1'001'000, 2'001'000, 3'001'000}));
  EXPECT_EQ(disk.stats().bytes, 3000u);
}

TEST(Disk, ServesOnlySoManyAtOnceAndABurstAfterIdling) {
  Scheduler scheduler;
  Disk one(&scheduler, {.bytes_per_s = 1e12, .latency_ns = 1000, .burst_ns = 0, .queue_depth = 1});
  const uint64_t start = scheduler.NowNs();
  std::vector<uint64_t> ends;
  for (int i = 0; i < 2; ++i) one.Submit(1, [&] { ends.push_back(scheduler.NowNs() - start); });
  scheduler.RunUntil(Never, kEnd);
  EXPECT_EQ(ends, (std::vector<uint64_t>{1000, 2000}));

  Disk burst(&scheduler, {.bytes_per_s = 1e6, .latency_ns = 0, .burst_ns = 2'000'000});
  scheduler.At(scheduler.NowNs() + 10'000'000, [] {});
  scheduler.RunUntil(Never, kEnd);
  const uint64_t after = scheduler.NowNs();
  ends.clear();
  for (int i = 0; i < 3; ++i)
    burst.Submit(1000, [&] { ends.push_back(scheduler.NowNs() - after); });
  scheduler.RunUntil(Never, kEnd);
  EXPECT_EQ(ends, (std::vector<uint64_t>{0, 0, 1'000'000}));
}

}  // namespace
}  // namespace ppc::sim
