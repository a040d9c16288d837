// SPDX-License-Identifier: Apache-2.0
// Processes beside a test.
#ifndef PPC_TESTS_UNIT_CHILD_H_
#define PPC_TESTS_UNIT_CHILD_H_

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <type_traits>

namespace ppc {

// One that does `work` and ends with what that returns, or with 0.
template <typename Work>
pid_t StartChild(const Work& work) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
    work();
    _exit(0);
  } else {
    _exit(work());
  }
}

inline pid_t StartSleeper() {
  return StartChild([] {
    while (true) pause();
  });
}

// What it ended with; 128 + signal where that ended it, -1 where there is no such child.
inline int EndOf(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

inline void KillAndReap(pid_t pid) {
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

}  // namespace ppc

#endif  // PPC_TESTS_UNIT_CHILD_H_
