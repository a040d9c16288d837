// SPDX-License-Identifier: Apache-2.0
// Owns reading the environment as text.
#ifndef PPC_TOOLS_PPCCTL_ENVIRONMENT_H_
#define PPC_TOOLS_PPCCTL_ENVIRONMENT_H_

#include <cstdlib>
#include <string>

namespace ppc::ctl {

// What `ppcctl run` tells the command: it starts without a service, or while its service starts.
inline constexpr const char* kRunVariable = "PPC_RUN";
inline constexpr const char* kRunWithout = "without";
inline constexpr const char* kRunBeside = "beside";

// "" where there is no such variable.
inline std::string FromEnvironment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_ENVIRONMENT_H_
