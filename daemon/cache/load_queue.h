// SPDX-License-Identifier: Apache-2.0
// Owns the ranges that wait to be loaded: a queue per (node, group), taken in turn among
// the groups, bounded; and the generation of every group.
// Threads: none of its own; LoaderPool locks.  Newest is read without the lock.
#ifndef PPC_DAEMON_CACHE_LOAD_QUEUE_H_
#define PPC_DAEMON_CACHE_LOAD_QUEUE_H_

#include <array>
#include <atomic>
#include <cstdint>
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

inline uint32_t ChargeOf(const std::shared_ptr<Payer>& payer) {
  return payer != nullptr && payer->charge != nullptr ? payer->charge->number() : 0;
}

struct LoadItem {
  uint64_t file = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t cookie = 0;
  uint32_t group = 0;
  int node = -1;
  std::shared_ptr<Payer> payer;
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

  // Starts a new list; with `list` numbers older ones can be told from newer ones.
  uint64_t NewList() { return ++lists_; }

  // Appends to its group's queue.  If all is full, the oldest item of an older list makes
  // place and is returned in *dropped; false: full of this very list, the item is refused.
  bool Append(LoadItem item, uint64_t list, std::optional<LoadItem>* dropped);
  // Puts the rest of an interrupted item back where it was.
  void PutBack(LoadItem item);

  // The next item of a node, -1: of those without a node; nullptr if there is none.  The caller
  // takes it apart and calls Advance with how much it took.
  LoadItem* Next(int node, uint32_t* group_turn);
  void Advance(LoadItem* item, uint64_t bytes);

  // Empties a group's queues and makes what is in flight of it old.  Returns the new generation.
  uint64_t Replace(uint32_t group, uint64_t* dropped_items, uint64_t* dropped_bytes);
  // Makes what is in flight of a group old, and nothing else.  Returns the new generation.
  uint64_t Age(uint32_t group) { return ++generations_[group]; }
  uint64_t Generation(uint32_t group) const { return generations_[group]; }
  // For who loads an item: see LoadRequest::newest.
  const std::atomic<uint64_t>* Newest(uint32_t group) const { return &generations_[group]; }

  uint64_t Items() const { return items_; }
  uint64_t Bytes() const { return bytes_; }
  // Of one node, -1: of none.
  uint64_t Bytes(int node) const { return node_bytes_[Index(node)]; }

 private:
  // Nodes 0..n-1, then "any".
  size_t Index(int node) const {
    return node < 0 || node >= nodes_ ? static_cast<size_t>(nodes_) : static_cast<size_t>(node);
  }
  using Groups = std::array<ItemRing, kMaxGroups>;
  void Forget(size_t index, const LoadItem& item);
  bool DropOldest(uint64_t newest_list, std::optional<LoadItem>* dropped);

  const int nodes_;
  const size_t max_items_;
  std::vector<Groups> queues_;
  std::vector<uint64_t> node_bytes_;
  std::array<std::atomic<uint64_t>, kMaxGroups> generations_{};
  uint64_t items_ = 0;
  uint64_t bytes_ = 0;
  uint64_t lists_ = 0;
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_LOAD_QUEUE_H_
