// SPDX-License-Identifier: Apache-2.0
// Owns work in a child process, for which no caller has to wait: what hangs in a disk or a server
// hangs there alone, and is killed.
// Threads: one at a time, but for GiveUp().
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
  // Runs in the child: without a terminal, its signals, input or output, and with no descriptor of
  // ours.  Returns what is to be told; lines are not empty.
  using Body = std::function<std::vector<std::string>()>;

  // `body` is not used any more when this returns.
  static Result<HelperProcess> Start(const Body& body);

  HelperProcess(HelperProcess&&) = default;
  HelperProcess& operator=(HelperProcess&&) = delete;
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;
  ~HelperProcess() { GiveUp(); }

  // What the body has returned.  ETIMEDOUT: not yet, after `limit_ms` (-1 = none); EPIPE: it died,
  // or was given up.
  Result<std::vector<std::string>> Wait(int limit_ms);

  // Kills it and ends Wait().  By any thread.
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
