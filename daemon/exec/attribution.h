// SPDX-License-Identifier: Apache-2.0
// Owns the rule which service a process belongs to.  A told service has the processes that are
// bound to it, name it in their environment (PPC_SERVICE_ID), descend from its process or are in
// its cgroup; an automatic service has the descendants of its programs, as far as no told service
// has them.  Every other process is a stranger. Threads: any; a snapshot of the members does not
// change.  Reads /proc.
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

// Which processes belong to a service, as its start said.
struct Membership {
  // A process whose descendants belong to the service, and itself.
  struct Root {
    int pid = 0;
    uint64_t start_ns = 0;
    bool operator==(const Root&) const = default;
  };
  // PPC_SERVICE_ID counts in processes of this cgroup (as /proc writes it; "" or a shared one: of
  // none) and below it, of this network ("": of none; a pod's containers share theirs), and outside
  // of containers, in which every process may be user 0, of this user.
  struct Owner {
    std::string cgroup;
    uint32_t uid = 0;
    std::string network;
  };

  std::shared_ptr<const Cgroup> cgroup;  // nullptr: not by cgroup
  std::vector<Root> roots;
  std::string root_cgroup;  // of the first of them when it was told, in the unified hierarchy
  Owner owner;
  bool is_auto = false;

  // Every process belongs that belongs to no other service.
  bool is_open() const { return cgroup == nullptr && roots.empty() && !is_auto; }
};

// All services at one time.  A new one is made when anything changes.
struct Members {
  struct Entry {
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
  std::vector<Entry> services;           // in the order of their numbers
  std::unordered_map<int, Bound> bound;  // by bind_pid
  // For readers that belong to no service, while there is none.
  std::shared_ptr<ProcessXpu> mount;
};

// Reads a "service_start" message: "pid"; "by_cgroup", false where the cgroup only pays;
// "owner", who started it ({"cgroup", "uid", "network"}; absent: root).  ESRCH: there is no such
// process.
Result<Membership> MembershipOf(const Json& message, std::shared_ptr<const Cgroup> cgroup,
                                const SysRoots& roots);

// A cgroup of the machine or of a user that holds processes of any kind.
bool IsSharedGroup(const std::string& cgroup);

// What can be said of a process without its environment, which a process that hangs keeps back.
struct Candidates {
  const Members::Entry* owner = nullptr;     // nullptr: a stranger
  std::vector<const Members::Entry*> named;  // its environment may name one of these instead
};
Candidates CandidatesOf(const SysRoots& roots, const Members& members, int pid, uint64_t start_ns,
                        uint64_t cgroup_id);
// Reads the environment where there is a choice.  nullptr: a stranger.
const Members::Entry* OwnerAmong(const SysRoots& roots, const Candidates& candidates, int pid);
// Both.
const Members::Entry* OwnerOf(const SysRoots& roots, const Members& members, int pid,
                              uint64_t start_ns, uint64_t cgroup_id);

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_ATTRIBUTION_H_
