// SPDX-License-Identifier: Apache-2.0
// Owns what monitoring is told beside status: the starts that this ppcd has seen, and what
// `ppcctl node` has told of the machine.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_METRICS_PAGE_H_
#define PPC_DAEMON_SUPERVISOR_METRICS_PAGE_H_

#include <cstdint>
#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/supervisor/metrics.h"
#include "daemon/supervisor/services.h"

namespace ppc::control {

class MetricsPage {
 public:
  // A service is ready once, however often it says so.  `answer`: the policy's.
  void NoteReady(const std::string& directory, Service& service, const Json& answer);
  // Takes the request node_state.
  void TakeNodeState(const Json& body);

  // `status`: the answer to `status`, of all directories.
  std::string Text(const Json& status, MetricsFormat format) const;
  // The format that the request metrics asks for.
  static Result<MetricsFormat> FormatOf(const Json& body);

 private:
  StartTimes start_times_;
  // Looking for it takes longer than this loop may.
  Json node_state_;
  uint64_t node_state_until_ns_ = 0;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_METRICS_PAGE_H_
