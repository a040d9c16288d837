// SPDX-License-Identifier: Apache-2.0
// Owns the line in which the runtime's guard tells people what it withholds from a service.
// Threads: pure function, any thread.
#ifndef PPC_TOOLS_PPCCTL_GUARD_LINE_H_
#define PPC_TOOLS_PPCCTL_GUARD_LINE_H_

#include <string>

#include "daemon/base/json.h"

namespace ppc::ctl {

// "no_unmap: 33 MiB that were dropped were missed again", of the runner's object of a service in
// `status`; "" = the guard is open, or switched off.
std::string GuardLine(const Json& service);

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_GUARD_LINE_H_
