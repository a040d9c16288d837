// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/load_queue.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <utility>

namespace ppc {
namespace {

LoadItem Item(uint32_t group, int node, uint64_t offset, uint64_t size = 100) {
  return LoadItem{.file = 1, .offset = offset, .size = size, .group = group, .node = node};
}

class LoadQueueTest : public testing::Test {
 protected:
  explicit LoadQueueTest(size_t max_items = 4) : queue_(2, max_items) {}
  bool Append(LoadItem item, uint64_t list = 1) {
    return queue_.Append(std::move(item), list, &dropped_);
  }
  // Offset of the next item of `node` or else without a node, -1 if none; takes it.
  int64_t Take(int node) {
    LoadItem* item = Next(node);
    if (item == nullptr) item = Next(-1);
    if (item == nullptr) return -1;
    const auto offset = static_cast<int64_t>(item->offset);
    queue_.Advance(item, item->size);
    return offset;
  }
  LoadItem* Next(int node) {
    return queue_.Next(node, now_ns_, [](const LoadItem*) { return true; });
  }
  LoadQueue queue_;
  std::optional<LoadItem> dropped_;
  uint64_t now_ns_ = 1;
};

TEST_F(LoadQueueTest, OwnNodeThenAnyNode) {
  Append(Item(0, -1, 1));
  Append(Item(0, 1, 2));
  Append(Item(0, 0, 3));
  EXPECT_EQ(Take(1), 2);
  EXPECT_EQ(Take(1), 1);
  EXPECT_EQ(Take(1), -1);  // node 0's is not ours
  EXPECT_EQ(queue_.Bytes(0), 100u);
  EXPECT_EQ(queue_.Bytes(1), 0u);
  EXPECT_EQ(queue_.Bytes(-1), 0u);
  EXPECT_EQ(Take(0), 3);
  EXPECT_EQ(queue_.Bytes(), 0u);
}

TEST_F(LoadQueueTest, GroupsTakeTurns) {
  Append(Item(0, 0, 1));
  Append(Item(0, 0, 2));
  Append(Item(5, 0, 3));
  EXPECT_EQ(Take(0), 1);
  EXPECT_EQ(Take(0), 3);
  EXPECT_EQ(Take(0), 2);
}

TEST_F(LoadQueueTest, PartOfAnItem) {
  Append(Item(0, 0, 0, 100));
  LoadItem* item = Next(0);
  queue_.Advance(item, 30);
  EXPECT_EQ(queue_.Bytes(), 70u);
  EXPECT_EQ(Take(0), 30);
}

TEST_F(LoadQueueTest, ReplaceEmptiesOneGroupAndAgesIt) {
  Append(Item(3, 0, 1));
  Append(Item(3, -1, 2));
  Append(Item(4, 0, 3));
  uint64_t items = 0;
  uint64_t bytes = 0;
  const uint32_t slot = queue_.SlotOf(0, 3);
  const uint32_t other = queue_.SlotOf(0, 4);
  const uint64_t before = queue_.Generation(slot);
  queue_.Replace(slot, &items, &bytes);
  EXPECT_EQ(queue_.Generation(slot), before + 1);
  EXPECT_EQ(items, 2u);
  EXPECT_EQ(bytes, 200u);
  EXPECT_EQ(queue_.Generation(other), 0u);
  EXPECT_EQ(Take(0), 3);
}

TEST_F(LoadQueueTest, FullQueueDropsTheOldestOfOlderLists) {
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(Append(Item(static_cast<uint32_t>(i), 0, i), i + 1));
  ASSERT_TRUE(Append(Item(9, 0, 9), 5));
  ASSERT_TRUE(dropped_.has_value());
  EXPECT_EQ(dropped_->offset, 0u);
  EXPECT_EQ(queue_.Items(), 4u);
}

TEST_F(LoadQueueTest, FullOfOneListRefuses) {
  for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(Append(Item(0, 0, i), 7));
  EXPECT_FALSE(Append(Item(0, 0, 9), 7));
  EXPECT_FALSE(dropped_.has_value());
}

TEST_F(LoadQueueTest, PutBackComesFirst) {
  Append(Item(0, 0, 5));
  queue_.PutBack(Item(0, 0, 1));
  EXPECT_EQ(Take(0), 1);
}

class ServicesTest : public LoadQueueTest {
 protected:
  ServicesTest() : LoadQueueTest(4096) {}
  void Want(uint32_t service, int count, uint64_t size, uint64_t deadline_ns = 0,
            uint32_t group = 0) {
    auto payer = std::make_shared<Payer>();
    payer->service = service;
    for (int i = 0; i < count; ++i) {
      LoadItem item = Item(group, 0, 0, size);
      item.payer = payer;
      item.deadline_ns = deadline_ns;
      ASSERT_TRUE(Append(std::move(item)));
    }
  }
  // Takes items until so many bytes are taken; bytes by service.
  std::map<uint32_t, uint64_t> TakeBytes(uint64_t bytes) {
    std::map<uint32_t, uint64_t> taken;
    for (uint64_t sum = 0; sum < bytes;) {
      LoadItem* const item = Next(0);
      if (item == nullptr) break;
      sum += item->size;
      taken[ServiceOf(item->payer)] += item->size;
      queue_.Advance(item, item->size);
    }
    return taken;
  }
  static constexpr uint64_t kSecond = 1'000'000'000;
};

// What was soonest of a service is kept until something of it comes or goes.
TEST_F(ServicesTest, ANearerRangeOfAnotherGroupMakesAServiceUrgent) {
  Want(1, 2, 100, 100 * kSecond);
  Want(2, 2, 100, 50 * kSecond);
  const auto next = [this] { return ServiceOf(Next(0)->payer); };
  EXPECT_EQ(next(), 2u);
  Want(1, 1, 100, kSecond, 1);
  EXPECT_EQ(next(), 1u);
  queue_.Advance(Next(0), 50);
  EXPECT_EQ(next(), 1u) << "half of it is left";
  queue_.Advance(Next(0), 50);
  EXPECT_EQ(next(), 2u);
  LoadItem urgent = *Next(0);
  urgent.deadline_ns = kSecond;
  queue_.PutBack(std::move(urgent));
  EXPECT_EQ(TakeBytes(100), (std::map<uint32_t, uint64_t>{{2, 100}}));
  EXPECT_EQ(next(), 2u);
}

TEST_F(ServicesTest, ShareAlikeWhateverTheirRangesAreCutTo) {
  Want(1, 1000, 100);
  Want(2, 20, 5000);
  const auto taken = TakeBytes(100'000);
  EXPECT_NEAR(static_cast<double>(taken.at(1)), 50'000, 5'000);
}

TEST_F(ServicesTest, WhoHasTimeLetsOthersGoFirst) {
  Want(1, 10, 100, now_ns_ + 60 * kSecond);
  Want(2, 10, 100);
  Want(3, 10, 100, now_ns_ + kSecond);
  auto taken = TakeBytes(2000);
  EXPECT_EQ(taken[1], 0u);
  EXPECT_EQ(taken[2], 1000u);
  EXPECT_EQ(taken[3], 1000u);
  // No other service wants the device.
  EXPECT_EQ(TakeBytes(500)[1], 500u);
  // Its time has gone, though others want it still.
  now_ns_ += 59 * kSecond;
  Want(2, 10, 100);
  taken = TakeBytes(1000);
  EXPECT_EQ(taken[1], 500u);
  EXPECT_EQ(taken[2], 500u);
}

TEST_F(ServicesTest, OfThoseWhoHaveTimeWhoNeedsItFirst) {
  Want(1, 10, 100, now_ns_ + 60 * kSecond);
  Want(2, 10, 100, now_ns_ + 30 * kSecond);
  EXPECT_EQ(TakeBytes(1000)[2], 1000u);
  EXPECT_EQ(TakeBytes(1000)[1], 1000u);
}

TEST_F(ServicesTest, WhoHasMissedHasNoTime) {
  Want(1, 10, 100, now_ns_ + 60 * kSecond);
  Want(2, 10, 100);
  queue_.Boost(1, now_ns_ + 1);
  EXPECT_EQ(TakeBytes(1000)[1], 500u);
  now_ns_ += 1;
  EXPECT_EQ(TakeBytes(500)[1], 0u);
}

// Its last load may still be in flight.
TEST_F(ServicesTest, NobodyWaitsForWhoHasEnded) {
  Want(1, 1, 100);
  const uint32_t slot = Next(0)->slot;
  queue_.Boost(1, now_ns_ + kSecond);
  EXPECT_TRUE(queue_.IsBoosted(slot, now_ns_));
  EXPECT_EQ(TakeBytes(100)[1], 100u);
  queue_.Free(1);
  EXPECT_FALSE(queue_.IsBoosted(slot, now_ns_));
}

TEST_F(ServicesTest, WhoWasAwayIsNotMadeUpFor) {
  Want(1, 100, 100);
  EXPECT_EQ(TakeBytes(5000)[1], 5000u);
  Want(2, 100, 100);
  EXPECT_EQ(TakeBytes(2000)[2], 1000u);
}

// What lay in the cache has cost the others nothing.
TEST_F(ServicesTest, WhatDidNotNeedTheDeviceDoesNotCount) {
  Want(1, 100, 100);
  Want(2, 100, 100);
  for (int i = 0; i < 20; ++i) {
    LoadItem* const item = Next(0);
    const LoadItem copy = *item;
    queue_.Advance(item, item->size);
    if (ServiceOf(copy.payer) == 1) queue_.GiveBack(copy, copy.size);
  }
  EXPECT_EQ(queue_.BytesOf(2), 10'000u);  // its turn has not come yet
  EXPECT_EQ(queue_.BytesOf(1), 8'000u);
}

TEST(ItemRing, KeepsOrderWhileGrowingAndWrapping) {
  ItemRing ring;
  for (uint64_t i = 0; i < 10; ++i) ring.PushBack(Item(0, 0, i));
  for (uint64_t i = 0; i < 7; ++i) ring.PopFront();
  for (uint64_t i = 10; i < 60; ++i) ring.PushBack(Item(0, 0, i));
  ring.PushFront(Item(0, 0, 6));
  for (uint64_t i = 6; i < 60; ++i) {
    ASSERT_EQ(ring.Front().offset, i);
    ring.PopFront();
  }
  EXPECT_TRUE(ring.IsEmpty());
}

}  // namespace
}  // namespace ppc
