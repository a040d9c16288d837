// SPDX-License-Identifier: Apache-2.0
// Owns the loop of ppcd: descriptors (epoll) and timers call functions.
// Threads: one; every function is called from it.
#ifndef PPC_DAEMON_SUPERVISOR_EVENT_LOOP_H_
#define PPC_DAEMON_SUPERVISOR_EVENT_LOOP_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc::control {

using Millis = std::chrono::milliseconds;

class EventLoop {
 public:
  using Handler = std::function<void(uint32_t events)>;
  using TimerId = std::pair<uint64_t, uint64_t>;  // due time, serial; {0, 0} is none

  static Result<std::unique_ptr<EventLoop>> Create();

  // Calls `handler` with EPOLL* bits, level triggered.  The descriptor stays the
  // caller's; Unwatch before closing it.  A handler may unwatch anything.
  Status Watch(int fd, uint32_t events, Handler handler);
  void Change(int fd, uint32_t events);
  void Unwatch(int fd);

  TimerId After(Millis delay, std::function<void()> function);
  void Cancel(TimerId id);  // a fired or empty id is fine

  void Run();
  void Quit() { quit_ = true; }

 private:
  struct Watcher {
    uint64_t serial;
    std::shared_ptr<Handler> handler;
  };

  explicit EventLoop(UniqueFd epoll) : epoll_(std::move(epoll)) {}
  int NextTimeoutMs() const;
  void RunTimers();
  void Dispatch(uint64_t serial, uint32_t events);

  UniqueFd epoll_;
  std::map<int, Watcher> watchers_;       // by descriptor
  std::map<uint64_t, int> fd_by_serial_;  // an event of an earlier owner of a number finds none
  std::map<TimerId, std::function<void()>> timers_;
  uint64_t next_serial_ = 1;
  bool quit_ = false;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_EVENT_LOOP_H_
