// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/factory.h"
#include "extras/poll/poll_backend.h"

namespace ppc {

Result<std::unique_ptr<Backend>> OpenPolling(const std::string& dir, const SysRoots& roots) {
  Result<std::unique_ptr<PollBackend>> backend = PollBackend::Open(dir, roots);
  if (!backend) return backend.error();
  return Result<std::unique_ptr<Backend>>(*std::move(backend));
}

}  // namespace ppc
