// SPDX-License-Identifier: Apache-2.0
// Owns which control groups are one tenant's, by their names.
// Threads: any.
#ifndef PPC_DAEMON_MACHINE_TENANT_GROUP_H_
#define PPC_DAEMON_MACHINE_TENANT_GROUP_H_

#include <string>

namespace ppc {

// The topmost group around this one that is a tenant's: a pod, a container, a unit of systemd.
// Above it are slices and the parents of container engines.  "": nothing but these.  `cgroup` as
// /proc/PID/cgroup writes it.
std::string TenantGroup(const std::string& cgroup);

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_TENANT_GROUP_H_
