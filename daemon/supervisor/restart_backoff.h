// SPDX-License-Identifier: Apache-2.0
// Owns how soon a runner that has died, or a policy that has failed, is tried again.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_RESTART_BACKOFF_H_
#define PPC_DAEMON_SUPERVISOR_RESTART_BACKOFF_H_

#include <cstdint>
#include <optional>

#include "daemon/supervisor/options.h"

namespace ppc::control {

class RestartBackoff {
 public:
  // options must outlive this.
  explicit RestartBackoff(const Options& options) : options_(options) {}

  // Its policy runs.
  void Running(uint64_t now_ns) { running_since_ns_ = now_ns; }
  // The runner has died; `did_run`: its policy ran before.  The pause before the next runner;
  // nothing after too many that died soon.
  std::optional<Millis> Died(uint64_t now_ns, bool did_run);
  // The policy has failed: the pause before it is tried again, longer each time.
  Millis Failed(uint64_t now_ns);
  // It is tried again after it had failed: the deaths before count no more.
  void TryAgain();

  int DeathsInARow() const { return deaths_; }
  // Runners that came after another one.
  uint64_t Restarts() const { return restarts_; }

 private:
  const Options& options_;
  int deaths_ = 0;
  int failures_ = 0;  // since it last ran for long
  uint64_t restarts_ = 0;
  std::optional<uint64_t> running_since_ns_;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_RESTART_BACKOFF_H_
