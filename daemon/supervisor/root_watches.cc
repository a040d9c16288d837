// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/root_watches.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utility>

#include "daemon/machine/proc_info.h"

namespace ppc::control {

void RootWatches::Watch(const std::string& handle, const Service& service) {
  UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, service.root_pid, 0)));
  const auto end = [this, handle, id = service.id] { on_end_(handle, id); };
  // The number may have been taken by another process before the pidfd was opened.
  const bool is_same =
      pidfd.IsValid() && IsSameProcess(roots_, service.root_pid, service.pid_start_ns);
  if (!is_same) {
    loop_.After(Millis(0), end);
    return;
  }
  const int fd = pidfd.Get();
  const std::string key = Key(handle, service.id);
  pidfds_[key] = std::move(pidfd);
  if (!loop_.Watch(fd, EPOLLIN, [end](uint32_t) { end(); })) pidfds_.erase(key);
}

void RootWatches::Unwatch(const std::string& handle, const std::string& id) {
  const auto it = pidfds_.find(Key(handle, id));
  if (it == pidfds_.end()) return;
  loop_.Unwatch(it->second.Get());
  pidfds_.erase(it);
}

bool RootWatches::IsAlive(const std::string& handle, const Service& service) const {
  const auto it = pidfds_.find(Key(handle, service.id));
  if (it == pidfds_.end()) {
    return service.is_pending && service.root_pid != 0 &&
           IsSameProcess(roots_, service.root_pid, service.pid_start_ns);
  }
  pollfd ended{it->second.Get(), POLLIN, 0};
  return poll(&ended, 1, 0) == 0;
}

std::optional<int> RootWatches::EndOf(const std::string& handle, const Service& service) const {
  const auto it = pidfds_.find(Key(handle, service.id));
  if (it == pidfds_.end()) return std::nullopt;
  return ProcessEnd(roots_, it->second.Get(), service.root_pid, service.pid_start_ns);
}

}  // namespace ppc::control
