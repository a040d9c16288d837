// SPDX-License-Identifier: Apache-2.0
// What all registrations share.
#ifndef PPC_DAEMON_SUPERVISOR_ENVIRONMENT_H_
#define PPC_DAEMON_SUPERVISOR_ENVIRONMENT_H_

namespace ppc::control {

class Cgroups;
class EventLoop;
class MemoryBroker;
class MountProbe;
class ObserverHub;
class ReadBroker;
class StateDir;
struct Options;

// All must outlive every registration.
struct Environment {
  EventLoop& loop;
  const Options& options;
  const MountProbe& probe;
  const Cgroups& cgroups;
  ObserverHub& observers;
  MemoryBroker& memory;
  ReadBroker& reads;
  const StateDir& state;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_ENVIRONMENT_H_
