// SPDX-License-Identifier: Apache-2.0
// Owns making a socket's file: stale ones replaced, live ones respected.
#ifndef PPC_DAEMON_WIRE_LISTEN_SOCKET_H_
#define PPC_DAEMON_WIRE_LISTEN_SOCKET_H_

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <string>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc::control {

// ENAMETOOLONG beyond what a socket address holds.
Result<sockaddr_un> SocketAddress(const std::string& path);

// The file has `mode` from the first moment on, before any process can connect.
Result<UniqueFd> OpenListenSocket(const std::string& path, mode_t mode);

}  // namespace ppc::control

#endif  // PPC_DAEMON_WIRE_LISTEN_SOCKET_H_
