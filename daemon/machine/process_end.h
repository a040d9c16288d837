// SPDX-License-Identifier: Apache-2.0
// Owns the exit status of processes that are not our children.
// Threads: pure functions, any thread.
#ifndef PPC_DAEMON_MACHINE_PROCESS_END_H_
#define PPC_DAEMON_MACHINE_PROCESS_END_H_

#include <cstdint>
#include <optional>

#include "daemon/machine/roots.h"

namespace ppc {

// In the form of waitpid(2); nullopt: it has not ended, or its status is gone: before 6.15 it is
// known only until the parent has waited for it.
std::optional<int> ProcessEnd(const SysRoots& roots, int pidfd, int pid, uint64_t start_ns);
// Whether such an end is a failure: neither voluntary nor requested (SIGTERM and the like, or a
// shell's status for them).
bool IsFailure(int wait_status);

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_PROCESS_END_H_
