// SPDX-License-Identifier: Apache-2.0
// Owns the variable by which `ppcctl run` tells its command of its service.
#ifndef PPC_TOOLS_PPCCTL_ENVIRONMENT_H_
#define PPC_TOOLS_PPCCTL_ENVIRONMENT_H_

#include "daemon/base/text.h"

namespace ppc::ctl {

// It starts without a service, or while its service starts.
inline constexpr const char* kRunVariable = "PPC_RUN";
inline constexpr const char* kRunWithout = "without";
inline constexpr const char* kRunBeside = "beside";

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_ENVIRONMENT_H_
