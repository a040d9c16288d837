// SPDX-License-Identifier: Apache-2.0
// Owns the look, now and then, for services of the service socket whose control group is gone: they
// are stopped.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_GROUP_WATCH_H_
#define PPC_DAEMON_SUPERVISOR_GROUP_WATCH_H_

#include <string>

#include "daemon/supervisor/cgroups.h"
#include "daemon/supervisor/event_loop.h"
#include "daemon/supervisor/registrations.h"
#include "daemon/supervisor/service_ends.h"

namespace ppc::control {

class GroupWatch {
 public:
  // All must outlive it.
  GroupWatch(EventLoop& loop, Millis period, const Cgroups& cgroups,
             const Registrations& registrations, ServiceEnds& ends)
      : loop_(loop),
        period_(period),
        cgroups_(cgroups),
        registrations_(registrations),
        ends_(ends) {}

  // Goes on for as long as there are such services.
  void Begin();
  // For good.
  void End();

 private:
  void Look();
  // True: it was gone, and the service is stopped.
  bool StopIfGone(Registration& registration, const std::string& id);

  EventLoop& loop_;
  const Millis period_;
  const Cgroups& cgroups_;
  const Registrations& registrations_;
  ServiceEnds& ends_;
  bool is_waiting_ = false;
  bool has_ended_ = false;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_GROUP_WATCH_H_
