// SPDX-License-Identifier: Apache-2.0
// libppc: include/ppc/control.h over the control socket.  No exception leaves it.
// Threads: a client by one thread at a time.
#include <poll.h>
#include <ppc/control.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/json.h"
#include "daemon/base/text.h"
#include "daemon/base/unique_fd.h"
#include "daemon/wire/line_channel.h"
#include "daemon/wire/listen_socket.h"
#include "daemon/wire/protocol.h"

namespace ppc::control {
namespace {

// A reg_policy in place of another one waits for its end and its own start, 8 s each.
constexpr unsigned kDefaultTimeoutMs = 20000;
constexpr size_t kMaxAnswerBytes = 8 << 20;

// Where to ask, in this order: a named socket alone, if there is one.
std::vector<std::string> SocketsToTry(const char* named) {
  if (named != nullptr) return {named};
  std::string admin = FromEnvironment("PPC_SOCKET", PPC_DEFAULT_SOCKET);
  std::string service = FromEnvironment("PPC_SERVICE_SOCKET", ServiceSocketBeside(admin));
  return {std::move(admin), std::move(service)};
}

class Connection {
 public:
  Connection(std::vector<std::string> sockets, unsigned timeout_ms)
      : sockets_(std::move(sockets)), timeout_ms_(timeout_ms) {}

  Status Open() { return Open(Deadline()); }

  // A failed exchange closes the connection: a late answer would be taken for
  // that of the next request.
  Result<std::string> Exchange(const std::string& line) {
    const uint64_t deadline = Deadline();
    if (!channel_) {
      if (Status status = Open(deadline); !status) return status.error();
    }
    Result<std::string> answer = ExchangeOpen(line, deadline);
    if (!answer) channel_.reset();
    return answer;
  }

 private:
  uint64_t Deadline() const { return MonotonicNs() + timeout_ms_ * kNsPerMs; }

  Status Open(uint64_t deadline) {
    path_ = sockets_[0];
    Status status = Open(path_, deadline);
    for (size_t i = 1; i < sockets_.size() && !status; ++i) {
      const int code = status.error().code;
      if (code != EACCES && code != EPERM && code != ENOENT && code != ECONNREFUSED) break;
      // What was wrong with the first is what matters if none answers.
      if (!Open(sockets_[i], deadline)) continue;
      path_ = sockets_[i];
      return Ok();
    }
    return status;
  }

  Status Open(const std::string& path, uint64_t deadline) {
    channel_.reset();
    const Result<sockaddr_un> address = SocketAddress(path);
    if (!address) return address.error();
    UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd.IsValid()) return PosixError("socket", errno);
    const auto* name = reinterpret_cast<const sockaddr*>(&*address);
    while (connect(fd.Get(), name, sizeof(*address)) != 0) {
      const int code = errno;
      if (code == EINTR) continue;
      if (code != EAGAIN) return Unreachable(code);
      // Its queue is full.  There is nothing to poll for.
      if (MonotonicNs() >= deadline) return Unreachable(ETIMEDOUT);
      poll(nullptr, 0, 10);
    }
    channel_.emplace(std::move(fd), kMaxAnswerBytes, kMaxAnswerBytes);
    return Ok();
  }

  Error Unreachable(int code) const {
    Error error = PosixError("ppcd does not answer at " + path_, code);
    error.message += code == EACCES || code == EPERM
                         ? "; that socket is root's (sudo), and ppcd has none for services here"
                         : "; is it running? (" + HowToStart(path_) + ")";
    return error;
  }

  // Before it hung up it may have said why.
  Result<std::string> LastWords(int code) {
    (void)channel_->Receive();
    Result<std::optional<std::string>> last = channel_->NextLine();
    if (last && last->has_value()) return *std::move(*last);
    return Unreachable(code);
  }

  Result<std::string> ExchangeOpen(const std::string& line, uint64_t deadline) {
    if (Status status = channel_->Send(line); !status) return LastWords(EPIPE);
    while (true) {
      Result<std::optional<std::string>> answer = channel_->NextLine();
      if (!answer) return answer.error();
      if (answer->has_value()) return *std::move(*answer);
      const uint64_t now = MonotonicNs();
      if (now >= deadline) {
        return Error{ETIMEDOUT, "ppcd at " + path_ + " did not answer within " +
                                    std::to_string(timeout_ms_) + " ms"};
      }
      pollfd waiting{channel_->fd(), POLLIN, 0};
      if (channel_->has_unsent()) waiting.events |= POLLOUT;
      const auto wait_ms =
          static_cast<int>(std::min<uint64_t>((deadline - now) / kNsPerMs + 1, 60000));
      if (poll(&waiting, 1, wait_ms) <= 0) continue;
      if ((waiting.revents & POLLOUT) != 0 && !channel_->Flush()) return LastWords(EPIPE);
      if (!channel_->Receive()) return LastWords(ECONNRESET);
    }
  }

  const std::vector<std::string> sockets_;  // one at least
  std::string path_;                        // the one that was asked last
  const unsigned timeout_ms_;
  std::optional<LineChannel> channel_;
};

}  // namespace
}  // namespace ppc::control

