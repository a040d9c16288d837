// SPDX-License-Identifier: Apache-2.0
// Owns lines of JSON over the supervisor's socket, one object per line, and the thread that reads
// them once the policy runs.
// Threads: Receive and NextLine by one, which is ppc-lines from StartReading on; Send by any.
#ifndef PPC_DAEMON_RUNNER_LINE_SOCKET_H_
#define PPC_DAEMON_RUNNER_LINE_SOCKET_H_

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "daemon/base/json.h"
#include "daemon/base/unique_fd.h"

namespace ppc {

class LineSocket {
 public:
  using LineHandler = std::function<void(const std::string& line)>;

  explicit LineSocket(UniqueFd fd);
  ~LineSocket() { StopReading(); }
  LineSocket(const LineSocket&) = delete;
  LineSocket& operator=(const LineSocket&) = delete;

  int fd() const { return fd_.Get(); }
  // Reads the available data (waits if `wait`); false: the peer closed, or sent too long a line.
  bool Receive(bool wait);
  // The next complete line received.
  std::optional<std::string> NextLine();
  void Send(const Json& line);

  // Calls on_line with each line, those received before first, and on_end once the peer has closed;
  // both on ppc-lines.  Throws std::system_error if there can be no thread.
  void StartReading(LineHandler on_line, std::function<void()> on_end);
  // Waits for a handler that runs; none is called later.
  void StopReading();

 private:
  // False: the peer closed.
  bool ReadOn(const LineHandler& on_line);

  static constexpr size_t kMaxLine = 512 << 10;  // a request of 256 KiB, wrapped

  const UniqueFd fd_;
  const UniqueFd stop_;
  std::string buffer_;
  std::mutex send_mutex_;
  std::thread reader_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_RUNNER_LINE_SOCKET_H_
