// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/server.h"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/base/json.h"
#include "daemon/base/log.h"
#include "daemon/machine/cgroup.h"
#include "daemon/supervisor/rights.h"
#include "daemon/wire/listen_socket.h"

namespace ppc::control {
namespace {

constexpr size_t kMaxUnsentReplyBytes = 8 << 20;
constexpr size_t kMaxUnsentToPeerBytes = 256 << 10;
// Lines of one client handled before others get their turn.
constexpr int kLinesPerTurn = 16;
// Without descriptors, until the next try to accept.
constexpr Millis kPause(1000);

// Whatever they do, root gets in.
size_t MaxPeers() {
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return Server::kMaxPeers;
  return std::min<size_t>(Server::kMaxPeers, descriptors.rlim_cur / 4);
}

}  // namespace

Result<std::unique_ptr<Server>> Server::Listen(const Environment& environment, Kind kind,
                                               const std::string& path, Handler handler) {
  Result<UniqueFd> socket = OpenListenSocket(path, kind == Kind::kAdmin ? 0600 : 0666);
  if (!socket) return socket.error();
  std::unique_ptr<Server> server(
      new Server(environment, kind, *std::move(socket), path, std::move(handler)));
  const Status status = server->Listen();
  if (!status) return status.error();
  return server;
}

Result<std::unique_ptr<Server>> Server::Adopt(const Environment& environment, Kind kind,
                                              InheritedSocket socket, Handler handler) {
  std::unique_ptr<Server> server(new Server(environment, kind, std::move(socket.fd),
                                            std::move(socket.path), std::move(handler)));
  server->owns_file_ = false;
  const Status status = server->Listen();
  if (!status) return status.error();
  return server;
}

Status Server::Listen() {
  return loop_.Watch(socket_.Get(), EPOLLIN, [this](uint32_t) { HandleConnection(); });
}

// A waiting connection would make the loop turn without a pause.
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
  if (owns_file_) unlink(path_.c_str());
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
  const bool is_admin = kind_ == Kind::kAdmin;
  Client client{.channel = std::make_unique<LineChannel>(
                    std::move(fd), is_admin ? kMaxLineBytes : kMaxServiceLineBytes,
                    is_admin ? kMaxUnsentReplyBytes : kMaxUnsentToPeerBytes),
                .peer = *peer,
                .process = std::nullopt,
                .active_ns = MonotonicNs()};
  if (const Status status = Admit(client); !status) {
    refusals_.Note(client.peer, "connect", status.error().message);
    (void)client.channel->Send(DumpJson(ErrorAnswer(status.error())));
    return;
  }
  const uint64_t id = next_client_++;
  clients_[id] = std::move(client);
  if (!loop_.Watch(raw, EPOLLIN, [this, id](uint32_t events) { HandleSocket(id, events); })) {
    clients_.erase(id);
    return;
  }
  if (is_first_alone_) loop_.Change(socket_.Get(), 0);
}

Status Server::Admit(Client& client) {
  client.peer.is_admin = kind_ == Kind::kAdmin;
  if (kind_ == Kind::kAdmin) {
    // The peer got past the socket's mode, or inherited the connection from a process that did.
    if (client.peer.uid != 0 && client.peer.uid != geteuid()) {
      return Error{EACCES, path_ + " is for root alone; services have a socket of their own"};
    }
    return CheckRoom(client.peer);
  }
  Result<HeldProcess> process = HeldProcess::AtEndOf(client.channel->fd(), client.peer.pid, roots_);
  if (!process) return process.error();
  client.process = *std::move(process);
  Result<Peer> peer = Identify(client);
  if (!peer) return peer.error();
  client.peer = *std::move(peer);
  return CheckRoom(client.peer);
}

