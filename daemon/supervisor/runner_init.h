// SPDX-License-Identifier: Apache-2.0
// What a new runner is told first, and lent.
#ifndef PPC_DAEMON_SUPERVISOR_RUNNER_INIT_H_
#define PPC_DAEMON_SUPERVISOR_RUNNER_INIT_H_

#include <memory>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/unique_fd.h"
#include "daemon/supervisor/environment.h"
#include "daemon/supervisor/mount_probe.h"
#include "daemon/supervisor/observer_hub.h"
#include "daemon/supervisor/policy_choice.h"

namespace ppc::control {

struct RunnerInit {
  Json message;
  std::vector<UniqueFd> lent;
};

// `is_fresh`: no runner ran here before it.  *observer: its directory's place at the hub; taken if
// it may have a use for it and has none yet.
RunnerInit MakeRunnerInit(const Environment& environment, const MountInfo& mount,
                          const PolicyChoice& choice, bool is_fresh,
                          std::unique_ptr<ObserverHub::Place>* observer);

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_RUNNER_INIT_H_
