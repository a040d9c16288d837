// SPDX-License-Identifier: Apache-2.0
// Owns how many look-ups of each tenant wait for a process that hangs.  A process whose memory is
// locked keeps each reader of its environment waiting, and a tenant may have any number of such
// processes: it must not hold all threads that look processes up.
// Threads: any.
#ifndef PPC_DAEMON_EXEC_HUNG_READS_H_
#define PPC_DAEMON_EXEC_HUNG_READS_H_

#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "daemon/exec/job_queue.h"

namespace ppc {

class HungReads {
 public:
  static constexpr size_t kMostOfTenant = 3;

  // One read, while it lives.
  class Read {
   public:
    Read(HungReads* all, const std::string& tenant) : all_(all), place_(all->Begin(tenant)) {}
    ~Read() { all_->End(place_); }
    Read(const Read&) = delete;
    Read& operator=(const Read&) = delete;
    // False: too many of the tenant's hang already.
    bool MayRead() const { return place_ != all_->running_.end(); }

   private:
    friend class HungReads;
    HungReads* const all_;
    const std::multimap<std::string, std::chrono::steady_clock::time_point>::iterator place_;
  };

 private:
  using Clock = std::chrono::steady_clock;
  using Running = std::multimap<std::string, Clock::time_point>;

  Running::iterator Begin(const std::string& tenant) {
    const Clock::time_point now = Clock::now();
    const std::lock_guard lock(mutex_);
    const auto [first, last] = running_.equal_range(tenant);
    size_t hung = 0;
    for (auto read = first; read != last; ++read)
      hung += now - read->second >= JobQueue::kStuck ? 1 : 0;
    return hung < kMostOfTenant ? running_.emplace(tenant, now) : running_.end();
  }
  void End(Running::iterator place) {
    const std::lock_guard lock(mutex_);
    if (place != running_.end()) running_.erase(place);
  }

  std::mutex mutex_;
  Running running_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_HUNG_READS_H_
