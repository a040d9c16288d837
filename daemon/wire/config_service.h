// SPDX-License-Identifier: Apache-2.0
// Owns the service that a registration's configuration names: "service_id" beside "workers",
// "xpus", "params", "node", "nodes" and "first_worker".  All processes that read the directory and
// belong to no other service belong to it, and it is the registering user's, root's.
// Paper: section 4.1 (service ID, workers and XPUs are told with reg_policy).
#ifndef PPC_DAEMON_WIRE_CONFIG_SERVICE_H_
#define PPC_DAEMON_WIRE_CONFIG_SERVICE_H_

#include "daemon/base/json.h"
#include "daemon/base/result.h"

namespace ppc::control {

// Its "service_start" message; null: the configuration names none.
Result<Json> ServiceInConfig(const Json& config);

}  // namespace ppc::control

#endif  // PPC_DAEMON_WIRE_CONFIG_SERVICE_H_
