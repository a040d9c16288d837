// SPDX-License-Identifier: Apache-2.0
// Owns whether a peer of the service socket may start a service: by whose it is, and by how many
// and how often (docs/security.md).  Peers of the admin socket may.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_START_RIGHTS_H_
#define PPC_DAEMON_SUPERVISOR_START_RIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "daemon/base/clock.h"
#include "daemon/base/json.h"
#include "daemon/base/rate_limit.h"
#include "daemon/base/result.h"
#include "daemon/supervisor/peer.h"
#include "daemon/supervisor/registrations.h"

namespace ppc::control {

class StartRights {
 public:
  // Services that peers of the service socket may have: those of one control group (in a shared
  // one: of one user in it), and those of one user, or of one tenant's groups together.
  static constexpr size_t kMaxServicesOfGroup = 8;
  static constexpr size_t kMaxServicesOfUser = 64;

  // Which must outlive it.
  explicit StartRights(const Registrations& registrations) : registrations_(registrations) {}

  // May `peer` start service `id`, with this body; and with that process as its root.
  Status Check(Registration& registration, const std::string& id, const Json& body,
               const Peer& peer);
  static Status CheckRoot(const HeldProcess& root, const Peer& peer);

 private:
  Status CheckRoom(const Peer& peer) const;

  static constexpr uint64_t kPeriodNs = 5 * kNsPerSec;

  const Registrations& registrations_;
  RateLimit starts_{16, kPeriodNs};
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_START_RIGHTS_H_
