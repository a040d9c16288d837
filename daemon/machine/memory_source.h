// SPDX-License-Identifier: Apache-2.0
// Owns the interface to readings of memory: the limit, and how much of it is used.
// Threads: see MemorySource.
#ifndef PPC_DAEMON_MACHINE_MEMORY_SOURCE_H_
#define PPC_DAEMON_MACHINE_MEMORY_SOURCE_H_

#include <algorithm>
#include <cstdint>

namespace ppc {

// Bytes.  `threshold` is where eviction starts and loading pauses.
struct MemoryReading {
  uint64_t limit = 0;
  uint64_t used = 0;
  uint64_t cache = 0;  // clean page cache within `used`; only on request
  uint64_t threshold = 0;
  uint64_t withheld = 0;    // taken off the threshold because tasks stall for memory
  uint64_t group_used = 0;  // by the service's cgroup, whatever limit binds; 0: no cgroup
  bool is_cgroup = false;
  // `used` counts the page cache that the runner believes to have, without the kernel's reclaim.
  bool is_estimate = false;

  // For a policy that makes room before it loads, even if its own evictions cause stalls.
  void UseLimit() {
    constexpr uint64_t kLeastMargin = 32 << 20;
    // A machine's limit includes others' page cache.
    const uint64_t margin = std::max(kLeastMargin, limit / (is_cgroup ? 64 : 32));
    threshold = std::max(threshold, limit > margin ? limit - margin : 0);
    withheld = 0;
  }
  uint64_t Room() const { return threshold > used ? threshold - used : 0; }
  // Signed distance to the threshold; the smallest of several limits binds.
  int64_t Slack() const { return static_cast<int64_t>(threshold) - static_cast<int64_t>(used); }
};

class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // Any thread.  with_cache costs more (the kernel sums statistics).
  virtual MemoryReading Read(bool with_cache) = 0;
  // Chooses the limit that binds once all are used fully, see MemoryReading::UseLimit.
  virtual void SetUsesLimit(bool) {}
};

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_MEMORY_SOURCE_H_
