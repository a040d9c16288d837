// SPDX-License-Identifier: Apache-2.0
#include "daemon/wire/line_channel.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace ppc::control {

LineChannel::LineChannel(UniqueFd fd, size_t max_line_bytes, size_t max_unsent_bytes)
    : fd_(std::move(fd)), max_line_bytes_(max_line_bytes), max_unsent_bytes_(max_unsent_bytes) {}

bool LineChannel::Receive() {
  received_.erase(0, begin_);
  scanned_ -= begin_;
  begin_ = 0;
  std::array<char, 16384> buffer;
  while (received_.size() <= max_line_bytes_) {
    const ssize_t got = recv(fd_.Get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) {
      received_.append(buffer.data(), static_cast<size_t>(got));
      continue;
    }
    if (got < 0 && errno == EINTR) continue;
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  }
  return true;
}

Result<std::optional<std::string>> LineChannel::NextLine() {
  for (;;) {
    const size_t end = received_.find('\n', scanned_);
    const bool is_whole = end != std::string::npos;
    const size_t line_bytes = (is_whole ? end : received_.size()) - begin_;
    if (!is_too_long_ && line_bytes > max_line_bytes_) {
      is_too_long_ = true;
      return Error{E2BIG, "a line is longer than " + std::to_string(max_line_bytes_) + " bytes"};
    }
    scanned_ = is_whole ? end + 1 : received_.size();
    if (is_too_long_) begin_ = scanned_;
    if (!is_whole) return std::optional<std::string>();
    if (std::exchange(is_too_long_, false)) continue;
    std::string line = received_.substr(begin_, line_bytes);
    begin_ = scanned_;
    return std::optional<std::string>(std::move(line));
  }
}

Status LineChannel::Send(const std::string& line) {
  const size_t waiting = unsent_.size() - sent_;
  if (waiting > 0 && waiting + line.size() + 1 > max_unsent_bytes_) {
    return Error{ENOBUFS, "the other side does not read what it is sent"};
  }
  unsent_.erase(0, sent_);
  sent_ = 0;
  unsent_ += line;
  unsent_ += '\n';
  return Flush();
}

Status LineChannel::Flush() {
  while (has_unsent()) {
    const ssize_t put = send(fd_.Get(), unsent_.data() + sent_, unsent_.size() - sent_,
                             MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put >= 0) {
      sent_ += static_cast<size_t>(put);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Ok();
    } else if (errno != EINTR) {
      return PosixError("send", errno);
    }
  }
  unsent_.clear();
  sent_ = 0;
  return Ok();
}

}  // namespace ppc::control
