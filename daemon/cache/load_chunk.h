// SPDX-License-Identifier: Apache-2.0
// Owns one chunk that is being loaded: what is left of it, what has become of it so far, what its
// payer's budget and read rate still have to get back; and the reasons why loading stops early.
// Threads: none of its own; a chunk is one loader's.
#ifndef PPC_DAEMON_CACHE_LOAD_CHUNK_H_
#define PPC_DAEMON_CACHE_LOAD_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/base/result.h"
#include "daemon/cache/completions.h"
#include "daemon/cache/load_queue.h"

namespace ppc {

enum class Interruption { kNone, kGeneration, kMemory, kBandwidth, kQueue, kShutdown, kLater };
inline constexpr size_t kInterruptions = 7;
const char* InterruptionName(Interruption reason);
// Whether what is left goes back to its queue, to go on later.
bool IsPutBack(Interruption reason);

// What is told of an item before anything has become of it.
IoResult ResultOf(const LoadItem& item);

class LoadChunk {
 public:
  // The first `bytes` of a queued item, which its payer's budget and read rate have granted.
  LoadChunk(const LoadItem& queued, uint64_t bytes);

  // What is left of it.
  const LoadItem& Rest() const { return item_; }
  bool IsOver() const { return item_.size == 0; }
  // How much the next step loads: steps end at multiples of 2 MiB.
  uint64_t NextStep() const;

  // What a step of so many bytes did; kNone: the chunk goes on, or is over.
  Interruption EndStep(const LoadResult& loaded, uint64_t step);
  // The same of a step that failed: all that is left has, unless the device is gone.
  Interruption Fail(const Error& error);

  // At its end: gives back to the payer what was not needed.
  void GiveBack();
  uint64_t Taken() const { return taken_; }
  // The bytes taken that did not come from the device.
  uint64_t NotLoaded() const;
  // What to tell of a chunk that `reason` has ended, if anything.
  std::optional<IoResult> Report(Interruption reason) const;

 private:
  void Advance(uint64_t done);

  LoadItem item_;  // offset and size shrink with progress
  uint64_t taken_ = 0;
  uint64_t granted_ = 0;  // of the budget, not yet given back
  uint64_t rated_ = 0;    // of the read rate
  IoResult result_;
};

// A loader thread: its place, and the chunk that it loads.
struct LoaderThread {
  size_t index = 0;  // among those of its kind
  int node = 0;
  bool is_for_small = false;
  std::vector<const Payer*> looked;  // at their memory, for the chunk that is being taken
  std::optional<LoadChunk> chunk;
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_LOAD_CHUNK_H_
