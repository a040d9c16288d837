// SPDX-License-Identifier: Apache-2.0
// Owns dropping pages on a stock kernel, by what it offers: unmapped pages go by
// POSIX_FADV_DONTNEED, those that one process has touched by process_madvise(MADV_PAGEOUT) on its
// mapping, those that several have stay and are reported so.  Where some of one process's stay,
// both are done once more.  What a private mapping has made its own (anonymous pages) is never
// touched: paging it out would swap.  Threads: any.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_EVICT_LADDER_H_
#define PPC_DAEMON_BACKEND_OBSERVER_EVICT_LADDER_H_

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

#endif  // PPC_DAEMON_BACKEND_OBSERVER_EVICT_LADDER_H_
