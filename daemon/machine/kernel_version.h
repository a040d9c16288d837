// SPDX-License-Identifier: Apache-2.0
// Owns the version of the running kernel, for properties that cannot be probed.
// Threads: any.
#ifndef PPC_DAEMON_MACHINE_KERNEL_VERSION_H_
#define PPC_DAEMON_MACHINE_KERNEL_VERSION_H_

#include <sys/utsname.h>

#include <charconv>
#include <cstring>
#include <system_error>

namespace ppc {

// major * 1000 + minor, 6012 for Linux 6.12; 0 if it cannot be read.
inline int KernelVersion() {
  utsname name{};
  int major = 0;
  int minor = 0;
  if (uname(&name) != 0) return 0;
  const char* const end = name.release + std::strlen(name.release);
  const auto [dot, error] = std::from_chars(name.release, end, major);
  if (error != std::errc() || dot == end || *dot != '.') return 0;
  if (std::from_chars(dot + 1, end, minor).ec != std::errc()) return 0;
  return major * 1000 + minor;
}

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_KERNEL_VERSION_H_
