// SPDX-License-Identifier: Apache-2.0
// Owns the memory policy of the calling thread.  Paper: section 3.2 (XPU affinity).
#ifndef PPC_DAEMON_MACHINE_MEM_POLICY_H_
#define PPC_DAEMON_MACHINE_MEM_POLICY_H_

#include "daemon/base/result.h"

namespace ppc {

// Prefers `node` for allocations of the calling thread, page cache included.  Preferred, never
// bound: a full node must spill, not fail.  -1 = the kernel's default.
Status PreferNode(int node);

// Lowers the calling thread's I/O priority within its class, so that an application's own reads go
// first if the I/O scheduler has priorities.
void LowerIoPriority();
// kWaited: the highest best-effort priority, for reads that a reader waits for.
enum class IoPriority { kAhead, kWaited };
void SetIoPriority(IoPriority priority);

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_MEM_POLICY_H_
