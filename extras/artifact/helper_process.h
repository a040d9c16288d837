// SPDX-License-Identifier: Apache-2.0
// Owns work in a child process, so that no caller blocks: a hanging disk or server hangs only the
// child, which is killed.
// Threads: one at a time, except GiveUp().
#ifndef PPC_EXTRAS_ARTIFACT_HELPER_PROCESS_H_
#define PPC_EXTRAS_ARTIFACT_HELPER_PROCESS_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc::artifact {

class HelperProcess {
 public:
  // Runs in the child, without a terminal, its signals, input or output, and without our
  // descriptors.  Returns the result as lines, none of them empty.
  using Body = std::function<std::vector<std::string>()>;

  // `body` is not used after this returns.
  static Result<HelperProcess> Start(const Body& body);

  HelperProcess(HelperProcess&&) = default;
  HelperProcess& operator=(HelperProcess&&) = delete;
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;
  ~HelperProcess() { GiveUp(); }

  // The result of the body.  ETIMEDOUT: not within `limit_ms` (-1 = no limit); EPIPE: the child
  // died or was given up.
  Result<std::vector<std::string>> Wait(int limit_ms);

  // Kills the child, which ends Wait().  On any thread.
  void GiveUp() const;

 private:
  HelperProcess(UniqueFd process, UniqueFd result)
      : process_(std::move(process)), result_(std::move(result)) {}
  void Reap() const;

  UniqueFd process_;
  UniqueFd result_;
};

}  // namespace ppc::artifact

#endif  // PPC_EXTRAS_ARTIFACT_HELPER_PROCESS_H_
