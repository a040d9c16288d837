// SPDX-License-Identifier: Apache-2.0
// Owns who belongs to which service.  That is told, never guessed: a process is bound to it, names
// it in its environment (PPC_SERVICE_ID), descends from its process, or is in its cgroup.  Anybody
// else is a stranger.
// Threads: any; what was told does not change while it is looked at.  Reads /proc.
#ifndef PPC_DAEMON_EXEC_ATTRIBUTION_H_
#define PPC_DAEMON_EXEC_ATTRIBUTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/machine/cgroup.h"
#include "daemon/machine/roots.h"
#include "daemon/xpu/process_xpu.h"

namespace ppc {

// What was told of a service when it was started.
struct Membership {
  std::shared_ptr<const Cgroup> cgroup;  // nullptr: it tells nothing
  int root_pid = 0;                      // 0: none
  uint64_t root_start_ns = 0;

  // Nothing was told: whoever is not known to belong elsewhere.
  bool is_open() const { return cgroup == nullptr && root_pid == 0; }
};

// All services at one time.  A new one is made when anything changes.
struct Members {
  struct One {
    uint32_t number = 0;
    std::string id;
    Membership told;
    std::shared_ptr<ProcessXpu> processes;
    std::shared_ptr<const Cgroup> payer;  // may be nullptr
  };
  struct Bound {
    uint64_t start_ns = 0;
    std::string id;  // of the service
  };
  std::vector<One> services;
  std::unordered_map<int, Bound> bound;  // by whoever knows
  // Of those who belong to none, while there is none.
  std::shared_ptr<ProcessXpu> mount;
};

// Of a "service_start" message: "pid", and "by_cgroup", false where the cgroup is only the one who
// started it happened to be in.  ESRCH: there is no such process.
Result<Membership> MembershipOf(const Json& message, std::shared_ptr<const Cgroup> cgroup,
                                const SysRoots& roots);

// nullptr: a stranger.
const Members::One* OwnerOf(const SysRoots& roots, const Members& members, int pid,
                            uint64_t start_ns, uint64_t cgroup_id);

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_ATTRIBUTION_H_
