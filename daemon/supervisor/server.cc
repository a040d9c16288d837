// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/server.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/wire/listen_socket.h"

namespace ppc::control {
namespace {

constexpr size_t kMaxUnsentReplyBytes = 8 << 20;
// Lines of one client handled before others get their turn.
constexpr int kLinesPerTurn = 16;
// Without descriptors, until the next try to let somebody in.
constexpr Millis kPause(1000);

Result<Peer> PeerOf(int socket) {
  ucred credentials{};
  socklen_t bytes = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) != 0) {
    return PosixError("SO_PEERCRED", errno);
  }
  Peer peer{credentials.pid, credentials.uid, {credentials.gid}};
#ifdef SO_PEERGROUPS
  constexpr size_t kMaxGroups = 65536;
  std::vector<gid_t> more(64);
  bytes = static_cast<socklen_t>(more.size() * sizeof(gid_t));
  int failed = getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, more.data(), &bytes);
  if (failed != 0 && errno == ERANGE && bytes / sizeof(gid_t) <= kMaxGroups) {
    more.resize(bytes / sizeof(gid_t));
    failed = getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, more.data(), &bytes);
  }
  more.resize(failed == 0 ? bytes / sizeof(gid_t) : 0);
  peer.groups.insert(peer.groups.end(), more.begin(), more.end());
#endif
  return peer;
}

}  // namespace

Result<std::unique_ptr<Server>> Server::Listen(EventLoop& loop, const std::string& path,
                                               const std::string& group, Handler handler) {
  Result<ListenSocket> socket = OpenListenSocket(path, group);
  if (!socket) return socket.error();
  std::unique_ptr<Server> server(
      new Server(loop, std::move(socket->fd), path, socket->gid, std::move(handler)));
  const Status status = server->Listen();
  if (!status) return status.error();
  return server;
}

Result<std::unique_ptr<Server>> Server::Adopt(EventLoop& loop, InheritedSocket socket,
                                              Handler handler) {
  struct stat info {};
  if (stat(socket.path.c_str(), &info) != 0) return PosixError(socket.path, errno);
  std::unique_ptr<Server> server(
      new Server(loop, std::move(socket.fd), "", info.st_gid, std::move(handler)));
  const Status status = server->Listen();
  if (!status) return status.error();
  return server;
}

Status Server::Listen() {
  return loop_.Watch(socket_.Get(), EPOLLIN, [this](uint32_t) { HandleConnection(); });
}

// Whoever waits to be let in would make the loop turn without a pause.
void Server::Pause() {
  Log(LogLevel::kWarning,
      "no descriptor is left for another connection; raise ppcd's limit of open files");
  loop_.Unwatch(socket_.Get());
  is_paused_ = true;
  loop_.After(kPause, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired()) return;
    is_paused_ = false;
    if (const Status status = Listen(); !status) Log(LogLevel::kError, status.error().message);
  });
}

Server::~Server() {
  for (auto& [id, client] : clients_) loop_.Unwatch(client.channel->fd());
  if (!is_paused_) loop_.Unwatch(socket_.Get());
  if (!path_.empty()) unlink(path_.c_str());
}

void Server::HandleConnection() {
  UniqueFd fd(accept4(socket_.Get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.IsValid()) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) Pause();
    return;
  }
  const Result<Peer> peer = PeerOf(fd.Get());
  if (!peer) return;
  const int raw = fd.Get();
  auto channel = std::make_unique<LineChannel>(std::move(fd), kMaxLineBytes, kMaxUnsentReplyBytes);
  if (clients_.size() >= kMaxClients) {
    (void)channel->Send(
        DumpJson(ErrorAnswer(Error{EMFILE, "ppcd has " + std::to_string(kMaxClients) +
                                               " connections already; close some and try again"})));
    return;
  }
  const uint64_t id = next_client_++;
  clients_[id] = Client{std::move(channel), *peer};
  if (!loop_.Watch(raw, EPOLLIN, [this, id](uint32_t events) { HandleSocket(id, events); })) {
    clients_.erase(id);
  }
}

