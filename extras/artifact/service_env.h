// SPDX-License-Identifier: Apache-2.0
// Owns the environment that a service's command inherits from the start before.
#ifndef PPC_EXTRAS_ARTIFACT_SERVICE_ENV_H_
#define PPC_EXTRAS_ARTIFACT_SERVICE_ENV_H_

#include <string>
#include <utility>
#include <vector>

#include "daemon/base/result.h"
#include "tools/ppcctl/args.h"

namespace ppc::ctl {

// The values that `service env` kept for the service, without variables that this process has
// already.
Result<std::vector<std::pair<std::string, std::string>>> KeptEnvironment(const Args& args,
                                                                         const std::string& id);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_ARTIFACT_SERVICE_ENV_H_
