// SPDX-License-Identifier: Apache-2.0
// Owns the filter of system calls that ppcd puts over itself and whatever it starts.
#ifndef PPC_DAEMON_SUPERVISOR_SYSCALL_FILTER_H_
#define PPC_DAEMON_SUPERVISOR_SYSCALL_FILTER_H_

#include "daemon/base/result.h"

namespace ppc::control {

// From now on, for the calling thread and what it starts, and without a way back: calls that are
// not in system_calls.txt fail with EPERM, those newer than all of them with ENOSYS, as on a
// kernel that does not have them.  New privileges are given up.  An error says what is lacking.
Status FilterSystemCalls();

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_SYSCALL_FILTER_H_
