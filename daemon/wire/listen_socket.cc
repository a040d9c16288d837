// SPDX-License-Identifier: Apache-2.0
#include "daemon/wire/listen_socket.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ppc::control {
namespace {

constexpr int kBacklog = 128;

// Does a process listen there?
bool IsAnswered(const sockaddr_un& address) {
  const UniqueFd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  // EAGAIN: it listens, its queue is full.
  return connect(probe.Get(), name, sizeof(address)) == 0 || errno == EAGAIN;
}

Status ClearStale(const std::string& path, const sockaddr_un& address) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return Ok();
    return PosixError(path, errno);
  }
  if (!S_ISSOCK(info.st_mode)) {
    return Error{EEXIST, path + " exists and is no socket; remove it or give ppcd another path"};
  }
  if (IsAnswered(address)) {
    return Error{EADDRINUSE, "another ppcd answers at " + path + "; stop it first"};
  }
  if (unlink(path.c_str()) != 0) return PosixError("unlink " + path, errno);
  return Ok();
}

}  // namespace

Result<sockaddr_un> SocketAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return Error{ENAMETOOLONG, "socket path '" + path + "' must have 1 to 107 bytes"};
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

Result<UniqueFd> OpenListenSocket(const std::string& path, mode_t mode) {
  const Result<sockaddr_un> address = SocketAddress(path);
  if (!address) return address.error();
  if (Status status = ClearStale(path, *address); !status) return status.error();
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.IsValid()) return PosixError("socket", errno);
  constexpr mode_t kAll = 0777;
  const mode_t old_mask = umask(kAll & ~mode);
  const auto* name = reinterpret_cast<const sockaddr*>(&*address);
  const int failed = bind(fd.Get(), name, sizeof(*address)) != 0 ? errno : 0;
  umask(old_mask);
  if (failed != 0) return PosixError("bind " + path, failed);
  if (listen(fd.Get(), kBacklog) != 0) return PosixError("listen " + path, errno);
  return fd;
}

}  // namespace ppc::control
