// SPDX-License-Identifier: Apache-2.0
// Owns the waiting of loader threads: who waits on which node, who of them looks for room now
// and then, and who is woken.
// Threads: none of its own; who has the queue locks, except for WakeAll.
#ifndef PPC_DAEMON_CACHE_IDLE_THREADS_H_
#define PPC_DAEMON_CACHE_IDLE_THREADS_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "daemon/cache/load_chunk.h"
#include "daemon/cache/load_queue.h"
#include "daemon/cache/loader_layout.h"

namespace ppc {

class IdleThreads {
 public:
  // queue and layout must outlive this.  retry_ns: how soon who found no room looks again.
  IdleThreads(const LoadQueue* queue, const LoaderLayout* layout, uint64_t retry_ns);

  // Waits, without the lock, until another thread wakes the loader; if there was no room for what
  // it could load, until it is time to look again, which one loader of a node does.
  void Wait(const LoaderThread& loader, bool has_no_room, std::unique_lock<std::mutex>* lock);
  // One loader for what is for this node, -1: for none.
  void WakeFor(int node);
  void WakeWhereWorkIs();
  // All for small items.
  void WakeSmall() { small_wake_.notify_all(); }
  void WakeAll();

 private:
  struct NodeWaiters {  // a node
    std::condition_variable wake;
    int idle = 0;             // loaders that wait
    bool has_prober = false;  // one that looks for room
  };
  NodeWaiters& WaitersOf(int node) { return waiters_[static_cast<size_t>(node)]; }

  const LoadQueue* const queue_;
  const LoaderLayout* const layout_;
  const std::chrono::nanoseconds retry_;
  std::vector<NodeWaiters> waiters_;  // by node
  std::condition_variable small_wake_;
  int small_idle_ = 0;
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_IDLE_THREADS_H_
