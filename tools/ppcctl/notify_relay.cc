// SPDX-License-Identifier: Apache-2.0
#include "tools/ppcctl/notify_relay.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "daemon/base/files.h"
#include "daemon/wire/notify.h"

namespace ppc::ctl {
namespace {

bool HasLine(const std::string& state, const std::string& line) {
  return ("\n" + state + "\n").find("\n" + line + "\n") != std::string::npos;
}

bool Descends(pid_t pid) {
  constexpr int kMaxDepth = 64;
  for (int depth = 0; pid > 1 && depth < kMaxDepth; ++depth) {
    if (pid == getpid()) return true;
    const Result<std::string> line = ReadLine("/proc/" + std::to_string(pid) + "/stat");
    const size_t name_end = line ? line->rfind(')') : std::string::npos;
    if (name_end == std::string::npos || name_end + 4 > line->size()) return false;
    pid = std::atoi(line->c_str() + name_end + 4);  // ") S PPID"
  }
  return pid > 0 && pid == getpid();
}

// Any process can send to it.  What we pass on counts as ours.
bool IsFromOurs(msghdr& message) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(part), sizeof(sender));
    return sender.uid == 0 || sender.uid == geteuid() || Descends(sender.pid);
  }
  return false;
}

}  // namespace

Result<std::unique_ptr<NotifyRelay>> NotifyRelay::Open(std::function<void()> on_ready,
                                                       std::function<void()> on_told_ready) {
  std::unique_ptr<NotifyRelay> relay(
      new NotifyRelay(std::move(on_ready), std::move(on_told_ready)));
  if (const char* own = std::getenv("NOTIFY_SOCKET")) relay->upstream_ = own;
  relay->socket_.Reset(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  relay->stop_.Reset(eventfd(0, EFD_CLOEXEC));
  // The kernel picks a name in the abstract space: nothing is left behind, and a child that has
  // become another user reaches it.
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  auto* name = reinterpret_cast<sockaddr*>(&address);
  socklen_t bytes = sizeof(address);
  const int on = 1;
  setsockopt(relay->socket_.Get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
  if (bind(relay->socket_.Get(), name, sizeof(sa_family_t)) != 0 ||
      getsockname(relay->socket_.Get(), name, &bytes) != 0 || !relay->stop_.IsValid()) {
    return PosixError("socket for readiness", errno);
  }
  const size_t length = bytes - offsetof(sockaddr_un, sun_path);
  relay->address_ = "@" + std::string(address.sun_path + 1, length - 1);
  return relay;
}

NotifyRelay::~NotifyRelay() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  (void)!write(stop_.Get(), &one, sizeof(one));
  thread_.join();
}

void NotifyRelay::Start() {
  thread_ = std::thread([this] { Run(); });
}

void NotifyRelay::Run() {
  while (true) {
    std::array<pollfd, 2> waiting = {{{socket_.Get(), POLLIN, 0}, {stop_.Get(), POLLIN, 0}}};
    if (poll(waiting.data(), waiting.size(), -1) < 0) continue;
    while (TakeOne()) {
    }
    if (waiting[1].revents != 0) return;
  }
}

bool NotifyRelay::TakeOne() {
  std::array<char, 8192> text;
  // Descriptors that come along, as of a barrier, the kernel closes: there is no room for them.
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control{};
  iovec part{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket_.Get(), &message, MSG_CMSG_CLOEXEC);
  if (got < 0) return errno == EINTR;
  if (!IsFromOurs(message)) return true;
  const std::string state(text.data(), static_cast<size_t>(got));
  if (state == kToldReady) {
    on_told_ready_();
    return true;
  }
  if (HasLine(state, "READY=1")) on_ready_();
  if (!upstream_.empty() && state != "BARRIER=1") control::NotifyAt(upstream_, state);
  return true;
}

}  // namespace ppc::ctl
