// SPDX-License-Identifier: Apache-2.0
#include "daemon/cache/load_queue.h"

#include <algorithm>
#include <functional>
#include <iterator>
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
      node_bytes_(static_cast<size_t>(nodes) + 1, 0),
      had_(static_cast<size_t>(nodes) + 1, 0) {}

LoadQueue::ServiceQueues::const_iterator LoadQueue::QueueOf(uint32_t service) const {
  return std::ranges::find_if(service_queues_,
                              [&](const auto& queue) { return queue->service == service; });
}

uint32_t LoadQueue::SlotOf(uint32_t service, uint32_t group) {
  const auto known = QueueOf(service);
  ServiceQueue* queue = known == service_queues_.end() ? nullptr : known->get();
  if (queue == nullptr) {
    queue = service_queues_.emplace_back(std::make_unique<ServiceQueue>()).get();
    queue->service = service;
    queue->shares.resize(static_cast<size_t>(nodes_) + 1);
  }
  for (const uint32_t slot : queue->slots) {
    if (groups_[slot].number == group) return slot;
  }
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(groups_.size()));
    groups_.emplace_back().rings.resize(static_cast<size_t>(nodes_) + 1);
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  groups_[slot].number = group;
  groups_[slot].queue = queue;
  groups_[slot].rest_until_ns = 0;
  queue->slots.push_back(slot);
  queue->last = queue->slots.size() - 1;
  return slot;
}

std::vector<uint32_t> LoadQueue::SlotsOfService(uint32_t service) const {
  const auto queue = QueueOf(service);
  return queue == service_queues_.end() ? std::vector<uint32_t>() : (*queue)->slots;
}

std::vector<uint32_t> LoadQueue::SlotsOfGroup(uint32_t group) const {
  std::vector<uint32_t> slots;
  for (const auto& queue : service_queues_) {
    std::ranges::copy_if(queue->slots, std::back_inserter(slots),
                         [&](uint32_t slot) { return groups_[slot].number == group; });
  }
  return slots;
}

void LoadQueue::Free(uint32_t service) {
  const auto queue = QueueOf(service);
  if (queue == service_queues_.end()) return;
  for (const uint32_t slot : (*queue)->slots) groups_[slot].queue = nullptr;
  free_.insert(free_.end(), (*queue)->slots.begin(), (*queue)->slots.end());
  service_queues_.erase(queue);
}

uint64_t LoadQueue::BytesOf(uint32_t service) const {
  const auto queue = QueueOf(service);
  if (queue == service_queues_.end()) return 0;
  uint64_t bytes = 0;
  for (const uint32_t slot : (*queue)->slots) bytes += groups_[slot].bytes;
  return bytes;
}

// ------------------------------------------------------------------- who is next

void LoadQueue::Boost(uint32_t service, uint64_t until_ns) {
  const auto queue = QueueOf(service);
  if (queue != service_queues_.end()) (*queue)->boosted_until_ns = until_ns;
}

uint64_t LoadQueue::SoonestOf(ServiceQueue* queue, size_t index) {
  Share& share = queue->shares[index];
  if (std::exchange(share.is_known, true)) return share.soonest_ns;
  share.soonest_ns = UINT64_MAX;
  for (const uint32_t slot : queue->slots) {
    const ItemRing& ring = groups_[slot].rings[index];
    if (!ring.IsEmpty()) share.soonest_ns = std::min(share.soonest_ns, ring.Front().deadline_ns);
  }
  return share.soonest_ns;
}

// For each chunk, under the one lock, of hundreds of services: looks at no queue of a service of
// which nothing has come or gone, and sorts no more than is needed.
void LoadQueue::Gather(size_t index, uint64_t now_ns) {
  candidates_.clear();
  for (size_t at = 0; at < service_queues_.size(); ++at) {
    ServiceQueue& queue = *service_queues_[at];
    Share& share = queue.shares[index];
    if (share.queued == 0) continue;
    if (share.taken + kMostBehind < had_[index]) share.taken = had_[index] - kMostBehind;
    const uint64_t soonest = SoonestOf(&queue, index);
    const bool has_time = soonest > now_ns + kUrgentNs && now_ns >= queue.boosted_until_ns;
    candidates_.push_back({has_time, has_time ? soonest : 0, share.taken, at});
  }
  std::ranges::make_heap(candidates_, std::greater(), &Candidate::Order);
}

