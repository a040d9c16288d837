// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/server.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/control/listen_socket.h"

namespace ppc::control {
namespace {

constexpr size_t kMaxUnsentBytes = 8 << 20;
// Lines of one client handled before others get their turn.
constexpr int kLinesPerTurn = 16;

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
  Status status = loop.Watch(server->socket_.Get(), EPOLLIN,
                             [raw = server.get()](uint32_t) { raw->HandleConnection(); });
  if (!status) return status.error();
  return server;
}

Server::~Server() {
  for (auto& [id, client] : clients_) loop_.Unwatch(client.channel->fd());
  loop_.Unwatch(socket_.Get());
  unlink(path_.c_str());
}

void Server::HandleConnection() {
  UniqueFd fd(accept4(socket_.Get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.IsValid()) return;
  const Result<Peer> peer = PeerOf(fd.Get());
  if (!peer) return;
  const int raw = fd.Get();
  auto channel = std::make_unique<LineChannel>(std::move(fd), kMaxLineBytes, kMaxUnsentBytes);
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
  if ((events & EPOLLOUT) != 0 && !client.channel->Flush()) return Close(id);
  if (client.is_closing) {
    // What it still sends is of no interest; its hang-up is.
    if (!client.channel->has_unsent() || (events & (EPOLLHUP | EPOLLERR)) != 0) return Close(id);
    return;
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !client.channel->Receive()) {
    // A request under way is carried out; nobody waits for its answer.
    return Close(id);
  }
  HandleLines(id);
}

void Server::HandleLines(uint64_t id) {
  for (int lines = 0;; ++lines) {
    const auto it = clients_.find(id);
    if (it == clients_.end()) return;
    Client& client = it->second;
    if (client.is_waiting || client.is_closing || client.channel->has_unsent()) break;
    if (lines >= kLinesPerTurn) {
      if (std::exchange(client.is_queued, true)) break;
      loop_.After(Millis(0), [this, id, alive = std::weak_ptr<bool>(alive_)] {
        if (alive.expired() || !clients_.contains(id)) return;
        clients_.at(id).is_queued = false;
        HandleLines(id);
      });
      break;
    }
    const Result<std::optional<std::string>> line = client.channel->NextLine();
    if (!line) {
      // The rest of the line cannot be told from the next request.
      client.is_closing = true;
      Answer(id, ErrorAnswer(line.error()));
      return;
    }
    if (!line->has_value()) break;
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
  handler_(*request, client.peer, [this, id, alive = std::weak_ptr<bool>(alive_)](Json answer) {
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
  if (!client.channel->Send(DumpJson(answer))) return Close(id);
  if (client.is_closing && !client.channel->has_unsent()) return Close(id);
  Update(id);
}

void Server::Update(uint64_t id) {
  const auto it = clients_.find(id);
  if (it == clients_.end()) return;
  const Client& client = it->second;
  const bool takes_lines = !client.is_waiting && !client.is_closing && !client.is_queued &&
                           !client.channel->has_unsent();
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
