// SPDX-License-Identifier: Apache-2.0
// Owns the name of a service: a hash of the parameters that decide what it
// reads, so that equal services share one template.
// Paper: 4.1 (service ID from the runtime parameters).
#ifndef PPC_DAEMON_WIRE_SERVICE_ID_H_
#define PPC_DAEMON_WIRE_SERVICE_ID_H_

#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"

namespace ppc::control {

struct ServiceName {
  std::string id;         // 32 hexadecimal digits
  std::string canonical;  // the text that was hashed
};

// Keys sorted, no white space, numbers in their shortest form (4.0 is 4), keys
// that do not change I/O left out (top level only).
std::string CanonicalParams(const Json& params);

// `params` must be an object with at least one key that counts.
Result<ServiceName> MakeServiceName(const Json& params);

// An ID becomes part of a file name: letters, digits, ".", "_", "-", 4..64
// characters, the first a letter or digit.
Status CheckServiceId(const std::string& id);

// Owns the service that a registration's configuration names: "service_id" beside "workers",
// "xpus", "params", "node", "nodes" and "first_worker".  All processes that read the directory and
// belong to no other service belong to it, and it is the registering user's, root's.
// Paper: section 4.1 (service ID, workers and XPUs are told with reg_policy).
//
// Its "service_start" message; null: the configuration names none.
Result<Json> ServiceInConfig(const Json& config);

}  // namespace ppc::control

#endif  // PPC_DAEMON_WIRE_SERVICE_ID_H_
