// SPDX-License-Identifier: Apache-2.0
// Owns a recorded log (ppc-runner --record) as a service: every thread repeats its accesses in
// order.  Between two hits it takes the recorded time; after a miss none, because that time was the
// disk's.
// Threads: one.
#ifndef PPC_SIM_REPLAY_H_
#define PPC_SIM_REPLAY_H_

#include <map>
#include <string>
#include <vector>

#include "sim/replay/event_log.h"
#include "sim/service.h"

namespace ppc::sim {

class LogService {
 public:
  // Adds the log's files to the cache.  A log with ACCESS events (recorded with tracing) is
  // replayed by these, another one by its misses and progress.
  LogService(Kernel* kernel, const EventLog& log, uint32_t nodes, bool through_ppc,
             const std::string& proc);
  static void AddFiles(PageCache* cache, const EventLog& log);
  // In a fiber.
  ServiceReport Run();

 private:
  struct Player {
    Thread thread;
    std::vector<Event> events;
    std::map<uint64_t, OpenFile*> open;  // by file of the log
  };
  void Play(Player* player);

  Kernel* const kernel_;
  const bool through_ppc_;
  std::map<uint64_t, std::string> paths_;
  uint64_t first_ns_ = 0;
  std::map<int, Process> processes_;  // by tgid of the log
  std::map<int, Player> players_;     // by tid
  size_t left_ = 0;
  Fiber* self_ = nullptr;
  ServiceReport report_;
};

}  // namespace ppc::sim

#endif  // PPC_SIM_REPLAY_H_
