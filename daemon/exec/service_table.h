// SPDX-License-Identifier: Apache-2.0
// Owns the services on one mount: number, cgroup, memory budget, who pays, XPUs; and which
// service and XPU a process belongs to.  Number 0 without any service is the mount itself.
//
// What reads /proc or cgroups is apart from what changes the table: Prepare and its kin do the
// former on any one thread at a time, the rest is the executor's.
#ifndef PPC_DAEMON_EXEC_SERVICE_TABLE_H_
#define PPC_DAEMON_EXEC_SERVICE_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/base/json.h"
#include "daemon/cache/budget.h"
#include "daemon/cache/load_queue.h"
#include "daemon/exec/attribution.h"
#include "daemon/exec/guard.h"
#include "daemon/exec/job_queue.h"
#include "daemon/exec/readers.h"
#include "daemon/machine/cgroup.h"
#include "daemon/machine/memory_source.h"
#include "daemon/machine/topology.h"
#include "daemon/xpu/process_xpu.h"

namespace ppc {

// The place of a service in the table; given back when the last holder goes.
class ServiceNumbers {
 public:
  static constexpr size_t kMaxServices = 4096;
  using Number = std::shared_ptr<const uint32_t>;

  // The one that `id` has, else the smallest that is free; nullptr: there is none.  Any thread.
  Number Take(const std::string& id);
  // nullptr: no such service.
  Number Find(const std::string& id);

 private:
  struct State {
    std::mutex mutex;
    std::map<std::string, std::weak_ptr<const uint32_t>> by_id;
    std::vector<bool> taken;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

struct Service {
  std::string id;  // "" for the mount itself
  uint32_t number = 0;
  ServiceNumbers::Number place;          // nullptr: the mount itself
  std::shared_ptr<const Cgroup> cgroup;  // who pays; may be nullptr
  Membership told;                       // who belongs
  std::shared_ptr<Payer> payer;
  std::shared_ptr<ProcessXpu> processes;
  std::vector<int> xpus;
  bool is_auto = false;   // no message started it, see AutoServices
  bool is_guess = false;  // no reader of it has read its model yet
  Json message;           // of an open one: what it was started with
  std::string note;       // why something is not as asked for, "" if all is
  // The last look at memory, see ServiceTable::Memory.
  Budget::State memory;
  Budget::State memory_now;  // the same with what has changed since, as it was told last
  uint64_t looked_ns = 0;
  bool is_looking = false;
  uint64_t look_took_ns = 0;
  uint64_t cache_wanted_ns = 0;
  // The executor's: when the policy had nothing to load for it the last time, its count and the
  // time; and whether it has read on since.
  uint64_t empty_epoch = 0;
  uint64_t missed_ns = 0;  // the loader was told of a miss
  uint64_t empty_ns = 0;
  uint64_t populated_bytes = 0;  // of mappings, by its processes
  uint64_t own_accesses = 0;     // events of its readers that are not populates
  bool has_moved = false;
  uint64_t found_bytes = 0;   // asked for and there already, less 16 x what was loaded
  uint64_t found_tick = 0;    // of the last plan that came after too much of that
  uint64_t looked_batch = 0;  // of events, in which its memory was looked at
  uint64_t loss_told_ns = 0;  // of losses until then the policy knows, or they were before it
  bool has_begun = false;     // an event of it was looked at for losses
};

// Its place in the guard.
inline Guard::Slot GuardSlot(const Service& service) {
  return static_cast<Guard::Slot>(service.place == nullptr ? 0 : service.number + 1);
}

class ServiceTable {
 public:
  using MemoryFactory = std::function<std::shared_ptr<MemorySource>(std::shared_ptr<const Cgroup>)>;

  // backend, topology and vendors (nullptr: not asked) must outlive this.
  ServiceTable(Backend* backend, const Topology* topology, SysRoots roots, MemoryFactory memory,
               const VendorXpus* vendors = nullptr);

  // The mount itself; cgroup "" = none.
  Status OpenDefault(const std::string& cgroup);
  // From now on waiting work is done elsewhere, and readers are looked up by look_up, which may
  // take as long as a process hangs; on_answer: a reader is known now.
  void Use(Offload offload, Offload look_up, std::function<void()> on_answer);

