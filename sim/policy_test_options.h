// SPDX-License-Identifier: Apache-2.0
// Owns the command line of ppc-policy-test.
#ifndef PPC_SIM_POLICY_TEST_OPTIONS_H_
#define PPC_SIM_POLICY_TEST_OPTIONS_H_

#include "daemon/cli/command_line.h"

namespace ppc::sim {

const cli::Program& PolicyTestProgram();

}  // namespace ppc::sim

#endif  // PPC_SIM_POLICY_TEST_OPTIONS_H_
