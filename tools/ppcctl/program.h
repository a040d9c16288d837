// SPDX-License-Identifier: Apache-2.0
// Owns the table of ppcctl's verbs.
#ifndef PPC_TOOLS_PPCCTL_PROGRAM_H_
#define PPC_TOOLS_PPCCTL_PROGRAM_H_

#include "daemon/cli/command_line.h"

namespace ppc::ctl {

const cli::Program& CtlProgram();

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_PROGRAM_H_
