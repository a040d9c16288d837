// SPDX-License-Identifier: Apache-2.0
#include "daemon/runner/line_socket.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "daemon/base/threads.h"

namespace ppc {

LineSocket::LineSocket(UniqueFd fd)
    : fd_(std::move(fd)), stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

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

bool LineSocket::ReadOn(const LineHandler& on_line) {
  pollfd fds[] = {{fd_.Get(), POLLIN, 0}, {stop_.Get(), POLLIN, 0}};
  for (bool is_open = true;;) {
    while (const std::optional<std::string> line = NextLine()) on_line(*line);
    if (!is_open) return false;
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) return true;
    is_open = Receive(/*wait=*/false);
  }
}

void LineSocket::StartReading(LineHandler on_line, std::function<void()> on_end) {
  reader_ = StartThread("the thread that reads ppcd's lines",
                        [this, on_line = std::move(on_line), on_end = std::move(on_end)] {
                          pthread_setname_np(pthread_self(), "ppc-lines");
                          if (!ReadOn(on_line)) on_end();
                        });
}

void LineSocket::StopReading() {
  if (!reader_.joinable()) return;
  (void)eventfd_write(stop_.Get(), 1);
  reader_.join();
}

}  // namespace ppc
