// SPDX-License-Identifier: Apache-2.0
#include "extras/artifact/helper_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <string_view>

#include "daemon/base/files.h"

namespace ppc::artifact {
namespace {

using Clock = std::chrono::steady_clock;

// Lines, each with a NUL, and an empty one at the end.
std::string Packed(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\0';
  return text + '\0';
}

// False: the end is missing.
bool ReadLines(std::string_view text, std::vector<std::string>* lines) {
  lines->clear();
  while (!text.empty()) {
    const size_t end = text.find('\0');
    if (end == std::string_view::npos) return false;
    if (end == 0) return true;
    lines->emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return false;
}

[[noreturn]] void RunAsChild(const HelperProcess::Body& body, int socket) {
  constexpr int kResult = 3;
  setsid();  // ^C is for the command, not for this process
  const int kept = fcntl(socket, F_DUPFD, kResult);
  const int null = open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, stream);
  if (kept != kResult) dup2(kept, kResult);
  // A reader that waits for the end of our output must not wait for this process.
  CloseFrom(kResult + 1);
  try {
    const std::string text = Packed(body());
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t bytes = send(kResult, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (bytes < 0 && errno != EINTR) break;
      if (bytes > 0) sent += static_cast<size_t>(bytes);
    }
  } catch (const std::exception&) {
    _exit(1);
  }
  _exit(0);
}

}  // namespace

Result<HelperProcess> HelperProcess::Start(const Body& body) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return PosixError("socketpair", errno);
  }
  UniqueFd ours(ends[0]);
  const UniqueFd child_end(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return PosixError("fork", errno);
  if (pid == 0) RunAsChild(body, child_end.Get());
  // Invalid: it has ended and been reaped, or cannot be killed.
  UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  return HelperProcess(std::move(process), std::move(ours));
}

Result<std::vector<std::string>> HelperProcess::Wait(int limit_ms) {
  const auto end = Clock::now() + std::chrono::milliseconds(limit_ms);
  std::string text;
  std::vector<std::string> lines;
  while (true) {
    int left_ms = -1;
    if (limit_ms >= 0) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
      left_ms = static_cast<int>(std::max<int64_t>(left.count(), 0));
    }
    pollfd waiting{result_.Get(), POLLIN, 0};
    const int ready = poll(&waiting, 1, left_ms);
    if (ready < 0 && errno != EINTR) return PosixError("poll", errno);
    if (ready == 0) {
      GiveUp();
      return PosixError("helper process", ETIMEDOUT);
    }
    if (ready < 0) continue;
    std::array<char, 4096> buffer;
    const ssize_t got = read(result_.Get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got > 0) text.append(buffer.data(), static_cast<size_t>(got));
    if (ReadLines(text, &lines)) break;
    if (got <= 0) return PosixError("helper process", EPIPE);
  }
  Reap();
  return lines;
}

void HelperProcess::GiveUp() const {
  if (process_.IsValid()) syscall(SYS_pidfd_send_signal, process_.Get(), SIGKILL, nullptr, 0);
  if (result_.IsValid()) shutdown(result_.Get(), SHUT_RDWR);
}

// The process has no work left: it ends at once, or hangs and is abandoned.
void HelperProcess::Reap() const {
  constexpr int kLimitMs = 1000;
  pollfd waiting{process_.Get(), POLLIN, 0};
  if (!process_.IsValid() || poll(&waiting, 1, kLimitMs) <= 0) return;
  siginfo_t info{};
  waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(process_.Get()), &info,
         WEXITED | WNOHANG);
}

}  // namespace ppc::artifact
