// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/mem_policy.h"

#include <numaif.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>

namespace ppc {

Status PreferNode(int node) {
  constexpr int kBits = 64;
  if (node >= kBits) return Error{EINVAL, "node " + std::to_string(node) + " is beyond 63"};
  const unsigned long mask = node < 0 ? 0 : 1UL << node;
  const long rc = node < 0 ? set_mempolicy(MPOL_DEFAULT, nullptr, 0)
                           : set_mempolicy(MPOL_PREFERRED, &mask, kBits + 1);
  // A kernel without NUMA has one node: nothing to prefer.
  if (rc != 0 && errno != ENOSYS) {
    return PosixError("prefer node " + std::to_string(node), errno);
  }
  return Ok();
}

void SetIoPriority(IoPriority priority) {
  static thread_local std::optional<IoPriority> now;
  if (now == priority) return;
  now = priority;
  constexpr int kWhoProcess = 1;  // IOPRIO_WHO_PROCESS; 0 = the calling thread
  constexpr int kBestEffort = 2 << 13;
  // Level 4 is the default of a task.
  const int level = priority == IoPriority::kWaited ? 0 : 7;
  // Only a preference: schedulers without priorities refuse or ignore it.
  (void)syscall(SYS_ioprio_set, kWhoProcess, 0, kBestEffort | level);
}

void LowerIoPriority() { SetIoPriority(IoPriority::kAhead); }

}  // namespace ppc
