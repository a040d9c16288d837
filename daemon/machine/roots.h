// SPDX-License-Identifier: Apache-2.0
// Owns where /sys and /proc are found, so that tests provide their own.
#ifndef PPC_DAEMON_MACHINE_ROOTS_H_
#define PPC_DAEMON_MACHINE_ROOTS_H_

#include <cstdlib>
#include <string>

#include "daemon/base/files.h"

namespace ppc {

// A directory in front of "/sys" and "/proc" each; "" = the real ones.
struct SysRoots {
  std::string sys;
  std::string proc;

  std::string Sys(const std::string& path) const { return UnderRoot(sys, "/sys" + path); }
  std::string Proc(const std::string& path) const { return UnderRoot(proc, "/proc" + path); }
};

// $PPC_SYSROOT and $PPC_PROCROOT.
inline SysRoots RootsFromEnvironment() {
  const char* sys = std::getenv("PPC_SYSROOT");
  const char* proc = std::getenv("PPC_PROCROOT");
  return SysRoots{sys == nullptr ? "" : sys, proc == nullptr ? "" : proc};
}

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_ROOTS_H_
