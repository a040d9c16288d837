// SPDX-License-Identifier: Apache-2.0
// Owns the way of the policy's lists to the loader and the evictor: every range is checked, passes
// the guard, and is given whatever the policy does not say of it: who pays, which node, which
// device. Threads: the executor's.  Nothing here allocates once its buffers have grown. Paper:
// section 3.2 (policy executor).
#ifndef PPC_DAEMON_EXEC_POLICY_LISTS_H_
#define PPC_DAEMON_EXEC_POLICY_LISTS_H_

#include <ppc.h>

#include <cstdint>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/cache/completions.h"
#include "daemon/cache/evictor.h"
#include "daemon/cache/loader_pool.h"
#include "daemon/exec/file_table.h"
#include "daemon/exec/guard.h"
#include "daemon/exec/service_table.h"
#include "daemon/machine/topology.h"
#include "daemon/policy/policy_host.h"

namespace ppc {

// Counts, of ranges.
struct ListStats {
  uint64_t prefetch_ranges = 0;  // accepted
  uint64_t evict_ranges = 0;
  uint64_t refused[7] = {};      // by IoRefusal
  uint64_t refused_surplus = 0;  // beyond PPC_MAX_IOS
};

class PolicyLists {
 public:
  struct Parts {
    Backend* backend = nullptr;
    LoaderPool* loader = nullptr;
    Evictor* evictor = nullptr;
    PolicyHost* host = nullptr;
    FileTable* files = nullptr;
    ServiceTable* services = nullptr;
    const Topology* topology = nullptr;
    Guard* guard = nullptr;              // may be nullptr
    Completions* completions = nullptr;  // of what the guard refuses; not without it
  };

  explicit PolicyLists(Parts parts) : parts_(parts) {}

  // False: the guard has refused some of it.
  bool SubmitLoads(const RawList& list);
  // Asks the policy what to drop, for this event or for none, and has it dropped.
  void AskForEvictions(miss_io* event = nullptr);

  const ListStats& Stats() const { return stats_; }

 private:
  void SubmitEvicts(const RawList& list);
  void TellDevice(uint64_t file, ReadRate* rate);
  // What the guard lets through of a range goes to `pass(offset, bytes, unmap)`, the rest is
  // reported.
  template <typename Pass>
  bool PassLoad(const IoRange& range, const Service& service, Pass pass);
  template <typename Pass>
  void PassDrop(const IoRange& range, const Service& service, Pass pass);
  void Refuse(const IoRange& range, uint64_t offset, uint64_t bytes, bool is_load);
  uint64_t* AskedOf(const Service& service);

  // A larger load is no small one, whatever was said.
  static constexpr uint64_t kSmallLoad = 1 << 20;
  // Drivers fault in pages of a buffer or two for a process as well.
  static constexpr uint64_t kPopulatedBytes = 1 << 20;
  // Headers are read before anything is populated.
  static constexpr uint64_t kTellingAccesses = 64;
  // Its mappings are populated; or that cannot be said yet, and reclaim will look at its pages.
  static bool MayPopulate(const Service& service) {
    if (service.populated_bytes >= kPopulatedBytes) return true;
    return service.memory.memory.is_cgroup && service.own_accesses < kTellingAccesses;
  }

  const Parts parts_;
  ListStats stats_;
  std::vector<LoadItem> loads_;
  std::vector<EvictItem> evicts_;
  struct Asked {
    uint32_t service = 0;
    uint64_t bytes = 0;  // queued, and of this list
  };
  std::vector<Asked> asked_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_POLICY_LISTS_H_
