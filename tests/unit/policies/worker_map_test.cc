// SPDX-License-Identifier: Apache-2.0
// Processes to workers.
#include "policies/maio/base/worker_map.h"

#include <gtest/gtest.h>

#include "ppc.h"

namespace ppc::maio {
namespace {

miss_io From(int pid, int xpu, uint64_t start = 1, uint64_t time = 1) {
  miss_io e = {};
  e.pid = pid;
  e.start_ns = start;
  e.xpu = xpu;
  e.time_ns = time;
  return e;
}

ServiceSpec Spec(uint32_t workers, std::vector<int32_t> xpus) {
  ServiceSpec spec;
  spec.workers = workers;
  spec.xpus = std::move(xpus);
  return spec;
}

TEST(WorkerMap, ByPositionInTheXpuList) {
  WorkerMap map(Spec(4, {3, 1, 0, 2}), 4);
  EXPECT_EQ(map.Resolve(From(10, 3), true), 0u);
  EXPECT_EQ(map.Resolve(From(11, 0), true), 2u);
  EXPECT_EQ(map.XpuOf(1), 1);
  EXPECT_EQ(map.XpuOf(kCommonGroup), -1);
}

TEST(WorkerMap, UnknownProcessesAreCommonUntilTheyOpenADevice) {
  WorkerMap map(Spec(2, {0, 1}), 2);
  EXPECT_EQ(map.Resolve(From(10, -1), true), kCommonGroup);
  EXPECT_EQ(map.Resolve(From(10, 1), true), 1u);
  EXPECT_EQ(map.Resolve(From(10, 1), true), 1u);
}

TEST(WorkerMap, PidReuseIsAnotherProcess) {
  WorkerMap map(Spec(2, {0, 1}), 2);
  EXPECT_EQ(map.Resolve(From(10, 0, 1), true), 0u);
  EXPECT_EQ(map.Resolve(From(10, 1, 2), true), 1u);
}

TEST(WorkerMap, SeveralWorkersPerXpu) {
  WorkerMap map(Spec(4, {0, 1}), 2);
  EXPECT_EQ(map.Resolve(From(10, 0), true), 0u);
  EXPECT_EQ(map.Resolve(From(11, 0), true), 2u);
  EXPECT_EQ(map.Resolve(From(12, 1), true), 1u);
  EXPECT_EQ(map.Resolve(From(13, 1), true), 3u);
}

TEST(WorkerMap, WithoutXpusByFirstModelRead) {
  WorkerMap map(Spec(2, {}), 0);
  EXPECT_EQ(map.Resolve(From(9, -1), false), kCommonGroup);  // the API server reads config only
  EXPECT_EQ(map.Resolve(From(11, -1), true), 0u);
  EXPECT_EQ(map.Resolve(From(10, -1), true), 1u);
  EXPECT_EQ(map.Resolve(From(9, -1), false), kCommonGroup);
}

TEST(WorkerMap, SwapMovesProcessesAndXpus) {
  WorkerMap map(Spec(2, {0, 1}), 2);
  map.Resolve(From(10, 0), true);
  map.Resolve(From(11, 1), true);
  map.Swap(0, 1);
  EXPECT_EQ(map.Resolve(From(10, 0), true), 1u);
  EXPECT_EQ(map.Resolve(From(11, 1), true), 0u);
  EXPECT_EQ(map.XpuOf(1), 0);
  EXPECT_EQ(map.Resolve(From(12, 0), true), 1u);  // later processes follow
}

TEST(WorkerMap, ARecordingFollowsXpusWhereTheyAreKnownElseReads) {
  WorkerMap told(Spec(4, {0, 1}), 2);
  EXPECT_EQ(told.Resolve(From(10, 0), true), 0u);
  told.Swap(0, 2);
  EXPECT_EQ(told.Resolve(From(10, 0), true), 2u);
  EXPECT_EQ(told.RecordingGroup(From(10, 0), 2), 0u);
  // The other one of this XPU is the other worker, although 0 is nobody's now.
  EXPECT_EQ(told.Resolve(From(11, 0), true), 0u);
  EXPECT_EQ(told.RecordingGroup(From(11, 0), 0), 2u);
  EXPECT_EQ(told.RecordingGroup(From(12, 0), 1), 1u) << "not known: as it was resolved";

  WorkerMap untold(Spec(2, {}), 0);
  EXPECT_EQ(untold.Resolve(From(10, -1), true), 0u);
  untold.Swap(0, 1);
  const uint32_t group = untold.Resolve(From(10, -1), true);
  EXPECT_EQ(group, 1u);
  EXPECT_EQ(untold.RecordingGroup(From(10, -1), group), 1u);
  EXPECT_FALSE(untold.has_xpu_binding());
}

TEST(WorkerMap, WhatReadsSayOfABoundProcessDoesNotChangeItsRecording) {
  WorkerMap map(Spec(0, {}), 4);
  EXPECT_EQ(map.Resolve(From(10, 3), true), 3u);
  map.Move(From(10, 3), 0);  // the headers know of one worker only
  EXPECT_EQ(map.Resolve(From(10, 3), true), 0u);
  EXPECT_EQ(map.RecordingGroup(From(10, 3), 0), 3u);
}

TEST(WorkerMap, AnUnboundProcessIsRecordedAsTheWorkerThatItReadsAs) {
  WorkerMap map(Spec(2, {0, 1}), 2);
  EXPECT_EQ(map.Resolve(From(10, 0), true), 0u);
  map.Swap(0, 1);
  EXPECT_EQ(map.Resolve(From(11, -1), true), kCommonGroup);
  map.Move(From(11, -1), 0);
  EXPECT_EQ(map.Resolve(From(11, -1), true), 0u);
  // 0 is recorded for the process on the first XPU, which reads as 1.
  EXPECT_EQ(map.RecordingGroup(From(10, 0), 1), 0u);
  EXPECT_EQ(map.RecordingGroup(From(11, -1), 0), 1u);
}

TEST(WorkerMap, ARetryTakesOverASilentWorker) {
  WorkerMap map(Spec(1, {0}), 1);
  miss_io old = From(10, 0, 1, 1'000'000'000);
  map.Resolve(old, true);
  EXPECT_FALSE(map.ReplacedPrevious(old));
  miss_io fork = From(11, 0, 2, 1'500'000'000);
  map.Resolve(fork, true);
  EXPECT_FALSE(map.ReplacedPrevious(fork));  // the first may still read
  old.time_ns = 1'600'000'000;
  map.Resolve(old, true);
  fork.time_ns = 4'000'000'000;
  map.Resolve(fork, true);
  EXPECT_FALSE(map.ReplacedPrevious(fork));  // it did: a helper process
  miss_io retry = From(12, 0, 3, 9'000'000'000);
  map.Resolve(retry, true);
  EXPECT_TRUE(map.ReplacedPrevious(retry));
  EXPECT_FALSE(map.ReplacedPrevious(retry));
}

TEST(WorkerMap, AProcessThatIsBackAtOnceTakesOverABitLater) {
  WorkerMap map(Spec(1, {0}), 1);
  miss_io old = From(10, 0, 1, 1'000'000'000);
  map.Resolve(old, true);
  miss_io retry = From(11, 0, 2, 1'100'000'000);
  map.Resolve(retry, true);
  EXPECT_FALSE(map.ReplacedPrevious(retry));
  retry.time_ns = 2'200'000'000;
  map.Resolve(retry, true);
  EXPECT_TRUE(map.ReplacedPrevious(retry));
}

}  // namespace
}  // namespace ppc::maio
