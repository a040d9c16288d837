// SPDX-License-Identifier: Apache-2.0
#include "daemon/runner/privileges.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "daemon/base/log.h"
#include "daemon/machine/kernel_version.h"

namespace ppc {
namespace {

constexpr int kKept[] = {CAP_SYS_ADMIN,    CAP_SYS_NICE, CAP_SYS_PTRACE,  CAP_DAC_READ_SEARCH,
                         CAP_DAC_OVERRIDE, CAP_FOWNER,   CAP_SYS_RESOURCE};

uint64_t KeptMask() {
  uint64_t mask = 0;
  for (const int cap : kKept) mask |= uint64_t{1} << cap;
  // The observer's maps are used through lent descriptors.  Before 5.19 every bpf() call needs a
  // capability all the same, which is CAP_SYS_ADMIN if ppcd has it.
  if (KernelVersion() < 5019) mask |= uint64_t{1} << CAP_BPF;
  return mask;
}

// An ordinary user has no capabilities and gets none: with no_new_privs exec adds none, whatever
// the bounding set holds, which such a user may not change.
bool HasCapabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (syscall(SYS_capget, &header, data) != 0) return true;
  return (data[0].permitted | data[1].permitted) != 0;
}

Status ForbidNewPrivileges() {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return PosixError("no_new_privs", errno);
  return Ok();
}

}  // namespace

Status DropPrivileges() {
  if (geteuid() != 0 && !HasCapabilities()) return ForbidNewPrivileges();
  const uint64_t kept = KeptMask();
  for (int cap = 0; cap <= CAP_LAST_CAP; ++cap) {
    // Only those that are set and known to this kernel: dropping needs CAP_SETPCAP.
    if ((kept >> cap & 1) != 0 || prctl(PR_CAPBSET_READ, cap, 0, 0, 0) != 1) continue;
    if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0) {
      return PosixError("drop capability " + std::to_string(cap), errno);
    }
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (syscall(SYS_capget, &header, data) != 0) return PosixError("capget", errno);
  for (int i = 0; i < 2; ++i) {
    const auto part = static_cast<uint32_t>(kept >> (32 * i));
    data[i].permitted &= part;
    data[i].effective = data[i].permitted;
    data[i].inheritable = 0;
  }
  if (syscall(SYS_capset, &header, data) != 0) return PosixError("capset", errno);
  return ForbidNewPrivileges();
}

Status ShedPrivileges(bool is_supervised) {
  Status dropped = DropPrivileges();
  if (dropped) return dropped;
  if (is_supervised) {
    return Error{dropped.error().code, "a policy does not run with all privileges of ppcd: " +
                                           dropped.error().message + "; give ppcd CAP_SETPCAP"};
  }
  Log(LogLevel::kWarning, "keeps all privileges: " + dropped.error().message);
  return Ok();
}

}  // namespace ppc
