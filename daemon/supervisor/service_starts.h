// SPDX-License-Identifier: Apache-2.0
// Owns a service_start from the request to the policy's answer, for which no caller waits long.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_SERVICE_STARTS_H_
#define PPC_DAEMON_SUPERVISOR_SERVICE_STARTS_H_

#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/supervisor/event_loop.h"
#include "daemon/supervisor/group_watch.h"
#include "daemon/supervisor/new_services.h"
#include "daemon/supervisor/peer.h"
#include "daemon/supervisor/registrations.h"
#include "daemon/supervisor/root_watches.h"
#include "daemon/supervisor/saved_registrations.h"
#include "daemon/supervisor/service_ends.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {

class ServiceStarts {
 public:
  // All must outlive it.
  ServiceStarts(EventLoop& loop, const Registrations& registrations,
                const SavedRegistrations& saved, NewServices& new_services, RootWatches& roots,
                GroupWatch& groups, ServiceEnds& ends)
      : loop_(loop),
        registrations_(registrations),
        saved_(saved),
        new_services_(new_services),
        roots_(roots),
        groups_(groups),
        ends_(ends) {}

  void Start(Json body, const Peer& peer, const Reply& reply);

 private:
  // For one that the policy has not answered in time: the caller goes on.
  void Accept(const std::string& handle, const Service& started, const Reply& reply);
  // `reply` is empty where it has been accepted before.
  void Finish(const std::string& handle, const Service& started, const Result<Json>& answer,
              const Reply& reply);

  EventLoop& loop_;
  const Registrations& registrations_;
  const SavedRegistrations& saved_;
  NewServices& new_services_;
  RootWatches& roots_;
  GroupWatch& groups_;
  ServiceEnds& ends_;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_SERVICE_STARTS_H_
