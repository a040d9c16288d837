// SPDX-License-Identifier: Apache-2.0
// What a budget grants, and which thread loads what by it.
#include "daemon/cache/budget.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "daemon/backend/backend.h"
#include "daemon/cache/load_admission.h"
#include "tests/unit/units.h"

namespace ppc {
namespace {

class FixedMemory : public MemorySource {
 public:
  explicit FixedMemory(uint64_t used_bytes = 0) : used(used_bytes) {}
  MemoryReading Read(bool) override {
    return MemoryReading{.limit = 1000 * kMiB, .used = used, .threshold = 800 * kMiB};
  }
  uint64_t used;
};

class BudgetTest : public testing::Test {
 protected:
  uint64_t Reserve(uint64_t bytes) {
    budget_.Refresh(++now_ns_);
    return budget_.Reserve(bytes);
  }
  uint64_t now_ns_ = 0;
  std::shared_ptr<FixedMemory> memory_ = std::make_shared<FixedMemory>();
  Budget budget_{memory_};
};

TEST_F(BudgetTest, InFlightStaysWithinAnEighth) {
  uint64_t granted = 0;
  while (const uint64_t part = Reserve(8 * kMiB)) granted += part;
  EXPECT_EQ(granted, 100 * kMiB);
  budget_.Release(8 * kMiB);
  EXPECT_EQ(Reserve(8 * kMiB), 8 * kMiB);
}

TEST_F(BudgetTest, GrantsOnlyWhatFits) {
  memory_->used = 795 * kMiB;
  EXPECT_EQ(Reserve(8 * kMiB), 4 * kMiB);  // whole steps
  EXPECT_EQ(Reserve(8 * kMiB), 0u);
  EXPECT_EQ(Reserve(kMiB), kMiB);  // all of what was asked fits
  EXPECT_EQ(budget_.Read(false).room, 0u);
  EXPECT_EQ(budget_.Read(false).inflight, 5 * kMiB);
}

// For a policy that makes room before it loads.
TEST_F(BudgetTest, MayUseTheLimitButForAMargin) {
  memory_->used = 900 * kMiB;
  EXPECT_EQ(Reserve(8 * kMiB), 0u);
  budget_.SetUsesLimit(true);
  EXPECT_EQ(Reserve(8 * kMiB), 8 * kMiB);
  EXPECT_EQ(budget_.Read(false).memory.threshold, 968 * kMiB);
  memory_->used = 967 * kMiB;
  EXPECT_EQ(Reserve(8 * kMiB), 0u);
  budget_.SetUsesLimit(false);
  EXPECT_EQ(budget_.Read(false).memory.threshold, 800 * kMiB);
}

TEST_F(BudgetTest, AReaderThatWaitsNeedsNoRoom) {
  memory_->used = 1000 * kMiB;
  budget_.Refresh(1);
  EXPECT_EQ(budget_.Reserve(8 * kMiB), 0u);
  EXPECT_EQ(budget_.Reserve(8 * kMiB, /*is_waited=*/true), 8 * kMiB);
  EXPECT_EQ(budget_.Reserve(800 * kMiB, /*is_waited=*/true), 92 * kMiB) << "an eighth in flight";
}

// Reading again for every chunk would be one lock for all threads.
TEST_F(BudgetTest, WhatCameSinceTheReadingCountsAsUsed) {
  memory_->used = 784 * kMiB;
  budget_.Refresh(1);
  EXPECT_EQ(budget_.Reserve(8 * kMiB), 8 * kMiB);
  budget_.Release(8 * kMiB);
  EXPECT_EQ(budget_.Reserve(8 * kMiB), 8 * kMiB);
  EXPECT_EQ(budget_.Reserve(8 * kMiB), 0u);
  budget_.Release(8 * kMiB);
  EXPECT_EQ(budget_.Reserve(8 * kMiB), 0u);
  EXPECT_EQ(Reserve(8 * kMiB), 8 * kMiB);  // the reading says it was not loaded
}

TEST_F(BudgetTest, AReadingGrowsOld) {
  EXPECT_FALSE(budget_.IsKnown(0, 100));
  EXPECT_EQ(budget_.Reserve(8 * kMiB), 0u);  // nothing is known
  budget_.Refresh(50);
  EXPECT_TRUE(budget_.IsKnown(149, 100));
  EXPECT_FALSE(budget_.IsKnown(150, 100));
}

TEST_F(BudgetTest, NothingAboveTheThreshold) {
  memory_->used = 801 * kMiB;
  EXPECT_TRUE(budget_.IsAbove());
  EXPECT_EQ(Reserve(4096), 0u);
}

TEST_F(BudgetTest, ALookHasAnAge) {
  memory_->used = 700 * kMiB;
  EXPECT_EQ(Reserve(8 * kMiB), 8 * kMiB);
  EXPECT_EQ(Reserve(8 * kMiB), 8 * kMiB);
  budget_.Release(8 * kMiB);
  budget_.NoteDropped(kMiB);
  const Budget::State look = budget_.Read(true);
  EXPECT_EQ(budget_.Now(look).memory.used, 700 * kMiB) << "what was before it is in it";
  EXPECT_EQ(budget_.Now(look).room, 92 * kMiB);
  EXPECT_FALSE(budget_.HasChangedSince(look));
  budget_.NoteDropped(30 * kMiB);
  EXPECT_EQ(budget_.Now(look).memory.used, 670 * kMiB);
  EXPECT_EQ(budget_.Now(look).room, 122 * kMiB);
  budget_.Release(8 * kMiB);  // settled, for all that is known as page cache
  EXPECT_EQ(budget_.Now(look).memory.used, 670 * kMiB);
  EXPECT_EQ(budget_.Now(look).room, 122 * kMiB);
  EXPECT_EQ(budget_.Read(true).room, 100 * kMiB);
  EXPECT_TRUE(budget_.HasChangedSince(look));
}

using Found = LoadAdmission::Found;

std::shared_ptr<Payer> PayerOf(uint32_t service, uint64_t used) {
  auto payer = std::make_shared<Payer>();
  payer->service = service;
  payer->budget = std::make_shared<Budget>(std::make_shared<FixedMemory>(used));
  return payer;
}

// Node 0 has memory only, node 1 CPUs.
class LoadAdmissionTest : public testing::Test {
 protected:
  void Queue(LoadItem item) {
    item.file = 1;
    std::optional<LoadItem> dropped;
    ASSERT_TRUE(queue_.Append(std::move(item), queue_.NewList(), &dropped));
  }
  LoadAdmission::Choice Choose(const LoaderThread& loader, bool has_small = false) {
    return admission_.Choose(loader, has_small, now_ns_);
  }

