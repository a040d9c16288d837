// SPDX-License-Identifier: Apache-2.0
// Owns what a service_start makes a service of: its name, its number, whose it is and who pays for
// it.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_NEW_SERVICES_H_
#define PPC_DAEMON_SUPERVISOR_NEW_SERVICES_H_

#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/machine/roots.h"
#include "daemon/supervisor/cgroups.h"
#include "daemon/supervisor/peer.h"
#include "daemon/supervisor/registrations.h"
#include "daemon/supervisor/root_watches.h"
#include "daemon/supervisor/start_rights.h"

namespace ppc::control {

class NewServices {
 public:
  // All must outlive it.
  NewServices(const SysRoots& sys_roots, const Cgroups& cgroups, const Registrations& registrations,
              const RootWatches& roots)
      : sys_roots_(sys_roots), cgroups_(cgroups), roots_(roots), rights_(registrations) {}

  // The service that `peer` asks for, if it may.
  Result<Service> Make(Registration& registration, const Json& body, const Peer& peer);

 private:
  // As a start asks for it.
  std::string IdBeside(Registration& registration, const Service& service) const;
  // Its cgroup, in the message and as its owner.
  Status Place(Service& service, const Json& body, const Peer& peer) const;

  const SysRoots& sys_roots_;
  const Cgroups& cgroups_;
  const RootWatches& roots_;
  StartRights rights_;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_NEW_SERVICES_H_
