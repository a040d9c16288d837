// SPDX-License-Identifier: Apache-2.0
// Owns telling how a process ended whose parent is another process.
// Threads: pure functions, any thread.
#ifndef PPC_DAEMON_MACHINE_PROCESS_END_H_
#define PPC_DAEMON_MACHINE_PROCESS_END_H_

#include <cstdint>
#include <optional>

#include "daemon/machine/roots.h"

namespace ppc {

// As waitpid(2) says; nullopt: it has not ended, or its status is gone.  On kernels before 6.15
// that is known until its parent has waited for it.
std::optional<int> ProcessEnd(const SysRoots& roots, int pidfd, int pid, uint64_t start_ns);
// Such an end is a failure: neither of its own accord nor asked for (SIGTERM and the like, or the
// status that a shell gives those).
bool IsFailure(int wait_status);

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_PROCESS_END_H_
