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
#include <optional>
#include <utility>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc::control {

using Millis = std::chrono::milliseconds;

class EventLoop {
 public:
  using Handler = std::function<void(uint32_t events)>;
  using TimerId = std::pair<uint64_t, uint64_t>;  // due time, serial; {0, 0} is none

  using Clock = std::function<uint64_t()>;

  // now_ns: nullptr = CLOCK_MONOTONIC.
  static Result<std::unique_ptr<EventLoop>> Create(Clock now_ns = nullptr);

  // Calls `handler` with EPOLL* bits, level triggered.  The descriptor stays the
  // caller's; Unwatch before closing it.  A handler may unwatch anything.
  Status Watch(int fd, uint32_t events, Handler handler);
  void Change(int fd, uint32_t events);
  void Unwatch(int fd);

  TimerId After(Millis delay, std::function<void()> function);
  void Cancel(TimerId id);  // a fired or empty id is fine

  void Run();
  void Quit() { quit_ = true; }
  // In place of Run, where time is simulated: calls what is due; when the next timer is.
  std::optional<uint64_t> RunTimers();

 private:
  struct Watcher {
    uint64_t serial;
    std::shared_ptr<Handler> handler;
  };

  EventLoop(UniqueFd epoll, Clock now_ns) : epoll_(std::move(epoll)), now_ns_(std::move(now_ns)) {}
  int NextTimeoutMs() const;
  void Dispatch(uint64_t serial, uint32_t events);

  UniqueFd epoll_;
  const Clock now_ns_;
  std::map<int, Watcher> watchers_;       // by descriptor
  std::map<uint64_t, int> fd_by_serial_;  // an event of an earlier owner of a number finds none
  std::map<TimerId, std::function<void()>> timers_;
  uint64_t next_serial_ = 1;
  bool quit_ = false;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_EVENT_LOOP_H_