LoadQueue::ServiceQueue* LoadQueue::TakeCandidate() {
  std::ranges::pop_heap(candidates_, std::greater(), &Candidate::Order);
  ServiceQueue* const queue = service_queues_[candidates_.back().queue].get();
  candidates_.pop_back();
  return queue;
}

void LoadQueue::GiveBack(const LoadItem& item, uint64_t bytes) {
  const auto queue = QueueOf(ServiceOf(item.payer));
  if (queue == service_queues_.end()) return;
  uint64_t& taken = (*queue)->shares[Index(item.node)].taken;
  taken -= std::min(taken, bytes);
}

// -------------------------------------------------------------------------- items

void LoadQueue::Count(const LoadItem& item) {
  const size_t index = Index(item.node);
  Group& group = groups_[item.slot];
  ++items_;
  bytes_ += item.size;
  node_bytes_[index] += item.size;
  group.bytes += item.size;
  Share& share = group.queue->shares[index];
  if (share.queued == 0) share.taken = std::max(share.taken, had_[index]);
  share.queued += item.size;
  share.is_known = false;
}

// `bytes` of an item are no longer here.
void LoadQueue::Forget(const LoadItem& item, uint64_t bytes) {
  bytes_ -= bytes;
  node_bytes_[Index(item.node)] -= bytes;
  groups_[item.slot].bytes -= bytes;
  Share& share = groups_[item.slot].queue->shares[Index(item.node)];
  share.queued -= bytes;
  share.is_known = false;
  if (bytes == item.size) --items_;
}

bool LoadQueue::DropOldest(uint64_t newest_list, std::optional<LoadItem>* dropped) {
  ItemRing* oldest = nullptr;
  for (Group& group : groups_) {
    for (ItemRing& ring : group.rings) {
      if (ring.IsEmpty() || ring.Front().list >= newest_list) continue;
      if (oldest != nullptr && oldest->Front().list <= ring.Front().list) continue;
      oldest = &ring;
    }
  }
  if (oldest == nullptr) return false;
  *dropped = oldest->Front();
  Forget(oldest->Front(), oldest->Front().size);
  oldest->PopFront();
  return true;
}

bool LoadQueue::Append(LoadItem item, uint64_t list, std::optional<LoadItem>* dropped) {
  dropped->reset();
  if (items_ >= max_items_ && !DropOldest(list, dropped)) return false;
  item.list = list;
  item.slot = SlotOf(ServiceOf(item.payer), item.group);
  item.generation = Generation(item.slot);
  Count(item);
  ItemRing& ring = RingOf(item);
  ring.PushBack(std::move(item));
  return true;
}

void LoadQueue::PutBack(LoadItem item) {
  Count(item);
  ItemRing& ring = RingOf(item);
  ring.PushFront(std::move(item));
}

void LoadQueue::Advance(LoadItem* item, uint64_t bytes) {
  groups_[item->slot].queue->shares[Index(item->node)].taken += std::min(bytes, item->size);
  if (bytes >= item->size) {
    Forget(*item, item->size);
    RingOf(*item).PopFront();
    return;
  }
  Forget(*item, bytes);
  item->offset += bytes;
  item->size -= bytes;
}

void LoadQueue::Replace(uint32_t slot, uint64_t* dropped_items, uint64_t* dropped_bytes) {
  for (ItemRing& ring : groups_[slot].rings) {
    while (!ring.IsEmpty()) {
      ++*dropped_items;
      *dropped_bytes += ring.Front().size;
      Forget(ring.Front(), ring.Front().size);
      ring.PopFront();
    }
  }
  Age(slot);
}

void LoadQueue::Withdraw(uint32_t slot, std::vector<LoadItem>* withdrawn) {
  for (ItemRing& ring : groups_[slot].rings) {
    while (!ring.IsEmpty()) {
      Forget(ring.Front(), ring.Front().size);
      withdrawn->push_back(ring.Front());
      ring.PopFront();
    }
  }
}

}  // namespace ppc