struct ppc_client {
  ppc_client(const char* socket, unsigned timeout_ms)
      : connection(ppc::control::SocketsToTry(socket), timeout_ms) {}
  ppc::control::Connection connection;
  std::string reply;
  std::string error;
};

namespace {

using ppc::Error;
using ppc::Json;
using ppc::Result;

int Fail(ppc_client* client, const Error& error) {
  client->error = error.message;
  return -(error.code > 0 ? error.code : EIO);
}

// Runs `function`; what it or a library throws (memory) becomes an error.
template <typename Function>
int Guard(ppc_client* client, Function&& function) noexcept {
  if (client == nullptr) return -EINVAL;
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  } catch (...) {
    return -EIO;
  }
}

int SendRequest(ppc_client* client, Json request) {
  client->reply.clear();
  client->error.clear();
  if (!request.contains("v")) request["v"] = ppc::control::kProtocolVersion;
  const std::string line = ppc::DumpJson(request);
  if (line.size() > ppc::control::kMaxLineBytes) {
    return Fail(client, Error{E2BIG, "the request is longer than 256 KiB"});
  }
  Result<std::string> answer = client->connection.Exchange(line);
  if (!answer) return Fail(client, answer.error());
  client->reply = *std::move(answer);
  const Result<Json> parsed = ppc::ParseJsonObject(client->reply, "answer of ppcd");
  if (!parsed) return Fail(client, Error{EPROTO, parsed.error().message});
  if (ppc::control::IsOk(*parsed)) return 0;
  return Fail(client, ppc::control::AnswerError(*parsed));
}

// An object given as text becomes a member of, or the start of, a request.
Result<Json> ParseGiven(const char* text, const char* what) {
  return ppc::ParseJsonObject(text == nullptr ? "{}" : text, what);
}

std::string Text(const char* text) { return text == nullptr ? "" : text; }

// more(&request) adds what only this one has.
template <typename More>
int ServiceCall(ppc_client* client, const char* op, const char* mount, const char* id, More more) {
  return Guard(client, [&] {
    Json request{{"op", op}, {"mount", Text(mount)}, {"service_id", Text(id)}};
    more(&request);
    return SendRequest(client, std::move(request));
  });
}

int ServiceCall(ppc_client* client, const char* op, const char* mount, const char* id) {
  return ServiceCall(client, op, mount, id, [](Json*) {});
}

}  // namespace

extern "C" {

int ppc_connect(const char* socket, unsigned timeout_ms, struct ppc_client** client) {
  if (client == nullptr) return -EINVAL;
  *client = nullptr;
  try {
    *client =
        new ppc_client(socket, timeout_ms == 0 ? ppc::control::kDefaultTimeoutMs : timeout_ms);
    const ppc::Status status = (*client)->connection.Open();
    return status ? 0 : Fail(*client, status.error());
  } catch (...) {
    return -ENOMEM;
  }
}

void ppc_close(struct ppc_client* client) { delete client; }

int ppc_reg_policy(struct ppc_client* client, const char* mount, const char* policy,
                   const char* config) {
  return Guard(client, [=] {
    Json request{{"op", "reg_policy"}, {"mount", Text(mount)}, {"policy", Text(policy)}};
    if (config != nullptr) {
      Result<Json> parsed = ParseGiven(config, "config");
      if (!parsed) return Fail(client, parsed.error());
      request["config"] = *std::move(parsed);
    }
    return SendRequest(client, std::move(request));
  });
}

int ppc_rm_policy(struct ppc_client* client, const char* mount) {
  return Guard(client, [=] {
    return SendRequest(client, Json{{"op", "rm_policy"}, {"mount", Text(mount)}});
  });
}

int ppc_service_start(struct ppc_client* client, const char* spec) {
  return Guard(client, [=] {
    Result<Json> request = ParseGiven(spec, "service specification");
    if (!request) return Fail(client, request.error());
    (*request)["op"] = "service_start";
    return SendRequest(client, *std::move(request));
  });
}

int ppc_service_ready(struct ppc_client* client, const char* mount, const char* service_id) {
  return ServiceCall(client, "service_ready", mount, service_id);
}

int ppc_service_phase(struct ppc_client* client, const char* mount, const char* service_id,
                      const char* phase) {
  return ServiceCall(client, "service_phase", mount, service_id,
                     [=](Json* request) { (*request)["phase"] = Text(phase); });
}

int ppc_service_failed(struct ppc_client* client, const char* mount, const char* service_id,
                       unsigned wait_s) {
  return ServiceCall(client, "service_failed", mount, service_id, [=](Json* request) {
    if (wait_s != 0) (*request)["wait_s"] = wait_s;
  });
}

int ppc_service_stop(struct ppc_client* client, const char* mount, const char* service_id) {
  return ServiceCall(client, "service_stop", mount, service_id);
}

int ppc_request(struct ppc_client* client, const char* json) {
  return Guard(client, [=] {
    Result<Json> request = ParseGiven(json, "request");
    if (!request) return Fail(client, request.error());
    return SendRequest(client, *std::move(request));
  });
}

const char* ppc_reply(const struct ppc_client* client) {
  return client == nullptr ? "" : client->reply.c_str();
}

const char* ppc_error(const struct ppc_client* client) {
  return client == nullptr ? "out of memory" : client->error.c_str();
}

}  // extern "C"
