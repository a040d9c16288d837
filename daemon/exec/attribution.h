// SPDX-License-Identifier: Apache-2.0
// Owns who belongs to which service.  That is told, never guessed: a process names the service in
// its environment (PPC_SERVICE_ID), descends from the service's process, or is in its cgroup.
// Anybody else is a stranger.
// Threads: the executor's.  Reads /proc.
#ifndef PPC_DAEMON_EXEC_ATTRIBUTION_H_
#define PPC_DAEMON_EXEC_ATTRIBUTION_H_

#include <cstdint>
#include <memory>
#include <span>

#include "daemon/base/json.h"
#include "daemon/machine/cgroup.h"
#include "daemon/machine/roots.h"

namespace ppc {

struct Service;

// What was told of a service when it was started.
struct Membership {
  std::shared_ptr<const Cgroup> cgroup;  // nullptr: it tells nothing
  int root_pid = 0;                      // 0: none
  uint64_t root_start_ns = 0;

  // Nothing was told: whoever is not known to belong elsewhere.
  bool is_open() const { return cgroup == nullptr && root_pid == 0; }
};

// Of a "service_start" message: "pid", and "by_cgroup", false where the cgroup is only the one who
// started it happened to be in.  ESRCH: there is no such process.
Result<Membership> MembershipOf(const Json& message, std::shared_ptr<const Cgroup> cgroup,
                                const SysRoots& roots);

// nullptr: a stranger.
Service* OwnerOf(const SysRoots& roots, std::span<const std::unique_ptr<Service>> services, int pid,
                 uint64_t cgroup_id);

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_ATTRIBUTION_H_
