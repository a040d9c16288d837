// SPDX-License-Identifier: Apache-2.0
// Owns the arithmetic of dividing memory among those who need it.
#ifndef PPC_DAEMON_SUPERVISOR_MEMORY_SHARES_H_
#define PPC_DAEMON_SUPERVISOR_MEMORY_SHARES_H_

#include <cstdint>
#include <span>
#include <vector>

namespace ppc::control {

// Bytes.
struct MemoryNeed {
  uint64_t wants = 0;  // what it has a use for
  uint64_t most = 0;   // what it could take at all
};

// One share per need, `total` bytes together at most.  The smallest needs are met first and those
// that are larger than an equal part get the same (max-min fairness); what no runner needs is dealt
// out in equal parts.  The same needs in the same order have the same shares.
std::vector<uint64_t> FairShares(uint64_t total, std::span<const MemoryNeed> needs);

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_MEMORY_SHARES_H_