bool Server::EndIdle(const std::function<bool(const Client&)>& is_one) {
  const uint64_t now_ns = MonotonicNs();
  auto idlest = clients_.end();
  for (auto it = clients_.begin(); it != clients_.end(); ++it) {
    const Client& client = it->second;
    const bool is_idle = !client.is_waiting && !HasUnsent(client) &&
                         now_ns >= client.active_ns + idle_ns_ && is_one(client);
    if (is_idle && (idlest == clients_.end() || client.active_ns < idlest->second.active_ns))
      idlest = it;
  }
  if (idlest == clients_.end()) return false;
  Close(idlest->first);
  return true;
}

Status Server::CheckRoom(const Peer& peer) {
  const size_t most = kind_ == Kind::kAdmin ? kMaxClients : MaxPeers();
  const std::string remedy = " connections already; close some and try again";
  if (clients_.size() >= most && !EndIdle([](const Client&) { return true; })) {
    return Error{EMFILE, "ppcd has " + std::to_string(most) + remedy};
  }
  if (kind_ == Kind::kAdmin) return Ok();
  const auto is_of_user = [&peer](const Client& client) { return client.peer.uid == peer.uid; };
  const auto is_of_group = [&](const Client& client) {
    return client.peer.cgroup == peer.cgroup &&
           (is_of_user(client) || !IsSharedCgroup(peer.cgroup));
  };
  const std::string tenant = TenantGroup(peer.cgroup);
  const auto is_of_tenant = [&tenant](const Client& client) {
    return TenantGroup(client.peer.cgroup) == tenant;
  };
  const auto count = [this](const auto& is_one) {
    return static_cast<size_t>(
        std::ranges::count_if(clients_, [&](const auto& entry) { return is_one(entry.second); }));
  };
  if (count(is_of_group) >= kMaxPeersOfGroup && !EndIdle(is_of_group)) {
    return Error{EMFILE, "this control group has " + std::to_string(kMaxPeersOfGroup) + remedy};
  }
  if (!tenant.empty() && count(is_of_tenant) >= kMaxPeersOfUser && !EndIdle(is_of_tenant)) {
    return Error{EMFILE, "control group " + DumpJson(tenant) + " has, with those below it, " +
                             std::to_string(kMaxPeersOfUser) + remedy};
  }
  if (IsOneUser(peer) && count(is_of_user) >= kMaxPeersOfUser && !EndIdle(is_of_user)) {
    return Error{EMFILE, "this user has " + std::to_string(kMaxPeersOfUser) + remedy};
  }
  return Ok();
}

Result<Peer> Server::Identify(const Client& client) const {
  Peer peer = client.peer;
  if (!client.process) return peer;
  Result<std::string> cgroup = client.process->Cgroup();
  if (!cgroup) return cgroup.error();
  peer.cgroup = *std::move(cgroup);
  return peer;
}

Status Server::CheckRight(const Request& request) const {
  if (kind_ == Kind::kAdmin || request.is_for_services) return Ok();
  return Error{EACCES, request.op + " is root's: run ppcctl as root where ppcd runs (this is the " +
                           "socket for services)"};
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
  client.active_ns = MonotonicNs();
  const Result<Request> request = ParseRequest(line);
  if (!request) return Answer(id, ErrorAnswer(request.error()));
  const auto refuse = [&](const Peer& peer, const Error& why) {
    refusals_.Note(peer, request->op, why.message);
    Answer(id, ErrorAnswer(why));
  };
  const Result<Peer> peer = Identify(client);
  if (!peer) return refuse(client.peer, peer.error());
  if (const Status status = CheckRight(*request); !status) return refuse(*peer, status.error());
  handler_(*request, *peer,
           [this, id, peer = *peer, op = request->op,
            alive = std::weak_ptr<bool>(alive_)](const Json& answer) {
             if (alive.expired()) return;
             if (!peer.is_admin && !IsOk(answer) && AnswerError(answer).code == EACCES) {
               refusals_.Note(peer, op, AnswerError(answer).message);
             }
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
  client.active_ns = MonotonicNs();
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
  if (std::exchange(is_first_alone_, false)) loop_.Change(socket_.Get(), EPOLLIN);
}

}  // namespace ppc::control