  // A service of a "service_start" message: service_id, cgroup, xpus, workers; not yet in the
  // table.
  Result<std::unique_ptr<Service>> Prepare(const Json& message);
  // Under a known id it replaces what is there and keeps its number.
  Service* Install(std::unique_ptr<Service> service);
  // Both.
  Result<Service*> Start(const Json& message);
  void Stop(const std::string& id);
  // The number of a service that Prepare has made and that was not stopped.
  std::optional<uint32_t> NumberOf(const std::string& id);
  // The process and its descendants belong to the service, too.
  void AddRoot(const std::string& id, const Membership::Root& root);

  // Never nullptr: an unknown number is the mount itself.
  Service* Get(uint32_t number) {
    Service* const known = number < services_.size() ? services_[number].get() : nullptr;
    return known != nullptr ? known : default_.get();
  }
  // The service with this number and payer; nullptr: it has ended, or was started anew.
  Service* PaidBy(uint32_t number, uint64_t payer) {
    for (Service* const service : {Get(number), default_.get()}) {
      if (service->payer->serial == payer) return service;
    }
    return nullptr;
  }
  Service* Find(const std::string& id);
  // The service and XPU of a process; nullptr: it is being looked up.
  const Reader* ReaderOf(int pid, uint64_t start_ns, uint64_t cgroup_id) {
    return ReaderOf(pid, start_ns, cgroup_id, backend_->NowNs());
  }
  const Reader* ReaderOf(int pid, uint64_t start_ns, uint64_t cgroup_id, uint64_t now_ns) {
    return readers_.Find(pid, start_ns, cgroup_id, now_ns);
  }
  // See Readers.
  bool MayBeOf(int pid, int service) const { return readers_.MayBeOf(pid, service); }
  // The reader's; of a stranger, or without services, the mount itself.
  Service* Of(const Reader& reader) {
    return reader.service < 0 ? default_.get() : Get(static_cast<uint32_t>(reader.service));
  }

  // For `ppcctl explain-pid`: what each provider says of a process, and which one counts.  Reads
  // /proc.
  Result<Json> ExplainProcess(int pid);
  // The process is this worker of a started service, whatever the providers say: the first half
  // reads /proc and tells when the process began.
  Result<uint64_t> PrepareBinding(const std::string& id, int pid, int worker);
  void Bind(const std::string& id, int pid, uint64_t start_ns);

  // Memory of a service as it was at most age_ns ago; where it is looked at elsewhere it may be a
  // little older.  What was loaded and dropped for it since is accounted for.  `cache` of it is
  // known if it is asked for now and then.
  const Budget::State& Memory(Service* service, uint64_t age_ns, bool with_cache = false);
  // Above the memory threshold.
  bool IsAbove(Service* service);
  bool IsAnyAbove();
  // Where in the unified hierarchy the started services' processes were when they were told.
  std::vector<std::string> Cgroups() const;
  std::shared_ptr<const Members> Snapshot() const;

  // The read limits that loads keep to; any thread.
  TokenBuckets& read_limits() { return buckets_; }

  // Started services; without any the mount itself.
  const std::vector<Service*>& Active() const { return active_; }
  size_t Started() const;
  bool HasStarted() const { return active_.front() != default_.get(); }

 private:
  std::unique_ptr<Service> Make(const std::string& id, std::shared_ptr<const Cgroup> cgroup);
  void LookAtMemory(Service* service, uint64_t now);
  void Changed();
  void Retire(std::shared_ptr<Service> service);

  static constexpr size_t kMaxBound = 4096;
  static constexpr size_t kMaxRoots = 256;
  static constexpr uint64_t kLookNs = 5 * 1000 * 1000;
  // Reading memory takes at most a quarter of the reading thread's time, so that it does not delay
  // other jobs on a busy machine.
  static constexpr uint64_t kLookRest = 4;
  static constexpr uint64_t kCacheWantedNs = 1000 * 1000 * 1000;

  Backend* const backend_;
  const Topology* const topology_;
  const SysRoots roots_;
  const MemoryFactory memory_;
  const VendorXpus* const vendors_;
  TokenBuckets buckets_;
  ServiceNumbers numbers_;
  uint64_t payers_ = 0;  // so far
  Offload offload_;
  std::unique_ptr<Service> default_;
  std::vector<std::unique_ptr<Service>> services_;  // by number; stopped ones are nullptr
  std::vector<Service*> active_;
  std::unordered_map<int, Members::Bound> bound_;
  Readers readers_;
  mutable std::mutex members_mutex_;
  std::shared_ptr<const Members> members_;  // under members_mutex_
  // One handle per cgroup, by its id, while a service (or a load under way) needs it; Prepare's.
  std::unordered_map<uint64_t, std::weak_ptr<const ChargeHandle>> charges_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_SERVICE_TABLE_H_
