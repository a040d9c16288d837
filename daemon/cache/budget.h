// SPDX-License-Identifier: Apache-2.0
// Owns how much may be loaded now for one service: its memory source, and what is
// being loaded at the moment.  Overshooting a cgroup limit fails silently and throws
// away what is needed first, so every chunk asks here, with a fresh reading.
// Threads: any.
#ifndef PPC_DAEMON_CACHE_BUDGET_H_
#define PPC_DAEMON_CACHE_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "daemon/machine/memory_source.h"

namespace ppc {

class Budget {
 public:
  struct State {
    MemoryReading memory;
    uint64_t inflight = 0;
    uint64_t room = 0;  // threshold - used - in flight
  };

  explicit Budget(std::shared_ptr<MemorySource> source) : source_(std::move(source)) {}

  // Grants up to `bytes` (whole steps, or all of it), 0 if nothing fits now.  In flight
  // stays within an eighth of the threshold, but one step alone may always go.
  uint64_t Reserve(uint64_t bytes);
  // Gives back what was granted: it is in the cache now, or will not be.
  void Release(uint64_t bytes);

  bool IsAbove();
  State Read(bool with_cache);

 private:
  const std::shared_ptr<MemorySource> source_;
  std::atomic<uint64_t> inflight_{0};
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_BUDGET_H_