void Server::HandleSocket(uint64_t id, uint32_t events) {
  Client& client = clients_.at(id);
  const bool is_broken = (events & EPOLLOUT) != 0 && !client.channel->Flush();
  if (is_broken || (events & (EPOLLHUP | EPOLLERR)) != 0) HangUp(client);
  if (client.is_closing) {
    // What it still sends is of no interest; its hang-up is.
    if (!HasUnsent(client)) Close(id);
    return;
  }
  if ((events & EPOLLIN) != 0 && !client.channel->Receive()) client.has_ended = true;
  HandleLines(id);
}

bool Server::HasUnsent(const Client& client) {
  return !client.is_deaf && client.channel->has_unsent();
}

// What it has sent is carried out all the same.  The loop would tell of the hang-up again and
// again, whatever is asked of it.
void Server::HangUp(Client& client) {
  client.is_deaf = true;
  loop_.Unwatch(client.channel->fd());
}

void Server::HandleLines(uint64_t id) {
  for (int lines = 0;; ++lines) {
    const auto it = clients_.find(id);
    if (it == clients_.end()) return;
    Client& client = it->second;
    if (client.is_waiting || client.is_closing || HasUnsent(client)) break;
    if (lines >= kLinesPerTurn) {
      if (std::exchange(client.is_queued, true)) break;
      loop_.After(Millis(0), [this, id, alive = std::weak_ptr<bool>(alive_)] {
        if (alive.expired() || !clients_.contains(id)) return;
        clients_.at(id).is_queued = false;
        HandleLines(id);
      });
      break;
    }
    Result<std::optional<std::string>> line = client.channel->NextLine();
    if (line && !line->has_value() && client.is_deaf) {
      (void)client.channel->Receive();  // the loop does not tell of the rest
      line = client.channel->NextLine();
    }
    if (!line) {
      // The rest of the line cannot be told from the next request.
      client.is_closing = true;
      Answer(id, ErrorAnswer(line.error()));
      return;
    }
    if (!line->has_value()) {
      if (client.has_ended || client.is_deaf) return Close(id);
      break;
    }
    HandleLine(id, client, **line);
  }
  Update(id);
}

void Server::HandleLine(uint64_t id, Client& client, const std::string& line) {
  client.is_waiting = true;
  const Result<Request> request = ParseRequest(line);
  if (!request) return Answer(id, ErrorAnswer(request.error()));
  if (request->changes_state && !MayChangeState(client.peer, geteuid(), gid_)) {
    return Answer(id, ErrorAnswer(Error{EACCES, "only root and members of the socket's group may " +
                                                    request->op}));
  }
  handler_(*request, client.peer,
           [this, id, alive = std::weak_ptr<bool>(alive_)](const Json& answer) {
             if (alive.expired()) return;
             Answer(id, answer);
             // In a turn of its own: this may be called from within HandleLines.
             loop_.After(Millis(0), [this, id, alive] {
               if (!alive.expired() && clients_.contains(id)) HandleLines(id);
             });
           });
}

void Server::Answer(uint64_t id, const Json& answer) {
  const auto it = clients_.find(id);
  if (it == clients_.end()) return;
  Client& client = it->second;
  client.is_waiting = false;
  if (!client.is_deaf && !client.channel->Send(DumpJson(answer))) HangUp(client);
  if (client.is_closing && !HasUnsent(client)) return Close(id);
  Update(id);
}

void Server::Update(uint64_t id) {
  const auto it = clients_.find(id);
  if (it == clients_.end()) return;
  const Client& client = it->second;
  if (client.is_deaf) return;
  const bool takes_lines = !client.is_waiting && !client.is_closing && !client.is_queued &&
                           !client.has_ended && !client.channel->has_unsent();
  loop_.Change(client.channel->fd(),
               (takes_lines ? EPOLLIN : 0U) | (client.channel->has_unsent() ? EPOLLOUT : 0U));
}

void Server::Close(uint64_t id) {
  const auto it = clients_.find(id);
  if (it == clients_.end()) return;
  loop_.Unwatch(it->second.channel->fd());
  clients_.erase(it);
}

}  // namespace ppc::control
