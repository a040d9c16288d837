// SPDX-License-Identifier: Apache-2.0
// Owns telling systemd about the state of a program, by its datagram protocol.
// Threads: any.
#ifndef PPC_DAEMON_WIRE_NOTIFY_H_
#define PPC_DAEMON_WIRE_NOTIFY_H_

#include <string>

namespace ppc::control {

// "READY=1", "STOPPING=1", "STATUS=...".  Does nothing without $NOTIFY_SOCKET.
void NotifySystemd(const std::string& state);

// The same to the socket of another: a path, or "@NAME".
void NotifyAt(const std::string& path, const std::string& state);

}  // namespace ppc::control

#endif  // PPC_DAEMON_WIRE_NOTIFY_H_
