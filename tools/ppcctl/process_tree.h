// SPDX-License-Identifier: Apache-2.0
// Owns the question which processes descend from one, and which is a control group's first.
// Threads: a pure function of /proc, any thread.
#ifndef PPC_TOOLS_PPCCTL_PROCESS_TREE_H_
#define PPC_TOOLS_PPCCTL_PROCESS_TREE_H_

#include <sys/types.h>

#include <optional>
#include <set>
#include <string>

#include "daemon/machine/roots.h"

namespace ppc::ctl {

// `pid` itself and all that descend from it now.
std::set<pid_t> Descendants(const SysRoots& roots, pid_t pid);

// The process of the control group that began first; `cgroup` as ProcessCgroup() writes it.  One
// that is named `other` does not count.  nullopt: there is none.
std::optional<pid_t> FirstOfCgroup(const SysRoots& roots, const std::string& cgroup,
                                   const std::string& other);

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_PROCESS_TREE_H_
