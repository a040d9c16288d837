// SPDX-License-Identifier: Apache-2.0
// Owns one of the two sockets: who may connect and ask for what, lines in and answers out.  A
// client that sends or reads slowly, or sends rubbish, holds up only itself.
// The admin socket is for root (or ppcd's own user) and everything; the service socket for any
// process and its own services, as far as its control group goes (rights.h).
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_SERVER_H_
#define PPC_DAEMON_SUPERVISOR_SERVER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "daemon/base/clock.h"
#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/roots.h"
#include "daemon/supervisor/event_loop.h"
#include "daemon/supervisor/peer.h"
#include "daemon/supervisor/rights.h"
#include "daemon/supervisor/service_manager.h"
#include "daemon/wire/line_channel.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {

class Server {
 public:
  using Handler = std::function<void(const Request&, const Peer&, Reply)>;

  enum class Kind { kAdmin, kService };

  static constexpr size_t kMaxClients = 256;
  // The service socket's limits: all (and half of ppcd's descriptors at most, of which each takes
  // two), those of one user, those of one control group (in a shared one: of one user in it).
  static constexpr size_t kMaxPeers = 1024;
  static constexpr size_t kMaxPeersOfUser = 128;
  static constexpr size_t kMaxPeersOfGroup = 16;

  // What servers share; must outlive them.
  struct Environment {
    EventLoop& loop;
    Refusals& refusals;
    SysRoots roots;
    Millis idle_limit;  // one that has asked nothing for so long goes where its place is needed
  };

  // Listens on `path`, mode 0600 or 0666.  A stale socket is replaced; EADDRINUSE when
  // a process answers there, EEXIST when it is no socket.
  static Result<std::unique_ptr<Server>> Listen(const Environment& environment, Kind kind,
                                                const std::string& path, Handler handler);
  // On a socket that listens already, whose file stays another's.
  static Result<std::unique_ptr<Server>> Adopt(const Environment& environment, Kind kind,
                                               InheritedSocket socket, Handler handler);
  // The first client is served to its end before another is let in.  Before the loop turns.
  void ServeFirstAlone() { is_first_alone_ = true; }
  bool owns_file() const { return owns_file_; }
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

 private:
  struct Client {
    std::unique_ptr<LineChannel> channel;
    Peer peer;                           // as it was when it connected
    std::optional<HeldProcess> process;  // of the service socket
    uint64_t active_ns = 0;              // when it last asked, or was answered
    bool is_waiting = false;             // for the answer of its request under way
    bool is_closing = false;             // once what is unsent has gone
    bool is_queued = false;              // more lines to handle in a later turn
    bool has_ended = false;              // it sends no more; gone once all is answered
    bool is_deaf = false;                // it has hung up: not watched any more, answers go nowhere
  };

  Server(const Environment& environment, Kind kind, UniqueFd socket, std::string path,
         Handler handler)
      : loop_(environment.loop),
        refusals_(environment.refusals),
        roots_(environment.roots),
        idle_ns_(static_cast<uint64_t>(environment.idle_limit.count()) * kNsPerMs),
        kind_(kind),
        socket_(std::move(socket)),
        path_(std::move(path)),
        handler_(std::move(handler)) {}
  // Fills in who it is; an error: it may not be here.
  Status Admit(Client& client);
  Status CheckRoom(const Peer& peer);
  // Closes the one of these that has been idle for longest, if that is long enough.
  bool EndIdle(const std::function<bool(const Client&)>& is_one);
  // The caller, as of now.
  Result<Peer> Identify(const Client& client) const;
  Status CheckRight(const Request& request) const;
  void HandleConnection();
  Status Listen();
  void Pause();
  void HandleSocket(uint64_t id, uint32_t events);
  void HandleLines(uint64_t id);
  void HandleLine(uint64_t id, Client& client, const std::string& line);
  void Answer(uint64_t id, const Json& answer);
  static bool HasUnsent(const Client& client);
  void HangUp(Client& client);
  void Update(uint64_t id);
  void Close(uint64_t id);

  EventLoop& loop_;
  Refusals& refusals_;
  const SysRoots roots_;
  const uint64_t idle_ns_;
  const Kind kind_;
  UniqueFd socket_;
  const std::string path_;
  bool owns_file_ = true;  // it goes with the server
  const Handler handler_;
  std::map<uint64_t, Client> clients_;
  uint64_t next_client_ = 1;
  bool is_paused_ = false;
  bool is_first_alone_ = false;  // and has not ended yet
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_SERVER_H_
