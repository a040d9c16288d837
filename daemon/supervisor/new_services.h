// SPDX-License-Identifier: Apache-2.0
// Owns what a service_start makes a service of: its name, its number, whose it is and who pays for
// it.
// Decides whether a peer of the service socket may start a service, by whose it is, and by how many
// and how often (docs/security.md).  Peers of the admin socket may.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_NEW_SERVICES_H_
#define PPC_DAEMON_SUPERVISOR_NEW_SERVICES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "daemon/base/clock.h"
#include "daemon/base/json.h"
#include "daemon/base/rate_limit.h"
#include "daemon/base/result.h"
#include "daemon/machine/roots.h"
#include "daemon/supervisor/cgroups.h"
#include "daemon/supervisor/peer.h"
#include "daemon/supervisor/registrations.h"
#include "daemon/supervisor/root_watches.h"

namespace ppc::control {

class NewServices {
 public:
  // Services that peers of the service socket may have: those of one control group (in a shared
  // one: of one user in it), and those of one user, or of one tenant's groups together.
  static constexpr size_t kMaxServicesOfGroup = 8;
  static constexpr size_t kMaxServicesOfUser = 64;

  // All must outlive it.
  NewServices(const SysRoots& sys_roots, const Cgroups& cgroups, const Registrations& registrations,
              const RootWatches& roots)
      : sys_roots_(sys_roots), cgroups_(cgroups), registrations_(registrations), roots_(roots) {}

  // The service that `peer` asks for, if it may.
  Result<Service> Make(Registration& registration, const Json& body, const Peer& peer);

 private:
  // May `peer` start service `id`, with this body; and with that process as its root.
  Status Check(Registration& registration, const std::string& id, const Json& body,
               const Peer& peer);
  static Status CheckRoot(const HeldProcess& root, const Peer& peer);
  Status CheckRoom(const Peer& peer) const;
  // As a start asks for it.
  std::string IdBeside(Registration& registration, const Service& service) const;
  // Its cgroup, in the message and as its owner.
  Status Place(Service& service, const Json& body, const Peer& peer) const;

  static constexpr uint64_t kPeriodNs = 5 * kNsPerSec;

  const SysRoots& sys_roots_;
  const Cgroups& cgroups_;
  const Registrations& registrations_;
  const RootWatches& roots_;
  RateLimit starts_{16, kPeriodNs};
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_NEW_SERVICES_H_
