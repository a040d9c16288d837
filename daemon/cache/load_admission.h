// SPDX-License-Identifier: Apache-2.0
// Owns the choice of the queued range that a loader may load now: what its payer's memory, its
// cgroup's read limits and the time that its loads take allow.  A payer without room does not hold
// up the others.
// Threads: none of its own; who has the queue locks.  Only Look asks the kernel, which may take
// long: it needs no lock.
#ifndef PPC_DAEMON_CACHE_LOAD_ADMISSION_H_
#define PPC_DAEMON_CACHE_LOAD_ADMISSION_H_

#include <cstdint>
#include <memory>

#include "daemon/cache/load_chunk.h"
#include "daemon/cache/load_queue.h"
#include "daemon/cache/loader_layout.h"
#include "daemon/cache/step_times.h"

namespace ppc {

class LoadAdmission {
 public:
  enum class Found { kItem, kNothing, kNoRoom };
  struct Choice {
    Found found = Found::kNothing;
    LoadItem* item = nullptr;        // in the queue
    uint64_t bytes = 0;              // of it, which are granted
    std::shared_ptr<Payer> unknown;  // must be looked at before anything is chosen
  };

  // A reading of memory serves the loaders that take chunks within this time.
  static constexpr uint64_t kMemoryAgeNs = 1000 * 1000;

  // queue, layout and step_times must outlive this.
  LoadAdmission(LoadQueue* queue, const LoaderLayout* layout, const StepTimes* step_times,
                uint64_t chunk_bytes, uint64_t memory_age_ns);

  // The next range that the loader may load now, its node's own first.  has_small: small items
  // have loaders of their own.
  Choice Choose(const LoaderThread& loader, bool has_small, uint64_t now_ns);
  // Asks the kernel for what is not known of a payer.
  static void Look(Payer* payer, uint64_t now_ns);

 private:
  bool IsKnown(Payer* payer, uint64_t now_ns) const;
  bool Grant(Payer* payer, uint64_t now_ns, bool is_waited, uint64_t* bytes);

  // An older reading of memory, because it takes so long, is worth nothing.
  static constexpr uint64_t kOldestMemoryNs = 500 * 1000 * 1000;

  LoadQueue* const queue_;
  const LoaderLayout* const layout_;
  const StepTimes* const step_times_;
  const uint64_t chunk_bytes_;
  const uint64_t memory_age_ns_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_LOAD_ADMISSION_H_
