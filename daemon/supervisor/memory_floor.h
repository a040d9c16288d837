// SPDX-License-Identifier: Apache-2.0
// Owns the interface to what keeps memory free if --free-floor asks for it: extras/floor.
// Threads: Describe from any.
#ifndef PPC_DAEMON_SUPERVISOR_MEMORY_FLOOR_H_
#define PPC_DAEMON_SUPERVISOR_MEMORY_FLOOR_H_

#include <cstdint>
#include <memory>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/machine/roots.h"

namespace ppc::control {

class MemoryFloor {
 public:
  virtual ~MemoryFloor() = default;
  virtual Json Describe() const = 0;
};

// As long as the result lives.
Result<std::unique_ptr<MemoryFloor>> KeepFree(const SysRoots& roots, uint64_t bytes);

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_MEMORY_FLOOR_H_
