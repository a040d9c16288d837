// SPDX-License-Identifier: Apache-2.0
// In place of extras/poll, where that is left out.
#include <cerrno>

#include "daemon/backend/factory.h"

namespace ppc {

Result<std::unique_ptr<Backend>> OpenPolling(const std::string& dir, const SysRoots& /*roots*/) {
  return Error{ENOTSUP, dir + ": this ppc-runner was built without polling"};
}

}  // namespace ppc
