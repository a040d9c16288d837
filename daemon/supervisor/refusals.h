// SPDX-License-Identifier: Apache-2.0
// Owns the log of what was refused for want of a right: the caller and the operation, and the rate
// at which that is written, so that no caller fills the log or hides another's refusals. Threads:
// the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_REFUSALS_H_
#define PPC_DAEMON_SUPERVISOR_REFUSALS_H_

#include <cstdint>
#include <string>

#include "daemon/base/clock.h"
#include "daemon/base/rate_limit.h"
#include "daemon/supervisor/peer.h"

namespace ppc::control {

class Refusals {
 public:
  // Lines at once, of a user in a control group and of all.
  static constexpr unsigned kLines = 20;
  static constexpr unsigned kAllLines = 100;

  void Note(const Peer& peer, const std::string& verb, const std::string& why);

 private:
  RateLimit each_{kLines, 2 * kNsPerSec};
  RateLimit all_{kAllLines, kNsPerSec};
  uint64_t unsaid_ = 0;  // since the last line
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_REFUSALS_H_
