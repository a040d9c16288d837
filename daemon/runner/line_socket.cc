// SPDX-License-Identifier: Apache-2.0
#include "daemon/runner/line_socket.h"

#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>

namespace ppc {

bool LineSocket::Receive(bool wait) {
  char part[16384];
  const ssize_t got = recv(fd_.Get(), part, sizeof(part), wait ? 0 : MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  buffer_.append(part, static_cast<size_t>(got));
  return buffer_.size() <= kMaxLine || buffer_.find('\n') != std::string::npos;
}

std::optional<std::string> LineSocket::NextLine() {
  const size_t end = buffer_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

void LineSocket::Send(const Json& line) {
  const std::string text = DumpJson(line) + "\n";
  const std::lock_guard lock(send_mutex_);
  for (size_t at = 0; at < text.size();) {
    const ssize_t put = send(fd_.Get(), text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    // Receive() notices a closed peer.
    if (put <= 0) return;
    at += static_cast<size_t>(put);
  }
}

}  // namespace ppc
