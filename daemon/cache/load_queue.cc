// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/load_queue.h"

#include <algorithm>
#include <utility>

namespace ppc {

void ItemRing::Grow() {
  std::vector<LoadItem> larger(std::max<size_t>(16, items_.size() * 2));
  for (size_t i = 0; i < count_; ++i) {
    larger[i] = std::move(items_[(head_ + i) % items_.size()]);
  }
  items_ = std::move(larger);
  head_ = 0;
}

void ItemRing::PushBack(LoadItem item) {
  if (count_ == items_.size()) Grow();
  items_[(head_ + count_) % items_.size()] = std::move(item);
  ++count_;
}

void ItemRing::PushFront(LoadItem item) {
  if (count_ == items_.size()) Grow();
  head_ = (head_ + items_.size() - 1) % items_.size();
  items_[head_] = std::move(item);
  ++count_;
}

void ItemRing::PopFront() {
  items_[head_].payer.reset();
  head_ = (head_ + 1) % items_.size();
  --count_;
}

LoadQueue::LoadQueue(int nodes, size_t max_items)
    : nodes_(nodes),
      max_items_(max_items),
      queues_(static_cast<size_t>(nodes) + 1),
      node_bytes_(static_cast<size_t>(nodes) + 1, 0) {}

void LoadQueue::Forget(size_t index, const LoadItem& item) {
  --items_;
  bytes_ -= item.size;
  node_bytes_[index] -= item.size;
}

bool LoadQueue::DropOldest(uint64_t newest_list, std::optional<LoadItem>* dropped) {
  ItemRing* oldest = nullptr;
  size_t oldest_index = 0;
  for (size_t index = 0; index < queues_.size(); ++index) {
    for (ItemRing& ring : queues_[index]) {
      if (ring.IsEmpty() || ring.Front().list >= newest_list) continue;
      if (oldest != nullptr && oldest->Front().list <= ring.Front().list) continue;
      oldest = &ring;
      oldest_index = index;
    }
  }
  if (oldest == nullptr) return false;
  *dropped = oldest->Front();
  Forget(oldest_index, oldest->Front());
  oldest->PopFront();
  return true;
}

bool LoadQueue::Append(LoadItem item, uint64_t list, std::optional<LoadItem>* dropped) {
  dropped->reset();
  if (items_ >= max_items_ && !DropOldest(list, dropped)) return false;
  item.list = list;
  item.generation = generations_[item.group];
  const size_t index = Index(item.node);
  ++items_;
  bytes_ += item.size;
  node_bytes_[index] += item.size;
  ItemRing& ring = queues_[index][item.group];
  ring.PushBack(std::move(item));
  return true;
}

void LoadQueue::PutBack(LoadItem item) {
  const size_t index = Index(item.node);
  ++items_;
  bytes_ += item.size;
  node_bytes_[index] += item.size;
  ItemRing& ring = queues_[index][item.group];
  ring.PushFront(std::move(item));
}

LoadItem* LoadQueue::Next(int node, uint32_t* group_turn) {
  const size_t index = Index(node);
  if (node_bytes_[index] == 0) return nullptr;
  for (uint32_t i = 1; i <= kMaxGroups; ++i) {
    const uint32_t group = (*group_turn + i) % kMaxGroups;
    ItemRing& ring = queues_[index][group];
    if (ring.IsEmpty()) continue;
    *group_turn = group;
    return &ring.Front();
  }
  return nullptr;
}

void LoadQueue::Advance(LoadItem* item, uint64_t bytes) {
  const size_t index = Index(item->node);
  ItemRing& ring = queues_[index][item->group];
  if (bytes >= item->size) {
    Forget(index, *item);
    ring.PopFront();
    return;
  }
  item->offset += bytes;
  item->size -= bytes;
  bytes_ -= bytes;
  node_bytes_[index] -= bytes;
}

uint64_t LoadQueue::Replace(uint32_t group, uint64_t* dropped_items, uint64_t* dropped_bytes) {
  for (size_t index = 0; index < queues_.size(); ++index) {
    ItemRing& ring = queues_[index][group];
    while (!ring.IsEmpty()) {
      ++*dropped_items;
      *dropped_bytes += ring.Front().size;
      Forget(index, ring.Front());
      ring.PopFront();
    }
  }
  return Age(group);
}

}  // namespace ppc
