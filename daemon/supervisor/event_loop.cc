// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/event_loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "daemon/base/clock.h"

namespace ppc::control {

Result<std::unique_ptr<EventLoop>> EventLoop::Create(Clock now_ns) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.IsValid()) return PosixError("epoll_create1", errno);
  if (!now_ns) now_ns = MonotonicNs;
  return std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll), std::move(now_ns)));
}

Status EventLoop::Watch(int fd, uint32_t events, Handler handler) {
  const uint64_t serial = next_serial_++;
  epoll_event event{};
  event.events = events;
  event.data.u64 = serial;
  if (epoll_ctl(epoll_.Get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return PosixError("epoll_ctl", errno);
  }
  watchers_[fd] = Watcher{serial, std::make_shared<Handler>(std::move(handler))};
  fd_by_serial_[serial] = fd;
  return Ok();
}

void EventLoop::Change(int fd, uint32_t events) {
  const auto it = watchers_.find(fd);
  if (it == watchers_.end()) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = it->second.serial;
  epoll_ctl(epoll_.Get(), EPOLL_CTL_MOD, fd, &event);
}

void EventLoop::Unwatch(int fd) {
  const auto it = watchers_.find(fd);
  if (it == watchers_.end()) return;
  epoll_ctl(epoll_.Get(), EPOLL_CTL_DEL, fd, nullptr);
  fd_by_serial_.erase(it->second.serial);
  watchers_.erase(it);
}

EventLoop::TimerId EventLoop::After(Millis delay, std::function<void()> function) {
  const auto wait_ns = static_cast<uint64_t>(std::max<int64_t>(delay.count(), 0)) * kNsPerMs;
  const TimerId id{now_ns_() + wait_ns, next_serial_++};
  timers_.emplace(id, std::move(function));
  return id;
}

void EventLoop::Cancel(TimerId id) { timers_.erase(id); }

int EventLoop::NextTimeoutMs() const {
  if (timers_.empty()) return -1;
  const uint64_t due = timers_.begin()->first.first;
  const uint64_t now = now_ns_();
  if (due <= now) return 0;
  return static_cast<int>(std::min<uint64_t>((due - now) / kNsPerMs + 1, 60 * 1000));
}

std::optional<uint64_t> EventLoop::RunTimers() {
  const uint64_t now = now_ns_();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    const auto node = timers_.extract(timers_.begin());
    node.mapped()();
  }
  return timers_.empty() ? std::nullopt : std::optional(timers_.begin()->first.first);
}

void EventLoop::Dispatch(uint64_t serial, uint32_t events) {
  const auto fd = fd_by_serial_.find(serial);
  if (fd == fd_by_serial_.end()) return;
  // Held here: the handler may unwatch itself.
  const std::shared_ptr<Handler> handler = watchers_[fd->second].handler;
  (*handler)(events);
}

void EventLoop::Run() {
  quit_ = false;
  std::array<epoll_event, 64> events;
  while (!quit_) {
    const int count = epoll_wait(epoll_.Get(), events.data(), events.size(), NextTimeoutMs());
    for (int i = 0; i < count && !quit_; ++i) {
      Dispatch(events[static_cast<size_t>(i)].data.u64, events[static_cast<size_t>(i)].events);
    }
    if (!quit_) RunTimers();
  }
}

}  // namespace ppc::control
