// SPDX-License-Identifier: Apache-2.0
// What a new runner is told first, and lent.
#ifndef PPC_DAEMON_SUPERVISOR_RUNNER_INIT_H_
#define PPC_DAEMON_SUPERVISOR_RUNNER_INIT_H_

#include <memory>
#include <string>
#include <vector>

#include "daemon/backend/backend_kind.h"
#include "daemon/base/json.h"
#include "daemon/base/unique_fd.h"
#include "daemon/supervisor/mount_probe.h"
#include "daemon/supervisor/observer_hub.h"

namespace ppc::control {

// All registrations share these.
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

// Owns what was registered: which policy, with which configuration and backend.
struct PolicyChoice {
  std::string name;  // as asked for
  std::string path;
  Json config;  // object
  BackendKind backend = BackendKind::kAuto;

  bool IsSamePolicy(const PolicyChoice& other) const {
    return path == other.path && config == other.config;
  }
};

struct RunnerInit {
  Json message;
  std::vector<UniqueFd> lent;
};

// `is_fresh`: no runner ran here before it.  *observer: its directory's client of the hub; taken if
// it may have a use for it and has none yet.
RunnerInit MakeRunnerInit(const Environment& environment, const MountInfo& mount,
                          const PolicyChoice& choice, bool is_fresh,
                          std::unique_ptr<ObserverHub::Client>* observer);

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_RUNNER_INIT_H_
