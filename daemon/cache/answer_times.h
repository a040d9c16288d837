// SPDX-License-Identifier: Apache-2.0
// Owns how long the loads of each service take to come back, and by it how many of a node's loaders
// may wait for a service.
//
// A process inside the service's cgroup may do its loads, and the cgroup may be throttled or
// frozen. Such a service is late: its loads take much longer than another's from the same
// directory.  All late services together get a quarter of a node's loaders.  A device that is slow
// for all makes no service late.  A service whose first load is still out gets a quarter, too,
// while another has something to load. Threads: none of its own; LoadScheduler locks.
#ifndef PPC_DAEMON_CACHE_ANSWER_TIMES_H_
#define PPC_DAEMON_CACHE_ANSWER_TIMES_H_

#include <cstdint>
#include <map>
#include <utility>

#include "daemon/backend/backend.h"
#include "daemon/cache/load_queue.h"
#include "daemon/cache/loader_layout.h"
#include "daemon/cache/loader_thread.h"

namespace ppc {

class AnswerTimes {
 public:
  // queue must outlive this; small_loads: loaders for small items, of all nodes.
  AnswerTimes(const LoadQueue* queue, const LoaderLayout& layout, int small_loads);

  // Whether the loader may take something of the service now.
  bool MayTake(const LoaderThread& loader, uint32_t service) const;
  // Whether more of its loaders wait for late services than may, this one among them.
  bool IsTooMany(const LoaderThread& loader, uint32_t service) const;
  // Around each chunk.
  void Begin(const LoaderThread& loader, uint32_t service) { Count(loader, service, 1); }
  void End(const LoaderThread& loader, uint32_t service) { Count(loader, service, -1); }
  // What became of a step.  True: loaders that wait may take something of the service now.
  bool Note(uint32_t service, uint64_t now_ns, uint64_t took_ns, LoadStop stop, uint64_t loaded);
  bool IsLate(uint32_t service) const;
  // The service has ended.
  void Forget(uint32_t service);

 private:
  using Crew = std::pair<int, bool>;  // loaders that take the same items: node, is_for_small
  struct Times {
    uint64_t average_ns = 0;  // the newest counts a quarter
    uint64_t loaded_ns = 0;   // when something came from the device
    bool has_answered = false;
    bool is_late = false;
    bool is_over = false;
    int all_busy = 0;
    std::map<Crew, int> busy;  // loaders
  };

  static Crew CrewOf(const LoaderThread& loader) { return {loader.node, loader.is_for_small}; }
  static int Of(const std::map<Crew, int>& counts, Crew crew);
  int Most(Crew crew) const;
  void Count(const LoaderThread& loader, uint32_t service, int change);
  bool IsLateNow(uint32_t service, const Times& times, uint64_t now_ns) const;
  void SetLate(Times* times, bool is_late);

  static constexpr uint64_t kLateNs = 200'000'000;  // nothing below is late
  static constexpr uint64_t kLateFactor = 4;        // of the fastest other's time
  static constexpr uint64_t kRecentNs = 60'000'000'000;
  static constexpr int kPart = 4;  // of a node's loaders

  const LoadQueue* const queue_;
  std::map<int, int> loaders_;  // by node
  const int small_per_node_;
  std::map<uint32_t, Times> services_;
  std::map<Crew, int> late_busy_;
  int busy_ = 0;
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_ANSWER_TIMES_H_
