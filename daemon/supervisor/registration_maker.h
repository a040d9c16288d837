// SPDX-License-Identifier: Apache-2.0
// Owns what registrations share, and makes them: each with a handle that none had before it.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_REGISTRATION_MAKER_H_
#define PPC_DAEMON_SUPERVISOR_REGISTRATION_MAKER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/supervisor/cgroups.h"
#include "daemon/supervisor/event_loop.h"
#include "daemon/supervisor/memory_broker.h"
#include "daemon/supervisor/mount_probe.h"
#include "daemon/supervisor/observer_hub.h"
#include "daemon/supervisor/options.h"
#include "daemon/supervisor/read_broker.h"
#include "daemon/supervisor/registration.h"
#include "daemon/supervisor/state_dir.h"

namespace ppc::control {

class RegistrationMaker {
 public:
  // All must outlive it.
  RegistrationMaker(EventLoop& loop, const Options& options, const MountProbe& probe,
                    const Cgroups& cgroups, const StateDir& state);

  // "dir.1", "ppc0.2": of the next one, and used up by this.
  std::string NextHandle(const MountInfo& mount);
  // Not started.  This must outlive it.
  std::unique_ptr<Registration> Make(const MountInfo& mount, PolicyChoice choice,
                                     const std::string& handle, Registration::Callbacks callbacks);

 private:
  ObserverHub observers_;
  MemoryBroker memory_;
  ReadBroker reads_;
  const Environment environment_;
  uint64_t next_handle_ = 1;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_REGISTRATION_MAKER_H_
