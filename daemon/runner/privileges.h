// SPDX-License-Identifier: Apache-2.0
// Owns giving up privileges that the runner does not need, before a policy is loaded.
#ifndef PPC_DAEMON_RUNNER_PRIVILEGES_H_
#define PPC_DAEMON_RUNNER_PRIVILEGES_H_

#include "daemon/base/result.h"

namespace ppc {

// Keeps CAP_SYS_ADMIN (device and charging), CAP_SYS_NICE (memory and I/O policy of its threads),
// CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH (environment, descriptors and cgroup of the processes that
// read models; headers of models of any owner), CAP_DAC_OVERRIDE and CAP_FOWNER (templates in a
// directory of another owner), CAP_SYS_RESOURCE.  Drops all others for good, and gaining privileges
// by exec.
Status DropPrivileges();

// DropPrivileges(); a failure is only a warning for a runner without a supervisor, a developer's.
Status ShedPrivileges(bool is_supervised);

}  // namespace ppc

#endif  // PPC_DAEMON_RUNNER_PRIVILEGES_H_
