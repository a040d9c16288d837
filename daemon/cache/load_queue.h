// SPDX-License-Identifier: Apache-2.0
// Owns the ranges that wait to be loaded: a queue per (service, group, node), bounded; the order of
// their services; and the generation of every group.
//
// The order:
//  1. Urgent services: the reader reaches its next range soon, or that time is unknown.  The
//  service
//     with the least bytes loaded comes first, so that they share the device however their ranges
//     are cut.
//  2. Others: the service whose reader arrives first.
// So a slow reader gets its ranges just in time, and no service starves: one that is not urgent
// becomes urgent.
// Threads: none of its own; LoadScheduler locks.  Newest is read without the lock.
#ifndef PPC_DAEMON_CACHE_LOAD_QUEUE_H_
#define PPC_DAEMON_CACHE_LOAD_QUEUE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/cache/budget.h"
#include "daemon/cache/read_rate.h"

namespace ppc {

// Owns one handle of Backend::Charge: its owner can charge loads to that cgroup.
// Threads: destroyed by any.
class ChargeHandle {
 public:
  // The backend must outlive this.
  ChargeHandle(Backend* backend, uint32_t number) : backend_(backend), number_(number) {}
  ChargeHandle(const ChargeHandle&) = delete;
  ChargeHandle& operator=(const ChargeHandle&) = delete;
  ~ChargeHandle() { backend_->Uncharge(number_); }
  uint32_t number() const { return number_; }

