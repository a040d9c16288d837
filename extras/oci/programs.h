// SPDX-License-Identifier: Apache-2.0
// Owns the manual pages of ppc-oci-hook and ppc-oci-worker.  The hook parses its two options
// itself: it uses no library.
#ifndef PPC_EXTRAS_OCI_PROGRAMS_H_
#define PPC_EXTRAS_OCI_PROGRAMS_H_

#include "daemon/cli/command_line.h"

namespace ppc::oci {

const cli::Program& HookProgram();
const cli::Program& WorkerProgram();

}  // namespace ppc::oci

#endif  // PPC_EXTRAS_OCI_PROGRAMS_H_
