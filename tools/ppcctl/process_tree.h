// SPDX-License-Identifier: Apache-2.0
// Owns the question which processes descend from one.
// Threads: a pure function of /proc, any thread.
#ifndef PPC_TOOLS_PPCCTL_PROCESS_TREE_H_
#define PPC_TOOLS_PPCCTL_PROCESS_TREE_H_

#include <sys/types.h>

#include <set>

#include "daemon/machine/roots.h"

namespace ppc::ctl {

// `pid` itself and all that descend from it now.
std::set<pid_t> Descendants(const SysRoots& roots, pid_t pid);

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_PROCESS_TREE_H_
