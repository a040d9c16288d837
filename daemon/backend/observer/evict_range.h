// SPDX-License-Identifier: Apache-2.0
// Owns dropping pages on a stock kernel, in steps: POSIX_FADV_DONTNEED drops unmapped pages,
// process_madvise(MADV_PAGEOUT) those that one process has touched, through its mapping; pages that
// several processes have touched stay and are reported.  If pages of one process stay, both steps
// are repeated.  Anonymous pages of private mappings are never touched: paging them out would swap.
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_EVICT_RANGE_H_
#define PPC_DAEMON_BACKEND_OBSERVER_EVICT_RANGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/backend/observer/mappers.h"

namespace ppc {

// Drops [offset, offset + length) of the open file; `unmap` allows the second step.
Result<EvictResult> EvictRange(int fd, uint64_t offset, uint64_t length, bool unmap,
                               const std::vector<MappedPart>& parts, const std::string& proc);

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_EVICT_RANGE_H_
