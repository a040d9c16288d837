// SPDX-License-Identifier: Apache-2.0
// Owns telling which control groups belong to one tenant, by their names.
// Threads: any.
#ifndef PPC_DAEMON_MACHINE_TENANT_GROUP_H_
#define PPC_DAEMON_MACHINE_TENANT_GROUP_H_

#include <string>

namespace ppc {

// The topmost group around this one that is one tenant's: a pod, a container, a systemd unit.
// Above it are slices and parents of container engines.  "": there are only these.  `cgroup`: in
// the form of /proc/PID/cgroup.
std::string TenantGroup(const std::string& cgroup);

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_TENANT_GROUP_H_
