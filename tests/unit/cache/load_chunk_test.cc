// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/load_chunk.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "tests/unit/units.h"

namespace ppc {
namespace {

class RoomyMemory : public MemorySource {
 public:
  MemoryReading Read(bool) override {
    return MemoryReading{.limit = 1000 * kMiB, .used = 0, .threshold = 800 * kMiB};
  }
};

// The first 8 MiB from 1 MiB on of an item of 64 MiB, granted by a budget.
class LoadChunkTest : public testing::Test {
 protected:
  LoadChunkTest() {
    payer_->service = 4;
    payer_->budget = std::make_shared<Budget>(std::make_shared<RoomyMemory>());
    payer_->budget->Refresh(0);
    chunk_ = LoadChunk(LoadItem{.file = 1,
                                .offset = 1 * kMiB,
                                .size = 64 * kMiB,
                                .cookie = 3,
                                .group = 7,
                                .payer = payer_},
                       payer_->budget->Reserve(8 * kMiB));
  }
  // A step that loaded so much and ended so.
  Interruption Step(uint64_t loaded, LoadStop stop = LoadStop::kDone) {
    return chunk_.EndStep(LoadResult{.loaded = loaded, .done = loaded, .stop = stop},
                          chunk_.NextStep());
  }

  std::shared_ptr<Payer> payer_ = std::make_shared<Payer>();
  LoadChunk chunk_{LoadItem{}, 0};
};

TEST_F(LoadChunkTest, StepsEndAtMultiplesOfTheirSize) {
  EXPECT_EQ(chunk_.NextStep(), 1 * kMiB);
  EXPECT_EQ(Step(1 * kMiB), Interruption::kNone);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(chunk_.NextStep(), 2 * kMiB);
    EXPECT_EQ(Step(2 * kMiB), Interruption::kNone);
  }
  EXPECT_EQ(chunk_.NextStep(), 1 * kMiB);
  EXPECT_FALSE(chunk_.IsOver());
  EXPECT_EQ(Step(1 * kMiB), Interruption::kNone);
  EXPECT_TRUE(chunk_.IsOver());
  EXPECT_EQ(chunk_.NotLoaded(), 0u);
  const IoResult result = *chunk_.Report(Interruption::kNone);
  EXPECT_EQ(result.service, 4u);
  EXPECT_EQ(result.group, 7u);
  EXPECT_EQ(result.cookie, 3u);
  EXPECT_EQ(result.offset, 1 * kMiB);
  EXPECT_EQ(result.size, 8 * kMiB);
  EXPECT_EQ(result.ok, 8 * kMiB);
  EXPECT_FALSE(result.interrupted);
}

TEST_F(LoadChunkTest, TheBudgetGetsBackWhatAStepHasDoneAndTheRestAtTheEnd) {
  EXPECT_EQ(payer_->budget->Inflight(), 8 * kMiB);
  Step(1 * kMiB);
  EXPECT_EQ(payer_->budget->Inflight(), 7 * kMiB);
  EXPECT_EQ(Step(0, LoadStop::kNoMemory), Interruption::kMemory);
  EXPECT_EQ(payer_->budget->Inflight(), 7 * kMiB);
  EXPECT_EQ(chunk_.Report(Interruption::kMemory)->size, 1 * kMiB);
  chunk_.GiveBack();
  EXPECT_EQ(payer_->budget->Inflight(), 0u);
  EXPECT_EQ(chunk_.NotLoaded(), 7 * kMiB);
}

// So that what was loaded before memory was short is told of.
TEST_F(LoadChunkTest, AStepWithoutMemoryForAllOfItHasDoneTheRest) {
  EXPECT_EQ(Step(1 * kMiB, LoadStop::kNoMemory), Interruption::kMemory);
  EXPECT_EQ(chunk_.Rest().offset, 2 * kMiB);
  EXPECT_EQ(chunk_.Report(Interruption::kMemory)->ok, 1 * kMiB);
  EXPECT_EQ(payer_->budget->Inflight(), 7 * kMiB);
}

TEST_F(LoadChunkTest, AStepThatDidNothingIsNotTriedAgain) {
  EXPECT_EQ(Step(0), Interruption::kNone);
  EXPECT_EQ(chunk_.Rest().offset, 2 * kMiB);
  EXPECT_EQ(chunk_.Rest().size, 7 * kMiB);
}

TEST_F(LoadChunkTest, AStepThatWasInterruptedIs) {
  for (const LoadStop stop : {LoadStop::kCancelled, LoadStop::kSignal}) {
    EXPECT_EQ(Step(4096, stop), Interruption::kNone);
    EXPECT_EQ(chunk_.Rest().offset, 1 * kMiB);
    EXPECT_EQ(chunk_.Rest().size, 8 * kMiB);
  }
}

TEST_F(LoadChunkTest, TheEndOfTheFileIsTheEndOfTheChunk) {
  Step(1 * kMiB);
  EXPECT_EQ(Step(4096, LoadStop::kEof), Interruption::kNone);
  EXPECT_TRUE(chunk_.IsOver());
  EXPECT_EQ(chunk_.Report(Interruption::kNone)->size, 1 * kMiB + 4096);
}

TEST_F(LoadChunkTest, AnErrorFailsAllThatIsLeft) {
  Step(1 * kMiB);
  EXPECT_EQ(chunk_.Fail(Error{EIO, ""}), Interruption::kNone);
  EXPECT_TRUE(chunk_.IsOver());
  const IoResult result = *chunk_.Report(Interruption::kNone);
  EXPECT_EQ(result.error, EIO);
  EXPECT_EQ(result.failed, 7 * kMiB);
  EXPECT_EQ(result.size, 8 * kMiB);
}

TEST_F(LoadChunkTest, WithoutTheDeviceNothingHasFailed) {
  EXPECT_EQ(chunk_.Fail(Error{ENODEV, ""}), Interruption::kShutdown);
  EXPECT_EQ(chunk_.Rest().size, 8 * kMiB);
  EXPECT_EQ(chunk_.Report(Interruption::kShutdown)->failed, 0u);
}

TEST_F(LoadChunkTest, WhatGoesOnLaterTellsOnlyWhatWasDone) {
  for (const Interruption reason :
       {Interruption::kMemory, Interruption::kBandwidth, Interruption::kLater}) {
    EXPECT_FALSE(chunk_.Report(reason).has_value()) << InterruptionName(reason);
  }
  Step(1 * kMiB);
  const IoResult part = *chunk_.Report(Interruption::kMemory);
  EXPECT_EQ(part.size, 1 * kMiB);
  EXPECT_FALSE(part.interrupted);
  const IoResult all = *chunk_.Report(Interruption::kGeneration);
  EXPECT_EQ(all.size, 8 * kMiB);
  EXPECT_TRUE(all.interrupted);
}

}  // namespace
}  // namespace ppc
