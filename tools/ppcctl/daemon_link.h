// SPDX-License-Identifier: Apache-2.0
// Owns asking ppcd (through libppc) and saying what went wrong.
#ifndef PPC_TOOLS_PPCCTL_DAEMON_LINK_H_
#define PPC_TOOLS_PPCCTL_DAEMON_LINK_H_

#include <ppc/control.h>

#include <memory>
#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "tools/ppcctl/output.h"

namespace ppc::ctl {

class DaemonLink {
 public:
  // timeout_ms 0 and socket "": libppc's defaults.
  explicit DaemonLink(unsigned timeout_ms = 0, const std::string& socket = "");

  // The answer, or the daemon's error.
  Result<Json> Ask(const Json& request);

  // errno of connecting; 0: there is a connection.
  int connect_code() const { return -connect_code_; }
  // After an error of Ask: was there no answer at all?
  bool is_unreachable() const { return is_unreachable_; }

  // Complains about `error` of Ask and returns the exit status.
  int Report(const Error& error) const;

 private:
  struct Close {
    void operator()(ppc_client* client) const { ppc_close(client); }
  };
  std::unique_ptr<ppc_client, Close> client_;
  int connect_code_ = 0;
  bool is_unreachable_ = false;
};

// Asks once; prints nothing on success.  For verbs that are one request.
struct Outcome {
  int exit_status = 0;
  Json answer;
};
Outcome AskOnce(const Json& request, unsigned timeout_ms = 0);

}  // namespace ppc::ctl

#endif  // PPC_TOOLS_PPCCTL_DAEMON_LINK_H_
