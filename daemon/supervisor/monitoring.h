// SPDX-License-Identifier: Apache-2.0
// Owns the interface to what ppcd tells monitoring beside status: extras/metrics.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_MONITORING_H_
#define PPC_DAEMON_SUPERVISOR_MONITORING_H_

#include <functional>
#include <memory>
#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/supervisor/event_loop.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {

class Monitoring {
 public:
  // Asks for the answer to `status`, of all directories.
  using AskStatus = std::function<void(const Reply& told)>;

  virtual ~Monitoring() = default;
  // A service is ready, so long after its start; `treatment`: how the policy treated the start.
  virtual void NoteReady(const std::string& directory, const std::string& treatment,
                         double seconds) = 0;
  // Answers the request metrics.
  virtual void Show(const Json& body, const Reply& reply) const = 0;
  // Takes the request node_state.
  virtual void TakeNodeState(const Json& body) = 0;
  // Serves the figures at the address of --metrics; returns the port.  Errors name the option.
  virtual Result<int> Serve(EventLoop& loop, const std::string& address,
                            const std::string& token_file) = 0;
};

std::unique_ptr<Monitoring> MakeMonitoring(Monitoring::AskStatus ask);

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_MONITORING_H_
