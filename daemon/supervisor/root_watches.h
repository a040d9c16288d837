// SPDX-License-Identifier: Apache-2.0
// Owns the watch on the root processes of services, whose end is the service's, or its failure.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_ROOT_WATCHES_H_
#define PPC_DAEMON_SUPERVISOR_ROOT_WATCHES_H_

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "daemon/base/unique_fd.h"
#include "daemon/machine/roots.h"
#include "daemon/supervisor/event_loop.h"
#include "daemon/supervisor/services.h"

namespace ppc::control {

class RootWatches {
 public:
  // The handle of the registration and the service's id; it is to be unwatched then.
  using EndHandler = std::function<void(const std::string& handle, const std::string& id)>;

  RootWatches(EventLoop& loop, const SysRoots& roots, EndHandler on_end)
      : loop_(loop), roots_(roots), on_end_(std::move(on_end)) {}

  // Its root process; one that is gone has ended.
  void Watch(const std::string& handle, const Service& service);
  void Unwatch(const std::string& handle, const std::string& id);

  // Also of one that is not watched yet, since the policy has not answered its start.
  bool IsAlive(const std::string& handle, const Service& service) const;
  // The wait status of one that has ended, where that can be known.
  std::optional<int> EndOf(const std::string& handle, const Service& service) const;

 private:
  static std::string Key(const std::string& handle, const std::string& id) {
    return handle + "/" + id;
  }

  EventLoop& loop_;
  const SysRoots& roots_;
  const EndHandler on_end_;
  std::map<std::string, UniqueFd> pidfds_;  // by Key
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_ROOT_WATCHES_H_
