// SPDX-License-Identifier: Apache-2.0
// Owns telling systemd about the state of ppcd, by its datagram protocol.
#ifndef PPC_DAEMON_CONTROL_NOTIFY_H_
#define PPC_DAEMON_CONTROL_NOTIFY_H_

#include <string>

namespace ppc::control {

// "READY=1", "STOPPING=1", "STATUS=...".  Does nothing without $NOTIFY_SOCKET.
void NotifySystemd(const std::string& state);

}  // namespace ppc::control

#endif  // PPC_DAEMON_CONTROL_NOTIFY_H_
