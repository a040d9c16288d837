// SPDX-License-Identifier: Apache-2.0
// Owns making the control socket's file: stale ones replaced, live ones respected.
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

struct ListenSocket {
  UniqueFd fd;
  gid_t gid = 0;  // group of the socket's file
};

// `group` empty: as the file is created.
Result<ListenSocket> OpenListenSocket(const std::string& path, const std::string& group);

}  // namespace ppc::control

#endif  // PPC_DAEMON_WIRE_LISTEN_SOCKET_H_
