// SPDX-License-Identifier: Apache-2.0
// Owns what cachestat(2) takes and gives, which older C libraries do not declare.
#ifndef PPC_DAEMON_BACKEND_CACHESTAT_H_
#define PPC_DAEMON_BACKEND_CACHESTAT_H_

#include <cstdint>

namespace ppc {

struct CachestatRange {
  uint64_t offset;
  uint64_t length;
};
struct Cachestat {
  uint64_t cached;
  uint64_t dirty;
  uint64_t writeback;
  uint64_t evicted;
  uint64_t recently_evicted;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_CACHESTAT_H_
