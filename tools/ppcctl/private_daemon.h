// SPDX-License-Identifier: Apache-2.0
// Owns a ppcd that lives as long as one command: its process, its socket and its directory.  It
// ends with this process however that ends, and takes its runners with it.
// Threads: that which starts it, which must live as long.
#ifndef PPC_TOOLS_PPCCTL_PRIVATE_DAEMON_H_
#define PPC_TOOLS_PPCCTL_PRIVATE_DAEMON_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc::ctl {

class PrivateDaemon {
 public:
  // ppcd from beside this program, else from PATH.  Returns once its socket answers; the error
  // otherwise is its own last word.
  static Result<std::unique_ptr<PrivateDaemon>> Start(unsigned timeout_ms);
  // SIGTERM, and SIGKILL where that takes too long.
  ~PrivateDaemon();
  PrivateDaemon(const PrivateDaemon&) = delete;
  PrivateDaemon& operator=(const PrivateDaemon&) = delete;

  std::string socket() const { return directory_ + "/ppcd.sock"; }
  pid_t pid() const { return pid_; }

 private:
  explicit PrivateDaemon(std::string directory) : directory_(std::move(directory)) {}
  Status Spawn(const std::string& program, const std::string& template_dir);
  Status WaitUntilItAnswers(unsigned timeout_ms) const;
  bool HasEnded(int timeout_ms) const;

  const std::string directory_;
  pid_t pid_ = 0;
  UniqueFd pidfd_;
};

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_PRIVATE_DAEMON_H_
