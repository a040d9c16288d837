// SPDX-License-Identifier: Apache-2.0
// Owns which mount or directory has which policy: registers, removes, adopts what an earlier ppcd
// had registered, and switches all of it off and on; and hands every other operation of the
// control protocol to the part whose it is.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_REGISTRY_H_
#define PPC_DAEMON_SUPERVISOR_REGISTRY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/supervisor/cgroups.h"
#include "daemon/supervisor/event_loop.h"
#include "daemon/supervisor/memory_broker.h"
#include "daemon/supervisor/memory_floor.h"
#include "daemon/supervisor/monitoring.h"
#include "daemon/supervisor/mount_probe.h"
#include "daemon/supervisor/observer_hub.h"
#include "daemon/supervisor/options.h"
#include "daemon/supervisor/peer.h"
#include "daemon/supervisor/read_broker.h"
#include "daemon/supervisor/registration.h"
#include "daemon/supervisor/registrations.h"
#include "daemon/supervisor/saved_registrations.h"
#include "daemon/supervisor/service_operations.h"
#include "daemon/supervisor/state_dir.h"
#include "daemon/supervisor/status_page.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {

class Registry {
 public:
  // floor: nullptr where none is asked for.
  Registry(EventLoop& loop, const Options& options, StateDir state, const MemoryFloor* floor);

  // Takes up what an earlier ppcd had registered.
  void Adopt();

  void Handle(const Request& request, const Peer& peer, const Reply& reply);

  Monitoring& monitoring() { return *monitoring_; }

  // For people.
  std::string Summary() const { return status_.Summary(); }

  // Ends every runner, keeps the state files, then calls `done`.
  void Shutdown(std::function<void()> done);

 private:
  void RegPolicy(const Json& body, const Reply& reply);
  void RmPolicy(const Json& body, const Reply& reply);
  void PolicyMessage(const Json& body, const Reply& reply) const;
  void SwitchOff(const Reply& reply);
  void SwitchOn(const Reply& reply);
  void HandleWhileOff(const Request& request, const Reply& reply) const;
  // What is registered meanwhile.
  void RememberPolicy(const Json& body, const Reply& reply) const;

  // own: the "service_start" of its own service, null where it has none.
  Registration& Add(const MountInfo& mount, PolicyChoice choice, const Json& own);
  void Replace(Registration& old, const Json& body, const Reply& reply);
  void Drop(const std::string& key, const std::string& handle);
  void Forget(const Registration& gone) const;
  void AdoptOne(const SavedRegistration& saved);

  EventLoop& loop_;
  const MountProbe probe_;
  const Cgroups cgroups_;
  const StateDir state_;
  OffSwitch off_switch_;
  // All registrations share these.
  ObserverHub observers_;
  MemoryBroker memory_;
  ReadBroker reads_;
  const Environment environment_;
  uint64_t next_handle_ = 1;
  Registrations registrations_;
  const SavedRegistrations saved_;
  const std::unique_ptr<Monitoring> monitoring_;
  ServiceOperations services_;
  const StatusPage status_;
  bool is_ending_ = false;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_REGISTRY_H_
