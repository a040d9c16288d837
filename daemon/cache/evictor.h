// SPDX-License-Identifier: Apache-2.0
// Owns dropping: threads that execute evict lists in steps that end at multiples of
// 2 MiB, so that large folios are dropped whole, and report what really went.  More than one,
// since loading waits for the room they make, and unmapping waits for every CPU that has the
// pages mapped.
// Threads: Submit by the executor; Stats by any.
// Paper: section 3.2 (evictor).
#ifndef PPC_DAEMON_CACHE_EVICTOR_H_
#define PPC_DAEMON_CACHE_EVICTOR_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/cache/completions.h"
#include "daemon/cache/load_queue.h"

namespace ppc {

struct EvictItem {
  uint64_t file = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t cookie = 0;
  uint32_t group = 0;
  bool unmap = false;
  bool even_locked = false;
  bool drain = false;
  std::shared_ptr<Payer> payer;  // whose memory it is
};

struct EvictorStats : EvictResult {
  uint64_t ranges = 0;   // count
  uint64_t refused = 0;  // count, queue full
  uint64_t errors = 0;   // count
  uint64_t queued = 0;   // count
};

class Evictor {
 public:
  struct Options {
    size_t max_items = 131072;
    int threads = 1;
    bool manual = false;                             // no thread: RunOne drives it
    std::function<void(uint64_t bytes)> on_dropped;  // from an evictor's thread
  };

  Evictor(Backend* backend, Options options, Completions* completions);
  ~Evictor();
  Evictor(const Evictor&) = delete;
  Evictor& operator=(const Evictor&) = delete;

  void Submit(std::span<const EvictItem> items);
  // Runs a job on an evictor's thread when nothing is queued or under way (a sweep of residency).
  void Post(std::function<void()> job);
  // Finishes what is queued unless `abandon`, then joins.
  void Stop(bool abandon);
  EvictorStats Stats() const;
  bool RunOne();

 private:
  void Run();
  bool HasWork() const;  // locked
  void Execute(const EvictItem& item);

  // One ioctl holds the device's attention for this much at most.
  static constexpr uint64_t kCallBytes = 16 << 20;

  Backend* const backend_;
  const Options options_;
  Completions* const completions_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<EvictItem> items_;
  std::deque<std::function<void()>> jobs_;
  EvictorStats stats_;
  int running_ = 0;  // items under way
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_EVICTOR_H_
