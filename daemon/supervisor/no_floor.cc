// SPDX-License-Identifier: Apache-2.0
// In place of extras/floor, where that is left out.
#include <cerrno>

#include "daemon/supervisor/memory_floor.h"

namespace ppc::control {

Result<std::unique_ptr<MemoryFloor>> KeepFree(const SysRoots& /*roots*/, uint64_t /*bytes*/) {
  return Error{ENOTSUP, "--free-floor: this ppcd was built without it"};
}

}  // namespace ppc::control