  uint64_t now_ns_ = 1000 * kMs;
  LoaderLayout layout_{{NumaNode{0, {}}, NumaNode{1, {0}}}, 1, 1};
  LoadQueue queue_{2, 100};
  StepTimes step_times_{&queue_, layout_, 0};
  LoadAdmission admission_{&queue_, &layout_, &step_times_, 8 * kMiB, LoadAdmission::kMemoryAgeNs};
  LoaderThread memory_only_{.index = 0, .node = 0};
  LoaderThread loader_{.index = 1, .node = 1};
};

TEST_F(LoadAdmissionTest, ChunksEndAtMultiplesOfTheirSize) {
  EXPECT_EQ(Choose(loader_).found, Found::kNothing);
  Queue({.offset = 7 * kMiB, .size = 64 * kMiB});
  const LoadAdmission::Choice first = Choose(loader_);
  ASSERT_EQ(first.found, Found::kItem);
  EXPECT_EQ(first.bytes, 1 * kMiB);
  queue_.Advance(first.item, first.bytes);
  EXPECT_EQ(Choose(loader_).bytes, 8 * kMiB);
}

TEST_F(LoadAdmissionTest, ALoadersOwnNodeComesFirst) {
  Queue({.offset = 0, .size = kMiB});
  Queue({.offset = kMiB, .size = kMiB, .node = 1});
  EXPECT_EQ(Choose(loader_).item->node, 1);
  EXPECT_EQ(Choose(memory_only_).found, Found::kNothing) << "what is for no node";
}

TEST_F(LoadAdmissionTest, SmallItemsAreForTheirWorkersIfThereAreAny) {
  Queue({.size = 4096, .is_small = true});
  EXPECT_EQ(Choose(loader_, true).found, Found::kNothing);
  EXPECT_EQ(Choose(loader_, false).found, Found::kItem);
  const LoaderThread small{.index = 0, .node = 1, .is_for_small = true};
  EXPECT_EQ(Choose(small, true).found, Found::kItem);
}

TEST_F(LoadAdmissionTest, AGroupThatRestsHasWorkButNoRoom) {
  Queue({.size = kMiB});
  queue_.RestUntil(queue_.SlotOf(0, 0)) = now_ns_ + 1;
  EXPECT_EQ(Choose(loader_).found, Found::kNoRoom);
  ++now_ns_;
  EXPECT_EQ(Choose(loader_).found, Found::kItem);
}

TEST_F(LoadAdmissionTest, NothingIsGrantedByAPayerThatNobodyLookedAt) {
  const auto payer = PayerOf(4, 0);
  Queue({.size = 8 * kMiB, .payer = payer});
  EXPECT_EQ(Choose(loader_).unknown, payer);
  EXPECT_EQ(payer->budget->Inflight(), 0u);
  LoadAdmission::Look(payer.get(), now_ns_);
  const LoadAdmission::Choice choice = Choose(loader_);
  ASSERT_EQ(choice.found, Found::kItem);
  EXPECT_EQ(choice.unknown, nullptr);
  EXPECT_EQ(choice.bytes, 8 * kMiB);
  EXPECT_EQ(payer->budget->Inflight(), 8 * kMiB);
  now_ns_ += LoadAdmission::kMemoryAgeNs;
  EXPECT_EQ(Choose(loader_).unknown, payer) << "what was seen is old";
}

TEST_F(LoadAdmissionTest, ThatThereIsNoRoomIsLookedAtAgainAndHoldsUpNobody) {
  const auto full = PayerOf(4, 800 * kMiB);
  LoadAdmission::Look(full.get(), now_ns_);
  Queue({.size = 8 * kMiB, .payer = full});
  EXPECT_EQ(Choose(loader_).unknown, full) << "known, but who believes it sleeps";
  loader_.looked.push_back(full.get());
  EXPECT_EQ(Choose(loader_).found, Found::kNoRoom);
  Queue({.size = 8 * kMiB, .group = 1, .is_waited = true, .payer = full});
  EXPECT_TRUE(Choose(loader_).item->is_waited) << "the kernel makes room";
  queue_.Advance(Choose(loader_).item, 8 * kMiB);
  const auto roomy = PayerOf(5, 0);
  LoadAdmission::Look(roomy.get(), now_ns_);
  Queue({.size = 8 * kMiB, .payer = roomy});
  const LoadAdmission::Choice choice = Choose(loader_);
  ASSERT_EQ(choice.found, Found::kItem);
  EXPECT_EQ(choice.item->payer, roomy);
}

// The thread that reads memory does not come back.
TEST_F(LoadAdmissionTest, AnOldReadingGrantsNothingEvenToWhoLooked) {
  const auto payer = PayerOf(4, 0);
  LoadAdmission::Look(payer.get(), now_ns_);
  Queue({.size = 8 * kMiB, .payer = payer});
  loader_.looked.push_back(payer.get());
  now_ns_ += 499 * kMs;
  EXPECT_EQ(Choose(loader_).found, Found::kItem);
  now_ns_ += kMs;
  EXPECT_EQ(Choose(loader_).found, Found::kNoRoom);
}

}  // namespace
}  // namespace ppc