 private:
  Backend* const backend_;
  const uint32_t number_;
};

// Pays for a load.
struct Payer {
  std::shared_ptr<const ChargeHandle> charge;  // nullptr = ourselves
  uint32_t service = 0;
  uint64_t serial = 0;  // of this start of the service: its number may be another's later
  std::shared_ptr<Budget> budget;
  std::shared_ptr<ReadRate> rate;  // nullptr = nothing limits reading
};

inline uint32_t ServiceOf(const std::shared_ptr<Payer>& payer) {
  return payer != nullptr ? payer->service : 0;
}

inline uint64_t SerialOf(const std::shared_ptr<Payer>& payer) {
  return payer != nullptr ? payer->serial : 0;
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
  bool is_small = false;      // one of many: what counts is how many are under way
  bool is_populated = false;  // see LoadRequest, as the next
  bool is_burnt = false;
  bool is_waited = false;    // by its reader: the kernel makes room for it
  uint64_t deadline_ns = 0;  // when its reader will be there; 0 = not known
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
  // none.  A service's groups take turns.  The caller takes the item apart and calls Advance with
  // how much it took.
  template <typename Wanted>
  LoadItem* Next(int node, uint64_t now_ns, Wanted wanted);
  void Advance(LoadItem* item, uint64_t bytes);
  // So many of the taken bytes did not need the device: they do not count as loading.
  void GiveBack(const LoadItem& item, uint64_t bytes);
  // The service's reader waits for the device itself: until then it has no time, whatever was said.
  void Boost(uint32_t service, uint64_t until_ns);
  // A reader waits for this group's service; not once the service has ended, of which a load may
  // still be in flight.
  bool IsBoosted(uint32_t slot, uint64_t now_ns) const {
    const ServiceQueue* const queue = groups_[slot].queue;
    return queue != nullptr && now_ns < queue->boosted_until_ns;
  }

  // Empties a group's queues and makes what is in flight of it old.
  void Replace(uint32_t slot, uint64_t* dropped_items, uint64_t* dropped_bytes);
  // Empties a group's queues into *withdrawn; what is in flight goes on.
  void Withdraw(uint32_t slot, std::vector<LoadItem>* withdrawn);
  // Makes what is in flight of a group old, and nothing else.
  void Age(uint32_t slot) { ++groups_[slot].generation; }
  uint64_t Generation(uint32_t slot) const { return groups_[slot].generation; }
  // For who loads an item: see LoadRequest::newest.
  const std::atomic<uint64_t>* Newest(uint32_t slot) const { return &groups_[slot].generation; }
  // Until when nothing of a group is to be tried: the kernel had no page for it.
  uint64_t& RestUntil(uint32_t slot) { return groups_[slot].rest_until_ns; }

  uint64_t Items() const { return items_; }
  uint64_t Bytes() const { return bytes_; }
  // Those of one node, -1: of none.
  uint64_t Bytes(int node) const { return node_bytes_[Index(node)]; }
  uint64_t BytesOf(uint32_t service) const;
  // Whether there is something of a node, or of none, for who takes that, too.
  bool HasFor(int node, bool takes_any) const {
    return Bytes(node) != 0 || (takes_any && Bytes(-1) != 0);
  }

 private:
  struct Share {  // of a service, by node
    uint64_t queued = 0;
    uint64_t taken = 0;  // what it has had; of who comes back after a while, what others have had
    uint64_t soonest_ns = 0;  // deadline of its queues' first items, while is_known
    bool is_known = false;    // no item has come or gone since
  };
  struct ServiceQueue {  // a service
    uint32_t service = 0;
    std::vector<uint32_t> slots;
    size_t last = 0;  // of slots
    uint64_t boosted_until_ns = 0;
    std::vector<Share> shares;
  };
  struct Group {
    uint32_t number = 0;
    ServiceQueue* queue = nullptr;
    std::atomic<uint64_t> generation{0};
    uint64_t rest_until_ns = 0;
    uint64_t bytes = 0;
    std::vector<ItemRing> rings;  // by node
  };
  struct Candidate {  // a service that could come next
    bool has_time = false;
    uint64_t soonest_ns = 0;  // if it has time
    uint64_t taken = 0;
    size_t queue = 0;
    auto Order() const { return std::tie(has_time, soonest_ns, taken, queue); }
  };
  using ServiceQueues = std::vector<std::unique_ptr<ServiceQueue>>;

  // Nodes 0..n-1, then "any".
  size_t Index(int node) const {
    return node < 0 || node >= nodes_ ? static_cast<size_t>(nodes_) : static_cast<size_t>(node);
  }
  ItemRing& RingOf(const LoadItem& item) { return groups_[item.slot].rings[Index(item.node)]; }
  void Count(const LoadItem& item);
  void Forget(const LoadItem& item, uint64_t bytes);
  bool DropOldest(uint64_t newest_list, std::optional<LoadItem>* dropped);
  ServiceQueues::const_iterator QueueOf(uint32_t service) const;
  void Gather(size_t index, uint64_t now_ns);
  uint64_t SoonestOf(ServiceQueue* queue, size_t index);
  ServiceQueue* TakeCandidate();

  // A service whose reader arrives sooner is urgent: it may become faster, and a load takes a
  // while.
  static constexpr uint64_t kUrgentNs = 2'000'000'000;
  // A service that could not take its part (memory, a read limit) gets no more than this of it
  // later.
  static constexpr uint64_t kMostBehind = 64 << 20;

  const int nodes_;
  const size_t max_items_;
  std::deque<Group> groups_;  // by slot; stays where it is
  std::vector<uint32_t> free_;
  ServiceQueues service_queues_;
  std::vector<uint64_t> node_bytes_;
  std::vector<uint64_t> had_;          // by node: Share::taken of who came last
  std::vector<Candidate> candidates_;  // a heap, the first service in front
  uint64_t items_ = 0;
  uint64_t bytes_ = 0;
  uint64_t lists_ = 0;
};

template <typename Wanted>
LoadItem* LoadQueue::Next(int node, uint64_t now_ns, Wanted wanted) {
  const size_t index = Index(node);
  Gather(index, now_ns);
  while (!candidates_.empty()) {
    const uint64_t taken = candidates_.front().taken;
    ServiceQueue* const queue = TakeCandidate();
    for (size_t i = 1; i <= queue->slots.size(); ++i) {
      const size_t at = (queue->last + i) % queue->slots.size();
      ItemRing& ring = groups_[queue->slots[at]].rings[index];
      if (ring.IsEmpty() || !wanted(&ring.Front())) continue;
      queue->last = at;
      had_[index] = std::max(had_[index], taken);
      return &ring.Front();
    }
  }
  return nullptr;
}

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_LOAD_QUEUE_H_
