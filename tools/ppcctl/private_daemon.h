// SPDX-License-Identifier: Apache-2.0
// Owns a ppcd that lives as long as one command: its process, its socket and its directory.  It
// ends with this process however that ends, takes its runners with it and removes the directory;
// nothing waits for that here unless asked to.
// Threads: it lives as long as the thread that starts it; End and WhyMute by any.
#ifndef PPC_TOOLS_PPCCTL_PRIVATE_DAEMON_H_
#define PPC_TOOLS_PPCCTL_PRIVATE_DAEMON_H_

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc::ctl {

class PrivateDaemon {
 public:
  // ppcd from beside this program, else from PATH.  Does not wait for it: its socket listens
  // already.  What is asked there is answered once it runs, and the first connection is served
  // to its end before any other.
  static Result<std::unique_ptr<PrivateDaemon>> Start();
  // What is not ended yet ends without a wait.
  ~PrivateDaemon() { End(0); }
  PrivateDaemon(const PrivateDaemon&) = delete;
  PrivateDaemon& operator=(const PrivateDaemon&) = delete;

  // SIGTERM.  Waits for `limit_ms`; SIGKILL where that is at least 12 s and it takes longer.
  void End(unsigned limit_ms);
  // Its own last word, after `error` of asking it.
  std::string WhyMute(const Error& error) const;

  std::string socket() const { return directory_ + "/ppcd.sock"; }
  pid_t pid() const { return pid_; }

 private:
  explicit PrivateDaemon(std::string directory) : directory_(std::move(directory)) {}
  Status Spawn(const std::string& program, const std::string& template_dir, int listening);
  bool HasEnded(int timeout_ms) const;  // mutex_ held

  const std::string directory_;
  pid_t pid_ = 0;
  mutable std::mutex mutex_;
  UniqueFd pidfd_;  // until it has ended
};

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_PRIVATE_DAEMON_H_
