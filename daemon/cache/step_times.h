// SPDX-License-Identifier: Apache-2.0
// Owns how long the steps of each service's loads take, and by it how many of a node's loaders a
// service may have.
//
// Loads may be done in the service's cgroup, which may be throttled or frozen, or come from a
// server that hangs.  A service whose steps take over a second, and four times as long as another's
// from the same directory, is late.  All late services together get a quarter of a node's loaders
// while another service has something to load.  A device that is slow for all makes none late.
// Threads: none of its own; LoadScheduler locks.
#ifndef PPC_DAEMON_CACHE_STEP_TIMES_H_
#define PPC_DAEMON_CACHE_STEP_TIMES_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/cache/load_chunk.h"
#include "daemon/cache/load_queue.h"
#include "daemon/cache/loader_layout.h"

namespace ppc {

class StepTimes {
 public:
  static constexpr uint64_t kLateNs = 1'000'000'000;  // nothing below is late

  // queue must outlive this; small_loads: loaders for small items, of all nodes.
  StepTimes(const LoadQueue* queue, const LoaderLayout& layout, int small_loads);

  // Around each chunk.
  void Begin(const LoaderThread& loader, const Payer* payer);
  void End(const LoaderThread& loader);
  // Counts the time of a step that has ended.
  void Note(const Payer* payer, uint64_t now_ns, uint64_t took_ns, const LoadResult& result);

  bool IsLate(const Payer* payer, uint64_t now_ns) const;
  // Whether the loader may take a chunk of the payer's, or go on with the one that it has.
  bool MayLoad(const LoaderThread& loader, const Payer* payer, uint64_t now_ns) const;

 private:
  using LoaderClass = std::pair<int, bool>;  // loaders that take the same items: node, is_for_small
  struct Times {
    uint64_t average_ns = 0;  // the newest counts a quarter
    uint64_t noted_ns = 0;
    bool has_loaded = false;
  };
  struct Busy {
    const LoaderThread* loader = nullptr;
    const Payer* payer = nullptr;
  };

  static constexpr uint64_t kLateFactor = 4;          // times the other's
  static constexpr uint64_t kWholeBytes = 512 << 10;  // less tells little of a step's time
  static constexpr uint64_t kRecentNs = 60'000'000'000;
  static constexpr int kPart = 4;  // of a node's loaders

  static LoaderClass ClassOf(const LoaderThread& loader) {
    return {loader.node, loader.is_for_small};
  }

  const LoadQueue* const queue_;
  std::map<LoaderClass, int> loaders_;
  std::map<uint64_t, Times> times_;  // by the payer's serial
  std::vector<Busy> busy_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_STEP_TIMES_H_
