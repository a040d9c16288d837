// SPDX-License-Identifier: Apache-2.0
// Owns which kernel runs, for what no probe can tell.
// Threads: any.
#ifndef PPC_DAEMON_MACHINE_KERNEL_VERSION_H_
#define PPC_DAEMON_MACHINE_KERNEL_VERSION_H_

#include <sys/utsname.h>

#include <cstdio>

namespace ppc {

// major * 1000 + minor, 6012 for Linux 6.12; 0 if it cannot be read.
inline int KernelVersion() {
  utsname name{};
  int major = 0;
  int minor = 0;
  if (uname(&name) != 0 || std::sscanf(name.release, "%d.%d", &major, &minor) != 2) return 0;
  return major * 1000 + minor;
}

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_KERNEL_VERSION_H_
