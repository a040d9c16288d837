// SPDX-License-Identifier: Apache-2.0
// Owns the question "how much memory is there and how much is used".
#ifndef PPC_DAEMON_MACHINE_MEMORY_SOURCE_H_
#define PPC_DAEMON_MACHINE_MEMORY_SOURCE_H_

#include <algorithm>
#include <cstdint>

namespace ppc {

// Bytes.  `threshold` is where eviction starts and loading pauses.
struct MemoryReading {
  uint64_t limit = 0;
  uint64_t used = 0;
  uint64_t cache = 0;  // clean page cache within `used`; only when asked for
  uint64_t threshold = 0;
  uint64_t withheld = 0;    // taken off the threshold because tasks stall for memory
  uint64_t group_used = 0;  // by the service's cgroup, whatever limit binds; 0: it has none
  bool is_cgroup = false;
  // `used` counts what the runner believes to have in the page cache: it does not see the kernel
  // reclaim there.
  bool is_estimate = false;

  // For a policy that makes room before it loads, whatever stalls its own evictions cause.
  void UseLimit() {
    constexpr uint64_t kLeastMargin = 32 << 20;
    // A machine's limit has others' page cache in it.
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
  // The limit binds that does so once all are used whole, see MemoryReading::UseLimit.
  virtual void SetUsesLimit(bool) {}
};

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_MEMORY_SOURCE_H_
