// SPDX-License-Identifier: Apache-2.0
// Owns how much may be loaded now for one service: its memory source, the newest reading of it, and
// what is being loaded at the moment.  Overshooting a cgroup limit fails silently and throws away
// what is needed first, so what was loaded since the reading counts as used; what was dropped since
// does not, or as much again would be.
//
// Reading asks the kernel and may take long; reserving does not, and may be done under a lock.
// Threads: any.
#ifndef PPC_DAEMON_CACHE_BUDGET_H_
#define PPC_DAEMON_CACHE_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "daemon/machine/memory_source.h"

namespace ppc {

class Budget {
 public:
  struct State {
    MemoryReading memory;
    uint64_t inflight = 0;
    uint64_t room = 0;  // threshold - used - in flight
    // When memory was read, as the members of Budget.
    uint64_t settled = 0;
    uint64_t dropped = 0;
  };

  explicit Budget(std::shared_ptr<MemorySource> source) : source_(std::move(source)) {}

  // Whether there is a reading that was begun less than `age_ns` ago.
  bool IsKnown(uint64_t now_ns, uint64_t age_ns) const;
  // Reads memory, unless another thread does so at the moment: no thread waits for another.
  void Refresh(uint64_t now_ns);

  // Grants up to `bytes` (whole steps, or all of it) by the newest reading, 0 if nothing fits
  // now.  In flight stays within an eighth of the threshold, but one step alone may always go.
  // is_waited: it need not fit.
  uint64_t Reserve(uint64_t bytes, bool is_waited = false);
  // Gives back what was granted: it is in the cache now, or will not be.
  void Release(uint64_t bytes);
  uint64_t Inflight() const { return inflight_.load(std::memory_order_relaxed); }
  // Was dropped just now.
  void NoteDropped(uint64_t bytes);
  // What a look that has an age would say by what was loaded and dropped since, if anything was.
  State Now(const State& look) const;
  bool HasChangedSince(const State& look) const {
    return dropped_.load(std::memory_order_relaxed) != look.dropped ||
           settled_.load(std::memory_order_relaxed) != look.settled;
  }

  // Up to the limit, as MemoryReading::UseLimit; from the next reading on.
  void SetUsesLimit(bool on) {
    uses_limit_.store(on, std::memory_order_relaxed);
    source_->SetUsesLimit(on);
  }

  // These read memory.
  bool IsAbove();
  State Read(bool with_cache);

 private:
  MemoryReading Look(bool with_cache) {
    MemoryReading reading = source_->Read(with_cache);
    if (uses_limit_.load(std::memory_order_relaxed)) reading.UseLimit();
    return reading;
  }

  const std::shared_ptr<MemorySource> source_;
  std::atomic<bool> uses_limit_{false};
  std::atomic<bool> is_reading_{false};
  mutable std::mutex mutex_;  // of what follows; never held while memory is read
  MemoryReading reading_;     // of Refresh
  uint64_t read_ns_ = 0;
  bool has_reading_ = false;
  // Written under the mutex.
  std::atomic<uint64_t> inflight_{0};
  std::atomic<uint64_t> settled_{0};  // released in all
  uint64_t settled_before_ = 0;       // of that, before the reading
  std::atomic<uint64_t> dropped_{0};  // in all; not under the mutex
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_BUDGET_H_
