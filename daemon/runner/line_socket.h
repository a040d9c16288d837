// SPDX-License-Identifier: Apache-2.0
// Owns lines of JSON over a connected socket, one object per line.
// Threads: Receive by one; Send by any.
#ifndef PPC_DAEMON_RUNNER_LINE_SOCKET_H_
#define PPC_DAEMON_RUNNER_LINE_SOCKET_H_

#include <mutex>
#include <optional>
#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"

namespace ppc {

class LineSocket {
 public:
  explicit LineSocket(UniqueFd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.Get(); }
  // Reads the available data (waits if `wait`); false: the peer closed, or sent too long a line.
  bool Receive(bool wait);
  // The next complete line received.
  std::optional<std::string> NextLine();
  void Send(const Json& line);

 private:
  static constexpr size_t kMaxLine = 512 << 10;  // a request of 256 KiB, wrapped

  UniqueFd fd_;
  std::string buffer_;
  std::mutex send_mutex_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_RUNNER_LINE_SOCKET_H_
