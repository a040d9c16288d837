// SPDX-License-Identifier: Apache-2.0
// Owns the thread that looks at processes: finds those with files below the root, looks at active
// ones often, at idle ones more rarely, and hardly at all if there is none.
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
#include "extras/poll/watched_process.h"

namespace ppc {

class Poller {
 public:
  // root_pid: watch only this process and its descendants; 0: all visible processes.
  Poller(SysRoots roots, int root_pid, PolledFiles* files, EventSink* sink);
  ~Poller();

  void Start();
  void Stop();
  // Pages of the range in a watched process's page table; see MapScan::AddMapped.
  void AddMapped(uint64_t file, uint64_t offset, uint64_t length, std::vector<bool>* bits) const;
  // Whether the kernel ever hid where the threads of a watched process wait.
  bool IsDenied() const { return was_denied_.load(std::memory_order_relaxed); }
  // Whether the root's path leads to another directory, or nowhere.
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

  mutable std::mutex mutex_;  // protects the watched processes
  std::map<int, std::unique_ptr<WatchedProcess>> watched_;
  std::set<int> checked_;  // examined once and found without files of ours
  int next_check_ = 0;     // process at which the search of old ones continues
  uint64_t found_ns_ = 0;
  uint64_t files_ns_ = 0;
  uint64_t active_ns_ = 0;
  uint64_t rest_ns_ = 0;
  uint32_t next_open_id_ = 0;
  std::atomic<bool> was_denied_{false};
  std::atomic<bool> is_gone_{false};

  std::mutex run_mutex_;  // serialises start and stop of the thread
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ppc

#endif  // PPC_EXTRAS_POLL_POLLER_H_
