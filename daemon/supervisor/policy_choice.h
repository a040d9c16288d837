// SPDX-License-Identifier: Apache-2.0
// Owns what was registered: which policy, with which configuration and backend.
#ifndef PPC_DAEMON_SUPERVISOR_POLICY_CHOICE_H_
#define PPC_DAEMON_SUPERVISOR_POLICY_CHOICE_H_

#include <string>

#include "daemon/backend/backend_kind.h"
#include "daemon/base/json.h"

namespace ppc::control {

struct PolicyChoice {
  std::string name;  // as asked for
  std::string path;
  Json config;  // object
  BackendKind backend = BackendKind::kAuto;

  bool IsSamePolicy(const PolicyChoice& other) const {
    return path == other.path && config == other.config;
  }
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_POLICY_CHOICE_H_
