// SPDX-License-Identifier: Apache-2.0
// Owns what a service manager (systemd) hands to ppcd beside its arguments: sockets that listen
// already, and a watchdog that wants to hear of it; and what it is told meanwhile.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_SERVICE_MANAGER_H_
#define PPC_DAEMON_SUPERVISOR_SERVICE_MANAGER_H_

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/supervisor/event_loop.h"

namespace ppc::control {

// Its file stays the service manager's.
struct InheritedSocket {
  UniqueFd fd;
  std::string path;
};

// Sockets by FileDescriptorName=, as of sd_listen_fds(3).
class InheritedSockets {
 public:
  // Once, at the start, before any other descriptor is opened: from now on the descriptors are
  // owned here and no child learns of them.  EINVAL where one is no listening unix stream socket.
  static Result<InheritedSockets> FromEnvironment();

  // The socket of that name, owned by the caller from now on.
  std::optional<InheritedSocket> Take(const std::string& name);

  // EINVAL where one is left that was not taken: a client would wait there for ever.
  Status CheckAllTaken() const;

 private:
  std::map<std::string, InheritedSocket> sockets_;
};

// Tells the watchdog, as often as it asks for, that the loop turns.  Nothing where there is none.
void FeedWatchdog(EventLoop& loop);

// Tells what `describe` says, a line, whenever that is another: `systemctl status` shows it.
// Nothing where there is no manager.
void TellStatus(EventLoop& loop, std::function<std::string()> describe);

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_SERVICE_MANAGER_H_
