// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/syscall_filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ppc::control {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kMachine = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kMachine = AUDIT_ARCH_AARCH64;
#else
constexpr uint32_t kMachine = 0;
#endif

constexpr uint32_t kAllowed[] = {
#include "system_calls.inc"
#ifdef __SANITIZE_ADDRESS__
    SYS_ptrace,  // looks for leaks at the end
#endif
};

constexpr uint32_t kPermit = SECCOMP_RET_ALLOW;
constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
constexpr uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;

sock_filter Load(size_t offset) {
  return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(offset));
}
sock_filter Return(uint32_t what) { return BPF_STMT(BPF_RET | BPF_K, what); }
// Jumps over the next instruction unless it holds.
sock_filter If(uint16_t test, uint32_t value) {
  return BPF_JUMP(BPF_JMP | test | BPF_K, value, 0, 1);
}

std::vector<sock_filter> Program() {
  std::vector<sock_filter> program = {Load(offsetof(seccomp_data, arch)),
                                      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kMachine, 1, 0),
                                      Return(kRefuse), Load(offsetof(seccomp_data, nr))};
  for (const uint32_t call : kAllowed) {
    program.push_back(If(BPF_JEQ, call));
    program.push_back(Return(kPermit));
  }
  program.push_back(If(BPF_JGT, *std::max_element(std::begin(kAllowed), std::end(kAllowed))));
  program.push_back(Return(kUnknown));
  program.push_back(Return(kRefuse));
  return program;
}

}  // namespace

Status FilterSystemCalls() {
  if (kMachine == 0) return Error{ENOTSUP, "the list is of x86-64 and arm64"};
  // Without it the filter would be for root alone to set.
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return PosixError("no_new_privs", errno);
  std::vector<sock_filter> code = Program();
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0) return Ok();
  if (errno == EINVAL || errno == ENOSYS) {
    return Error{errno, "this kernel has no CONFIG_SECCOMP_FILTER"};
  }
  return PosixError("seccomp", errno);
}

}  // namespace ppc::control
