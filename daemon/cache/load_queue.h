// SPDX-License-Identifier: Apache-2.0
// Owns the ranges that wait to be loaded: a queue per (service, group, node), taken in turn among
// the services and their groups, bounded; and the generation of every group.
// Threads: none of its own; LoaderPool locks.  Newest is read without the lock.
#ifndef PPC_DAEMON_CACHE_LOAD_QUEUE_H_
#define PPC_DAEMON_CACHE_LOAD_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/backend/charge_handle.h"
#include "daemon/cache/budget.h"
#include "daemon/cache/read_rate.h"

namespace ppc {

// Who pays for a load.
struct Payer {
  std::shared_ptr<const ChargeHandle> charge;  // nullptr = ourselves
  uint32_t service = 0;
  std::shared_ptr<Budget> budget;
  std::shared_ptr<ReadRate> rate;  // nullptr = nothing limits reading
};

inline uint32_t ServiceOf(const std::shared_ptr<Payer>& payer) {
  return payer != nullptr ? payer->service : 0;
}

inline uint32_t ChargeOf(const std::shared_ptr<Payer>& payer) {
  return payer != nullptr && payer->charge != nullptr ? payer->charge->number() : 0;
}

struct LoadItem {
  uint64_t file = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t cookie = 0;
  uint32_t group = 0;  // of the payer's service
  int node = -1;
  std::shared_ptr<Payer> payer;
  uint32_t slot = 0;        // of the group; set by LoadQueue
  uint64_t generation = 0;  // of the group when it was queued; set by LoadQueue
  uint64_t list = 0;        // serial number of the list it came in; set by LoadQueue
};

// A queue in one growing block of memory: no allocation once it is large enough.
class ItemRing {
 public:
  bool IsEmpty() const { return count_ == 0; }
  size_t Size() const { return count_; }
  LoadItem& Front() { return items_[head_]; }
  const LoadItem& Front() const { return items_[head_]; }
  void PushBack(LoadItem item);
  void PushFront(LoadItem item);
  void PopFront();

 private:
  void Grow();
  std::vector<LoadItem> items_;
  size_t head_ = 0;
  size_t count_ = 0;
};

class LoadQueue {
 public:
  // nodes: how many queues by node; max_items bounds all together.
  LoadQueue(int nodes, size_t max_items);

  // The group of a service, a place of its own while the service runs.
  uint32_t SlotOf(uint32_t service, uint32_t group);
  // All of a service's, or those of every service with this number.
  std::vector<uint32_t> SlotsOfService(uint32_t service) const;
  std::vector<uint32_t> SlotsOfGroup(uint32_t group) const;
  size_t Slots() const { return groups_.size(); }
  // Lets other services have the places, whose queues must be empty.
  void Free(uint32_t service);

  // Starts a new list; with `list` numbers older ones can be told from newer ones.
  uint64_t NewList() { return ++lists_; }

  // Appends to its group's queue.  If all is full, the oldest item of an older list makes
  // place and is returned in *dropped; false: full of this very list, the item is refused.
  bool Append(LoadItem item, uint64_t list, std::optional<LoadItem>* dropped);
  // Puts the rest of an interrupted item back where it was.
  void PutBack(LoadItem item);

  // The next item of a node, -1: of those without a node, that is `wanted`; nullptr if there is
  // none.  Services take turns, each by all its groups, which take turns among themselves: who has
  // many of them has no larger share.  The caller takes the item apart and calls Advance with how
  // much it took.
  template <typename Wanted>
  LoadItem* Next(int node, size_t* service_turn, Wanted wanted);
  void Advance(LoadItem* item, uint64_t bytes);

  // Empties a group's queues and makes what is in flight of it old.
  void Replace(uint32_t slot, uint64_t* dropped_items, uint64_t* dropped_bytes);
  // Makes what is in flight of a group old, and nothing else.
  void Age(uint32_t slot) { ++groups_[slot].generation; }
  uint64_t Generation(uint32_t slot) const { return groups_[slot].generation; }
  // For who loads an item: see LoadRequest::newest.
  const std::atomic<uint64_t>* Newest(uint32_t slot) const { return &groups_[slot].generation; }
  // Until when nothing of a group is to be tried: the kernel had no page for it.
  uint64_t& RestUntil(uint32_t slot) { return groups_[slot].rest_until_ns; }

  uint64_t Items() const { return items_; }
  uint64_t Bytes() const { return bytes_; }
  // Of one node, -1: of none.
  uint64_t Bytes(int node) const { return node_bytes_[Index(node)]; }
  uint64_t BytesOf(uint32_t service) const;

 private:
  struct Group {
    uint32_t number = 0;
    std::atomic<uint64_t> generation{0};
    uint64_t rest_until_ns = 0;
    uint64_t bytes = 0;
    std::vector<ItemRing> rings;  // by node
  };
  struct Turn {  // of the groups of one service
    uint32_t service = 0;
    std::vector<uint32_t> slots;
    size_t last = 0;
  };
  // Nodes 0..n-1, then "any".
  size_t Index(int node) const {
    return node < 0 || node >= nodes_ ? static_cast<size_t>(nodes_) : static_cast<size_t>(node);
  }
  ItemRing& RingOf(const LoadItem& item) { return groups_[item.slot].rings[Index(item.node)]; }
  void Count(const LoadItem& item);
  void Forget(const LoadItem& item, uint64_t bytes);
  bool DropOldest(uint64_t newest_list, std::optional<LoadItem>* dropped);

  const int nodes_;
  const size_t max_items_;
  std::deque<Group> groups_;  // by slot; stays where it is
  std::vector<uint32_t> free_;
  std::vector<Turn> turns_;
  std::vector<uint64_t> node_bytes_;
  uint64_t items_ = 0;
  uint64_t bytes_ = 0;
  uint64_t lists_ = 0;
};

template <typename Wanted>
LoadItem* LoadQueue::Next(int node, size_t* service_turn, Wanted wanted) {
  const size_t index = Index(node);
  if (node_bytes_[index] == 0) return nullptr;
  for (size_t i = 1; i <= turns_.size(); ++i) {
    const size_t at = (*service_turn + i) % turns_.size();
    Turn& turn = turns_[at];
    for (size_t j = 1; j <= turn.slots.size(); ++j) {
      const size_t next = (turn.last + j) % turn.slots.size();
      ItemRing& ring = groups_[turn.slots[next]].rings[index];
      if (ring.IsEmpty() || !wanted(&ring.Front())) continue;
      turn.last = next;
      *service_turn = at;
      return &ring.Front();
    }
  }
  return nullptr;
}

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_LOAD_QUEUE_H_
