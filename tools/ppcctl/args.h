// SPDX-License-Identifier: Apache-2.0
// What every verb of ppcctl has: its arguments and its exit status.
#ifndef PPC_TOOLS_PPCCTL_ARGS_H_
#define PPC_TOOLS_PPCCTL_ARGS_H_

#include "daemon/cli/command_line.h"

namespace ppc::ctl {

using cli::Args;

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;  // or the answer is no
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnreachable = 3;

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_ARGS_H_
