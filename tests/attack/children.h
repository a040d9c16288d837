// SPDX-License-Identifier: Apache-2.0
// Child processes that work until they are told to stop.
#pragma once

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <vector>

namespace ppc::attack {

class Children {
 public:
  // Set by SIGTERM in the child.
  static inline std::atomic<bool> stop{false};

  // body() returns the child's exit status, 0 for good.
  template <typename Body>
  pid_t Start(Body body) {
    std::fflush(stdout);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      struct sigaction action {};
      action.sa_handler = [](int) { stop = true; };
      sigaction(SIGTERM, &action, nullptr);
      const int status = body();
      std::fflush(stdout);
      _exit(status);
    }
    pids_.push_back(pid);
    return pid;
  }
  // Tells all to stop; true when each of them ended well.
  bool Stop() {
    for (const pid_t pid : pids_) kill(pid, SIGTERM);
    return Wait();
  }
  // Waits until all have ended; true when each of them ended well.
  bool Wait() {
    bool good = true;
    for (const pid_t pid : pids_) {
      int status = 0;
      waitpid(pid, &status, 0);
      if (status) {
        std::printf("FAIL: a child ended with status %#x\n", static_cast<unsigned>(status));
        good = false;
      }
    }
    pids_.clear();
    return good;
  }
  // Kills the only child and returns its status.
  int Kill() {
    int status = 0;
    kill(pids_.back(), SIGKILL);
    waitpid(pids_.back(), &status, 0);
    pids_.pop_back();
    return status;
  }
  ~Children() {
    for (const pid_t pid : pids_) kill(pid, SIGKILL);
    for (const pid_t pid : pids_) waitpid(pid, nullptr, 0);
  }

 private:
  std::vector<pid_t> pids_;
};

}  // namespace ppc::attack
