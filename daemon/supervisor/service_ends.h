// SPDX-License-Identifier: Apache-2.0
// Owns how services end: asked to, with their root process, or by a failure that no next start has
// followed in time.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_SERVICE_ENDS_H_
#define PPC_DAEMON_SUPERVISOR_SERVICE_ENDS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/supervisor/cgroups.h"
#include "daemon/supervisor/event_loop.h"
#include "daemon/supervisor/registrations.h"
#include "daemon/supervisor/root_watches.h"
#include "daemon/supervisor/saved_registrations.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {

class ServiceEnds {
 public:
  static constexpr int64_t kMostWaitS = 3600;

  // All must outlive it.
  ServiceEnds(EventLoop& loop, const Registrations& registrations, const SavedRegistrations& saved,
              RootWatches& roots)
      : loop_(loop), registrations_(registrations), saved_(saved), roots_(roots) {}

  // The service is forgotten even if the policy does not answer: it has ended.
  void Stop(
      Registration& registration, const std::string& id, const char* reason,
      std::function<void(Result<Json>)> done = [](const Result<Json>&) {});

  // Its process has failed: the policy may load what its next start needs before that is told of.
  // `wait_s`: how long it is awaited, 0: as the policy says.  A failure that no start follows is a
  // stop after that.
  void Fail(Registration& registration, Service& service, int64_t wait_s, const Reply& reply);

  // For the end of its root process.
  void TakeEndOfRoot(const std::string& handle, const std::string& id);

 private:
  void EndAwaited(const std::string& handle, const std::string& id, uint64_t start);

  EventLoop& loop_;
  const Registrations& registrations_;
  const SavedRegistrations& saved_;
  RootWatches& roots_;
};

// Owns the look, now and then, for services of the service socket whose control group is gone: they
// are stopped.
// Threads: the loop's.
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

#endif  // PPC_DAEMON_SUPERVISOR_SERVICE_ENDS_H_
