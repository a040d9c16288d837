// SPDX-License-Identifier: Apache-2.0
// Owns a system call that is missing, as on an older kernel or below a seccomp filter.
#ifndef PPC_TESTS_UNIT_HIDDEN_CALL_H_
#define PPC_TESTS_UNIT_HIDDEN_CALL_H_

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace ppc {

// For the calling thread and what it starts; not to be undone.
inline bool HideCall(uint32_t number) {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{4, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

}  // namespace ppc

#endif  // PPC_TESTS_UNIT_HIDDEN_CALL_H_
