// SPDX-License-Identifier: Apache-2.0
// In place of extras/record, where that is left out.
#include <cerrno>

#include "daemon/exec/event_recorder.h"

namespace ppc {

Result<std::unique_ptr<EventRecorder>> OpenRecorder(const std::string& /*path*/) {
  return Error{ENOTSUP, "--record: this ppc-runner was built without it"};
}

}  // namespace ppc
