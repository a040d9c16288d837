// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/load_admission.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>

#include "tests/unit/units.h"

namespace ppc {
namespace {

using Found = LoadAdmission::Found;

class SteadyMemory : public MemorySource {
 public:
  explicit SteadyMemory(uint64_t used) : used_(used) {}
  MemoryReading Read(bool) override {
    return MemoryReading{.limit = 1000 * kMiB, .used = used_, .threshold = 800 * kMiB};
  }

 private:
  const uint64_t used_;
};

std::shared_ptr<Payer> PayerOf(uint32_t service, uint64_t used) {
  auto payer = std::make_shared<Payer>();
  payer->service = service;
  payer->budget = std::make_shared<Budget>(std::make_shared<SteadyMemory>(used));
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
  LoadAdmission admission_{&queue_, &layout_, 8 * kMiB, LoadAdmission::kMemoryAgeNs};
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
