// SPDX-License-Identifier: Apache-2.0
#include "daemon/wire/notify.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "daemon/base/unique_fd.h"

namespace ppc::control {

void NotifySystemd(const std::string& state) {
  const char* socket = std::getenv("NOTIFY_SOCKET");
  if (socket != nullptr) NotifyAt(socket, state);
}

void NotifyAt(const std::string& path, const std::string& state) {
  sockaddr_un address{};
  const size_t length = path.size();
  if (length == 0 || (path[0] != '/' && path[0] != '@')) return;
  if (length >= sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), length);
  if (path[0] == '@') address.sun_path[0] = '\0';  // abstract
  const UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  (void)sendto(fd.Get(), state.data(), state.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), bytes);
}

}  // namespace ppc::control
