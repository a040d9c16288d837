// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/load_queue.h"

#include <gtest/gtest.h>

namespace ppc {
namespace {

LoadItem Item(uint32_t group, int node, uint64_t offset, uint64_t size = 100) {
  return LoadItem{.file = 1, .offset = offset, .size = size, .group = group, .node = node};
}

class LoadQueueTest : public testing::Test {
 protected:
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
    return queue_.Next(node, &turn_, [](const LoadItem*) { return true; });
  }
  LoadQueue queue_{2, 4};
  std::optional<LoadItem> dropped_;
  size_t turn_ = 0;
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
