// SPDX-License-Identifier: Apache-2.0
// Owns one non-blocking stream socket on which both sides send lines.  It
// never waits: reading takes what is there, writing keeps the rest.
// Threads: one.
#ifndef PPC_DAEMON_WIRE_LINE_CHANNEL_H_
#define PPC_DAEMON_WIRE_LINE_CHANNEL_H_

#include <cstddef>
#include <optional>
#include <string>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc::control {

class LineChannel {
 public:
  LineChannel(UniqueFd fd, size_t max_line_bytes, size_t max_unsent_bytes);

  int fd() const { return fd_.Get(); }

  // Takes what the socket has, up to one line limit.  False: the other side
  // has closed, or the socket failed; lines already here stay readable.
  bool Receive();

  // The next whole line without its newline; nothing yet: nullopt.
  // E2BIG: a line exceeds the limit; it is left out, the next one may be good.
  Result<std::optional<std::string>> NextLine();

  // Appends a newline and sends what the socket takes.  ENOBUFS: the other side
  // does not read and the limit is reached; nothing of the line was queued.
  Status Send(const std::string& line);

  // Sends what was kept back.  Error: the connection is broken.
  Status Flush();

  bool has_unsent() const { return sent_ < unsent_.size(); }

 private:
  UniqueFd fd_;
  const size_t max_line_bytes_;
  const size_t max_unsent_bytes_;
  std::string received_;
  size_t begin_ = 0;          // lines before this were handed out
  size_t scanned_ = 0;        // no newline from begin_ to here
  bool is_too_long_ = false;  // the line under way, whose beginning is gone
  std::string unsent_;
  size_t sent_ = 0;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_WIRE_LINE_CHANNEL_H_
