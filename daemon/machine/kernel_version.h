// SPDX-License-Identifier: Apache-2.0
// Owns the version of the running kernel, for properties that cannot be probed.
// Threads: any.
#ifndef PPC_DAEMON_MACHINE_KERNEL_VERSION_H_
#define PPC_DAEMON_MACHINE_KERNEL_VERSION_H_

#include <sys/utsname.h>

#include <string_view>

#include "daemon/base/text.h"

namespace ppc {

// major * 1000 + minor, 6012 for Linux 6.12; 0 if it cannot be read.
inline int KernelVersion() {
  utsname name{};
  if (uname(&name) != 0) return 0;
  std::string_view release = name.release;
  const int major = LeadingNumber<int>(Cut(&release, '.'));
  return major == 0 ? 0 : major * 1000 + LeadingNumber<int>(release);
}

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_KERNEL_VERSION_H_
