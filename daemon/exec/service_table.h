// SPDX-License-Identifier: Apache-2.0
// Owns the services on one mount: number, cgroup, memory budget, who pays, XPUs; and which
// service and XPU a process belongs to.  Number 0 without any service is the mount itself.
// Threads: the executor's.
#ifndef PPC_DAEMON_EXEC_SERVICE_TABLE_H_
#define PPC_DAEMON_EXEC_SERVICE_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/base/json.h"
#include "daemon/cache/load_queue.h"
#include "daemon/exec/attribution.h"
#include "daemon/machine/cgroup.h"
#include "daemon/machine/memory_source.h"
#include "daemon/machine/topology.h"
#include "daemon/xpu/process_xpu.h"

namespace ppc {

struct Service {
  std::string id;  // "" for the mount itself
  uint32_t number = 0;
  std::shared_ptr<const Cgroup> cgroup;  // who pays; may be nullptr
  Membership told;                       // who belongs
  std::shared_ptr<Payer> payer;
  std::unique_ptr<ProcessXpu> processes;
  std::vector<int> xpus;
  std::string note;  // why something is not as asked for, "" if all is
  // Answer of the last look at memory, see IsAbove.
  bool is_above = false;
  uint64_t looked_ns = 0;
  // When the policy had nothing to load for it the last time; the executor's count.
  uint64_t empty_epoch = 0;
};

class ServiceTable {
 public:
  using MemoryFactory = std::function<std::shared_ptr<MemorySource>(std::shared_ptr<const Cgroup>)>;

  // backend, topology and vendors (nullptr: not asked) must outlive this.
  ServiceTable(Backend* backend, const Topology* topology, SysRoots roots, MemoryFactory memory,
               const VendorXpus* vendors = nullptr);

  // The mount itself; cgroup "" = none.
  Status OpenDefault(const std::string& cgroup);
  // A "service_start" message: service_id, cgroup, xpus, workers.  Starting a known id again
  // replaces it and keeps its number.
  Result<Service*> Start(const Json& message);
  void Stop(const std::string& id);

  // Never nullptr: an unknown number is the mount itself.
  Service* Get(uint32_t number);
  Service* Find(const std::string& id);
  // The service a process belongs to; of a stranger, or without services, the mount itself.
  Service* OfProcess(int pid, uint64_t start_ns, uint64_t cgroup_id);
  XpuAnswer XpuOf(Service* service, int pid, uint64_t start_ns) {
    return XpuOf(service, pid, start_ns, backend_->NowNs());
  }
  XpuAnswer XpuOf(Service* service, int pid, uint64_t start_ns, uint64_t now_ns);
  // For `ppcctl explain-pid`: what each provider says of a process, and which one counts.
  Result<Json> ExplainProcess(int pid);
  // The process is this worker of a started service, whatever the providers say.
  Status BindProcess(const std::string& id, int pid, int worker);
  // Above the memory threshold; looks again after a few ms.
  bool IsAbove(Service* service, uint64_t now);
  bool IsAnyAbove();

  // Started services; without any the mount itself.
  const std::vector<Service*>& Active() const { return active_; }
  size_t Started() const;
  bool HasStarted() const { return active_.front() != default_.get(); }

 private:
  std::unique_ptr<Service> Make(const std::string& id, std::shared_ptr<const Cgroup> cgroup);
  void XpuChain(Service* service);
  void ListActive();

  struct ProcessKey {
    uint64_t start_ns = 0;
    Service* service = nullptr;
  };
  struct Bound {
    uint64_t start_ns = 0;
    std::string id;  // of the service
  };
  static constexpr size_t kMaxProcesses = 4096;
  static constexpr uint64_t kLookNs = 5 * 1000 * 1000;
  static constexpr size_t kMaxServices = 4096;

  Backend* const backend_;
  const Topology* const topology_;
  const SysRoots roots_;
  const MemoryFactory memory_;
  const VendorXpus* const vendors_;
  TokenBuckets buckets_;
  std::unique_ptr<Service> default_;
  std::vector<std::unique_ptr<Service>> services_;  // by number; stopped ones are nullptr
  std::vector<Service*> active_;
  std::unordered_map<int, ProcessKey> processes_;
  std::unordered_map<int, Bound> bound_;  // by whoever knows
  // One handle per cgroup, by its id, while a service (or a load under way) needs it.
  std::unordered_map<uint64_t, std::weak_ptr<const ChargeHandle>> charges_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_SERVICE_TABLE_H_
