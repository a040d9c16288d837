// SPDX-License-Identifier: Apache-2.0
// Owns one child process of `ppcctl run`: signals passed on, its output watched
// for a text, its exit status.
#ifndef PPC_TOOLS_PPCCTL_RUN_H_
#define PPC_TOOLS_PPCCTL_RUN_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/result.h"

namespace ppc::ctl {

// As of env(1), timeout(1) and their kin: no command of ours ran.
inline constexpr int kExitRunFailed = 125;  // we could not
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

// The status for an error of RunChild(): ours, or the command's?
int ExitStatusOf(const Error& error);

// Finds a text in a stream that comes in pieces.
class TextFinder {
 public:
  explicit TextFinder(std::string text) : text_(std::move(text)) {}
  // True once, when the text is complete.
  bool Feed(const char* data, size_t bytes);

 private:
  std::string text_;
  std::string tail_;
  bool is_found_ = false;
};

struct Child {
  std::vector<std::string> command;
  // Added to the environment, ours too: names and values.
  std::vector<std::pair<std::string, std::string>> environment;
  // It and its descendants may look where the command waits, also where Yama lets only ancestors
  // (ptrace_scope 1).  What the command forks is not covered.  0: no process.
  pid_t ptracer = 0;
  // Once it runs.  Threads started in here leave its signals alone.
  std::function<void(pid_t)> on_start;
  // Not empty: stdout and stderr go through a pipe and are searched.
  std::string ready_text;
  // By a thread that copies a stream, once per stream that has the text; it must not wait.
  std::function<void()> on_ready_text;
};

// Runs it to its end, and until its output has been taken; a signal ends that wait.  Reaps every
// child of this process, orphans that it adopts as PID 1 too.  The value is the exit status a
// shell would show (128 + signal); an error if it could not be started at all.
Result<int> RunChild(const Child& child);

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_RUN_H_
