// SPDX-License-Identifier: Apache-2.0
// Owns the operations on services, from start to stop, and all that ends one without a stop.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_SERVICE_OPERATIONS_H_
#define PPC_DAEMON_SUPERVISOR_SERVICE_OPERATIONS_H_

#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/supervisor/cgroups.h"
#include "daemon/supervisor/event_loop.h"
#include "daemon/supervisor/monitoring.h"
#include "daemon/supervisor/new_services.h"
#include "daemon/supervisor/options.h"
#include "daemon/supervisor/peer.h"
#include "daemon/supervisor/registrations.h"
#include "daemon/supervisor/root_watches.h"
#include "daemon/supervisor/saved_registrations.h"
#include "daemon/supervisor/service_ends.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {

class ServiceOperations {
 public:
  // All must outlive it.
  ServiceOperations(EventLoop& loop, const Options& options, const Cgroups& cgroups,
                    const Registrations& registrations, const SavedRegistrations& saved,
                    Monitoring& monitoring);

  // From the request to the policy's answer, for which no caller waits long.
  void Start(Json body, const Peer& peer, const Reply& reply);
  void Ready(const Json& body, const Peer& peer, const Reply& reply);
  void Phase(const Json& body, const Peer& peer, const Reply& reply);
  void Fail(const Json& body, const Peer& peer, const Reply& reply);
  void Stop(const Json& body, const Peer& peer, const Reply& reply);

  // Services of an earlier ppcd: those of peers may have lost their group, and those of a
  // registration that runs their process.
  void WatchGroupsOf(const Registration& adopted);
  void WatchRootsOf(Registration& adopted);
  // It is about to be erased.
  void Leave(Registration& gone);
  // ppcd ends: services are not stopped any more.
  void End() { groups_.End(); }

 private:
  struct Named {
    Registration* registration;
    std::string id;
  };
  // The directory of a message, which has the service that the message names.  EACCES: it is
  // another's.
  Result<Named> Find(const Json& body, const Peer& peer) const;
  // For a start that the policy has not answered in time: the caller goes on.
  void AcceptStart(const std::string& handle, const Service& started, const Reply& reply);
  // `reply` is empty where it has been accepted before.
  void FinishStart(const std::string& handle, const Service& started, const Result<Json>& answer,
                   const Reply& reply);
  void NoteReady(const std::string& directory, Service& service, const Json& answer);

  EventLoop& loop_;
  const Registrations& registrations_;
  const SavedRegistrations& saved_;
  Monitoring& monitoring_;
  RootWatches roots_;
  ServiceEnds ends_;
  GroupWatch groups_;
  NewServices new_services_;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_SERVICE_OPERATIONS_H_
