// SPDX-License-Identifier: Apache-2.0
// Owns the control socket: who may connect, lines in and answers out.  A
// client that sends or reads slowly, or sends rubbish, holds up only itself.
// Threads: the loop's.
#ifndef PPC_DAEMON_SUPERVISOR_SERVER_H_
#define PPC_DAEMON_SUPERVISOR_SERVER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/supervisor/event_loop.h"
#include "daemon/supervisor/service_manager.h"
#include "daemon/wire/line_channel.h"
#include "daemon/wire/peer.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {

class Server {
 public:
  using Reply = std::function<void(Json)>;
  using Handler = std::function<void(const Request&, const Peer&, Reply)>;

  static constexpr size_t kMaxClients = 256;

  // Listens on `path` (mode 0660).  A stale socket is replaced; EADDRINUSE when
  // somebody answers there, EEXIST when it is no socket.
  static Result<std::unique_ptr<Server>> Listen(EventLoop& loop, const std::string& path,
                                                const std::string& group, Handler handler);
  // On a socket that listens already, whose file stays somebody else's.
  static Result<std::unique_ptr<Server>> Adopt(EventLoop& loop, InheritedSocket socket,
                                               Handler handler);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

 private:
  struct Client {
    std::unique_ptr<LineChannel> channel;
    Peer peer;
    bool is_waiting = false;  // for the answer of its request under way
    bool is_closing = false;  // once what is unsent has gone
    bool is_queued = false;   // more lines to handle in a later turn
    bool has_ended = false;   // it sends no more; gone once all is answered
    bool is_deaf = false;     // it has hung up: not watched any more, answers go nowhere
  };

  Server(EventLoop& loop, UniqueFd socket, std::string path, gid_t gid, Handler handler)
      : loop_(loop),
        socket_(std::move(socket)),
        path_(std::move(path)),
        gid_(gid),
        handler_(std::move(handler)) {}
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
  UniqueFd socket_;
  const std::string path_;  // goes with the server; "" none
  const gid_t gid_;
  const Handler handler_;
  std::map<uint64_t, Client> clients_;
  uint64_t next_client_ = 1;
  bool is_paused_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_SERVER_H_
