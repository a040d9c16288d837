// SPDX-License-Identifier: Apache-2.0
#include "extras/oci/daemon_lines.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>

#include "daemon/base/clock.h"
#include "daemon/base/unique_fd.h"
#include "daemon/wire/listen_socket.h"
#include "daemon/wire/protocol.h"

namespace ppc::oci {
namespace {

constexpr size_t kMaxAnswerBytes = 8 << 20;
constexpr int kConnectPeriodMs = 10;

int LeftMs(uint64_t deadline_ns) {
  const uint64_t now = MonotonicNs();
  return now >= deadline_ns ? 0 : static_cast<int>((deadline_ns - now) / kNsPerMs + 1);
}

Error Silent(const std::string& socket) {
  return Error{ETIMEDOUT, "ppcd at " + socket + " does not answer in time"};
}

}  // namespace

Result<DaemonLines> DaemonLines::Connect(const std::string& socket, uint64_t deadline_ns) {
  const Result<sockaddr_un> address = control::SocketAddress(socket);
  if (!address) return address.error();
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.IsValid()) return PosixError("socket", errno);
  const auto* name = reinterpret_cast<const sockaddr*>(&*address);
  while (connect(fd.Get(), name, sizeof(*address)) != 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return PosixError("ppcd does not answer at " + socket, errno);
    if (LeftMs(deadline_ns) == 0) return Silent(socket);
    poll(nullptr, 0, kConnectPeriodMs);  // its queue is full, and there is no event to poll for
  }
  return DaemonLines(control::LineChannel(std::move(fd), kMaxAnswerBytes, kMaxAnswerBytes), socket,
                     deadline_ns);
}

Status DaemonLines::Send(Json request) {
  request["v"] = control::kProtocolVersion;
  const std::string line = DumpJson(request);
  if (line.size() > control::kMaxLineBytes) {
    return Error{E2BIG, "the request is longer than ppcd takes"};
  }
  return channel_.Send(line);
}

Result<Json> DaemonLines::Answer() {
  for (bool is_open = true;;) {
    Result<std::optional<std::string>> line = channel_.NextLine();
    if (!line) return line.error();
    if (line->has_value()) {
      Result<Json> answer = ParseJsonObject(**line, "answer of ppcd");
      if (!answer || control::IsOk(*answer)) return answer;
      return control::AnswerError(*answer);
    }
    if (!is_open) return PosixError("ppcd at " + socket_, ECONNRESET);
    const int left = LeftMs(deadline_ns_);
    if (left == 0) return Silent(socket_);
    pollfd waiting{channel_.fd(), POLLIN, 0};
    if (channel_.has_unsent()) waiting.events |= POLLOUT;
    if (poll(&waiting, 1, left) <= 0) continue;
    if ((waiting.revents & POLLOUT) != 0 && !channel_.Flush()) is_open = false;
    if ((waiting.revents & ~POLLOUT) != 0 && !channel_.Receive()) is_open = false;
  }
}

}  // namespace ppc::oci
