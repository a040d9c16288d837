// SPDX-License-Identifier: Apache-2.0
// Owns the struct ppc_context a policy gets: checks its arguments (a policy may be
// wrong) and passes calls on to HostServices.
// Threads: the executor's; LogMessage and what ppc_context allows to work() of background() by any.
#ifndef PPC_DAEMON_POLICY_POLICY_CONTEXT_H_
#define PPC_DAEMON_POLICY_POLICY_CONTEXT_H_

#include <ppc.h>

#include <mutex>
#include <string>

#include "daemon/policy/host_services.h"

namespace ppc {

class PolicyContext {
 public:
  // services must outlive this.
  PolicyContext(ContextFacts facts, HostServices* services);
  PolicyContext(const PolicyContext&) = delete;
  PolicyContext& operator=(const PolicyContext&) = delete;
  ~PolicyContext() = default;

  ppc_context* Get() { return &context_; }
  HostServices* services() { return services_; }

  // What the policy itself said last at error level; "" nothing.  The reason of a refusal.
  std::string last_error() const;
  void LogMessage(int level, const char* message);

 private:
  const ContextFacts facts_;
  HostServices* const services_;
  mutable std::mutex mutex_;
  std::string last_error_;  // under mutex_
  ppc_context context_{};
};

}  // namespace ppc

#endif  // PPC_DAEMON_POLICY_POLICY_CONTEXT_H_
