// SPDX-License-Identifier: Apache-2.0
// Owns the thread that looks at processes: finds those that have files below the root, looks at
// them often while they do something, more rarely while they rest, and hardly when there is none.
// Threads: its own; everything public by any.
#ifndef PPC_EXTRAS_POLL_POLLER_H_
#define PPC_EXTRAS_POLL_POLLER_H_

#include <sys/types.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "daemon/machine/roots.h"
#include "extras/poll/event_sink.h"
#include "extras/poll/polled_files.h"
#include "extras/poll/watched.h"

namespace ppc {

class Poller {
 public:
  // root_pid: only this process and its descendants; 0: all that may be looked at.
  Poller(SysRoots roots, int root_pid, PolledFiles* files, EventSink* sink);
  ~Poller();

  void Start();
  void Stop();
  // Pages of the range that a watched process's page table holds; see MapScan::AddMapped.
  void AddMapped(uint64_t file, uint64_t offset, uint64_t length, std::vector<bool>* bits) const;
  // The kernel did not show where the threads of some watched process wait, whether it is there
  // still or not.
  bool IsDenied() const { return was_denied_.load(std::memory_order_relaxed); }
  // Another directory has the root's place, or none has.
  bool IsGone() const { return is_gone_.load(std::memory_order_relaxed); }
  // One turn of the thread, for tests: true if something was seen.
  bool Turn();

 private:
  void Run();
  void LookAtRoot();
  bool Find(uint64_t now_ns);
  bool IsMine(int pid) const;
  bool IsDescendant(int pid) const;
  bool Look(uint64_t now_ns);
  uint64_t RestNs(bool any, uint64_t now_ns);

  const SysRoots roots_;
  const int root_pid_;
  const int own_pid_;
  const uid_t own_uid_;
  PolledFiles* const files_;
  EventSink* const sink_;

  mutable std::mutex mutex_;  // what is watched
  std::map<int, std::unique_ptr<Watched>> watched_;
  std::set<int> checked_;  // looked at once and found without our files
  int next_check_ = 0;     // process from which the old ones are looked at again
  uint64_t found_ns_ = 0;
  uint64_t files_ns_ = 0;
  uint64_t active_ns_ = 0;
  uint64_t rest_ns_ = 0;
  uint32_t next_open_id_ = 0;
  std::atomic<bool> was_denied_{false};
  std::atomic<bool> is_gone_{false};

  std::mutex run_mutex_;  // the thread's life
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ppc

#endif  // PPC_EXTRAS_POLL_POLLER_H_
