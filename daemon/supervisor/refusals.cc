// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/refusals.h"

#include "daemon/base/log.h"
#include "daemon/supervisor/rights.h"

namespace ppc::control {

void Refusals::Note(const Peer& peer, const std::string& verb, const std::string& why) {
  const uint64_t now_ns = MonotonicNs();
  if (!each_.Take(std::to_string(peer.uid) + " " + peer.cgroup, now_ns) || !all_.Take("", now_ns)) {
    ++unsaid_;
    return;
  }
  std::string line = "refused: " + Describe(peer) + " " + verb + ": " + why;
  if (unsaid_ > 0) line += " (and " + std::to_string(unsaid_) + " refusals not logged)";
  unsaid_ = 0;
  Log(LogLevel::kWarning, line);
}

}  // namespace ppc::control
