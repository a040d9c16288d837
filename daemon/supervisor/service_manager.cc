// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/service_manager.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <utility>

#include "daemon/base/text.h"
#include "daemon/wire/notify.h"

namespace ppc::control {
namespace {

constexpr int kFirstHanded = 3;
constexpr int kMaxHanded = 64;

// A number of the environment that is meant for this process alone: it is taken out.
std::optional<uint64_t> TakeNumber(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  const std::string copy = text;
  unsetenv(name);
  return WholeNumber<uint64_t>(copy);
}

int SocketOption(int fd, int option) {
  int value = -1;
  socklen_t bytes = sizeof(value);
  return getsockopt(fd, SOL_SOCKET, option, &value, &bytes) == 0 ? value : -1;
}

std::string PathOf(int fd) {
  sockaddr_un address{};
  socklen_t bytes = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return "";
  const size_t length = bytes - offsetof(sockaddr_un, sun_path);
  if (length == 0 || address.sun_path[0] != '/') return "";
  return address.sun_path;
}

Result<InheritedSocket> Inherit(int fd, const std::string& name) {
  InheritedSocket socket;
  socket.fd.Reset(fd);
  const bool is_usable = SocketOption(fd, SO_DOMAIN) == AF_UNIX &&
                         SocketOption(fd, SO_TYPE) == SOCK_STREAM &&
                         SocketOption(fd, SO_ACCEPTCONN) == 1;
  socket.path = PathOf(fd);
  if (!is_usable || socket.path.empty()) {
    return Error{EINVAL, "descriptor " + std::to_string(fd) + " (" + name +
                             ") that the service manager handed over is no listening unix stream "
                             "socket with a path; give the socket unit ListenStream=/PATH"};
  }
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  return socket;
}

}  // namespace

Result<InheritedSockets> InheritedSockets::FromEnvironment() {
  InheritedSockets sockets;
  const std::optional<uint64_t> pid = TakeNumber("LISTEN_PID");
  const uint64_t count = TakeNumber("LISTEN_FDS").value_or(0);
  std::string names = ppc::FromEnvironment("LISTEN_FDNAMES");
  unsetenv("LISTEN_FDNAMES");
  // Left over by a process in between, for which they were meant.
  if (pid != static_cast<uint64_t>(getpid())) return sockets;
  if (count > kMaxHanded) {
    return Error{EINVAL, "LISTEN_FDS is " + std::to_string(count) + ", at most " +
                             std::to_string(kMaxHanded) + " sockets are taken"};
  }
  for (int fd = kFirstHanded; fd < kFirstHanded + static_cast<int>(count); ++fd) {
    const size_t colon = names.find(':');
    const std::string name = names.substr(0, colon);
    names = colon == std::string::npos ? "" : names.substr(colon + 1);
    Result<InheritedSocket> socket = Inherit(fd, name);
    if (!socket) return socket.error();
    if (!sockets.sockets_.emplace(name, std::move(socket).value()).second) {
      return Error{EINVAL, "the service manager handed over two sockets named '" + name +
                               "'; give each socket unit its own FileDescriptorName="};
    }
  }
  return sockets;
}

std::optional<InheritedSocket> InheritedSockets::Take(const std::string& name) {
  auto node = sockets_.extract(name);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

Status InheritedSockets::CheckAllTaken() const {
  if (sockets_.empty()) return Ok();
  const auto& [name, socket] = *sockets_.begin();
  return Error{EINVAL, "the service manager handed over " + socket.path + " as '" + name +
                           "', which ppcd does not know; set FileDescriptorName= of its unit"};
}

void FeedWatchdog(EventLoop& loop) {
  const std::optional<uint64_t> pid = TakeNumber("WATCHDOG_PID");
  const uint64_t limit_us = TakeNumber("WATCHDOG_USEC").value_or(0);
  if (limit_us == 0 || (pid && pid != static_cast<uint64_t>(getpid()))) return;
  // Twice within the limit, as sd_watchdog_enabled(3) asks for.
  const Millis period(std::max<uint64_t>(limit_us / 2000, 1));
  const auto feed = [&loop, period](const auto& again) -> void {
    NotifySystemd("WATCHDOG=1");
    loop.After(period, [again] { again(again); });
  };
  feed(feed);
}

void TellStatus(EventLoop& loop, std::function<std::string()> describe) {
  static constexpr Millis kPeriod(1000);
  if (std::getenv("NOTIFY_SOCKET") == nullptr) return;
  auto last = std::make_shared<std::string>();
  const auto tell = [&loop, last, describe = std::move(describe)](const auto& again) -> void {
    if (std::string now = describe(); now != *last) {
      NotifySystemd("STATUS=" + now);
      *last = std::move(now);
    }
    loop.After(kPeriod, [again] { again(again); });
  };
  tell(tell);
}

}  // namespace ppc::control
