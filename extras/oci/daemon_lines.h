// SPDX-License-Identifier: Apache-2.0
// Owns a connection to ppcd with several requests under way: ppcd executes them in order, even if
// the caller does not wait for the answers.  (libppc waits for each.)
// Threads: one.
#ifndef PPC_EXTRAS_OCI_DAEMON_LINES_H_
#define PPC_EXTRAS_OCI_DAEMON_LINES_H_

#include <cstdint>
#include <string>
#include <utility>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/wire/line_channel.h"

namespace ppc::oci {

class DaemonLines {
 public:
  // `deadline_ns` (monotonic) applies to all later calls.
  static Result<DaemonLines> Connect(const std::string& socket, uint64_t deadline_ns);

  Status Send(Json request);
  // The next answer, or its error.  ETIMEDOUT: the deadline has passed.
  Result<Json> Answer();

 private:
  DaemonLines(control::LineChannel channel, std::string socket, uint64_t deadline_ns)
      : channel_(std::move(channel)), socket_(std::move(socket)), deadline_ns_(deadline_ns) {}

  control::LineChannel channel_;
  std::string socket_;
  uint64_t deadline_ns_;
};

}  // namespace ppc::oci

#endif  // PPC_EXTRAS_OCI_DAEMON_LINES_H_
