// SPDX-License-Identifier: Apache-2.0
#include "extras/metrics/metrics_server.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "daemon/base/files.h"

namespace ppc::control {

// The library takes a function and a pointer.
struct MetricsServerCalls {
  static MHD_Result Handle(void* self, MHD_Connection* connection, const char* url,
                           const char* method, const char* /*version*/, const char* /*data*/,
                           size_t* bytes, void** /*own*/) {
    if (*bytes != 0) {  // request bodies are ignored
      *bytes = 0;
      return MHD_YES;
    }
    auto* server = static_cast<MetricsServer*>(self);
    return server->Answer(connection, url, method) == 0 ? MHD_YES : MHD_NO;
  }
  static void Completed(void* self, MHD_Connection* connection, void** /*own*/,
                        MHD_RequestTerminationCode /*code*/) {
    static_cast<MetricsServer*>(self)->questions_.erase(connection);
  }
};

namespace {

constexpr unsigned kMostConnections = 16;
constexpr unsigned kIdleSeconds = 10;
constexpr size_t kLeastToken = 16;

struct Address {
  sockaddr_storage storage{};
  bool is_v6 = false;
};

Result<Address> ParseAddress(const std::string& text) {
  const Error wrong{EINVAL, "--metrics '" + text +
                                "' is not an address and a port, such as "
                                "127.0.0.1:9890 or [::1]:9890"};
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return wrong;
  uint16_t port = 0;
  const auto [end, ec] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), port);
  if (ec != std::errc() || end != text.data() + text.size()) return wrong;
  std::string host = text.substr(0, colon);
  Address address;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    if (inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) != 1) return wrong;
    std::memcpy(&address.storage, &v6, sizeof(v6));
    address.is_v6 = true;
    return address;
  }
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  if (inet_pton(AF_INET, host.c_str(), &v4.sin_addr) != 1) return wrong;
  std::memcpy(&address.storage, &v4, sizeof(v4));
  return address;
}

Result<std::string> ReadToken(const std::string& file) {
  if (file.empty()) {
    return Error{EINVAL, "--metrics needs --metrics-token FILE: a line that each client must send"};
  }
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) return PosixError("--metrics-token " + file, errno);
  if ((info.st_mode & 077) != 0) {
    return Error{EPERM, "--metrics-token " + file + " is open to others; chmod 600 " + file};
  }
  const Result<std::string> line = ReadLine(file);
  if (!line) return line.error();
  if (line->size() < kLeastToken) {
    return Error{EINVAL, "--metrics-token " + file + " has fewer than " +
                             std::to_string(kLeastToken) + " characters; openssl rand -hex 16"};
  }
  return *line;
}

int Respond(MHD_Connection* connection, unsigned status, const std::string& text,
            const char* type) {
  const std::unique_ptr<MHD_Response, void (*)(MHD_Response*)> response(
      MHD_create_response_from_buffer(text.size(), const_cast<char*>(text.data()),
                                      MHD_RESPMEM_MUST_COPY),
      MHD_destroy_response);
  if (!response) return -ENOMEM;
  MHD_add_response_header(response.get(), "Content-Type", type);
  if (status == MHD_HTTP_UNAUTHORIZED) {
    MHD_add_response_header(response.get(), "WWW-Authenticate", "Bearer realm=\"ppc\"");
  }
  return MHD_queue_response(connection, status, response.get()) == MHD_YES ? 0 : -EIO;
}

}  // namespace

void MetricsServer::Stop::operator()(MHD_Daemon* daemon) const { MHD_stop_daemon(daemon); }

Result<std::unique_ptr<MetricsServer>> MetricsServer::Listen(EventLoop& loop,
                                                             const std::string& address,
                                                             const std::string& token_file,
                                                             Source source) {
  const Result<Address> where = ParseAddress(address);
  if (!where) return where.error();
  Result<std::string> token = ReadToken(token_file);
  if (!token) return token.error();
  std::unique_ptr<MetricsServer> server(
      new MetricsServer(loop, std::move(token).value(), std::move(source)));
  const unsigned flags =
      MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (where->is_v6 ? unsigned{MHD_USE_IPv6} : 0U);
  errno = 0;
  server->daemon_.reset(MHD_start_daemon(
      flags, 0, nullptr, nullptr, &MetricsServerCalls::Handle, server.get(), MHD_OPTION_SOCK_ADDR,
      reinterpret_cast<const sockaddr*>(&where->storage), MHD_OPTION_CONNECTION_LIMIT,
      kMostConnections, MHD_OPTION_CONNECTION_TIMEOUT, kIdleSeconds, MHD_OPTION_NOTIFY_COMPLETED,
      &MetricsServerCalls::Completed, server.get(), MHD_OPTION_END));
  if (!server->daemon_) {
    return PosixError("--metrics " + address + ": cannot listen", errno == 0 ? EIO : errno);
  }
  const MHD_DaemonInfo* info = MHD_get_daemon_info(server->daemon_.get(), MHD_DAEMON_INFO_EPOLL_FD);
  if (info == nullptr) return Error{ENOSYS, "libmicrohttpd was built without epoll"};
  server->epoll_ = info->epoll_fd;
  MetricsServer* self = server.get();
  const Status watched = loop.Watch(server->epoll_, EPOLLIN, [self](uint32_t) { self->Turn(); });
  if (!watched) {
    server->epoll_ = -1;
    return watched.error();
  }
  return server;
}

MetricsServer::~MetricsServer() {
  loop_.Cancel(timer_);
  if (epoll_ >= 0) loop_.Unwatch(epoll_);
  // The library does not stop while a connection waits.
  for (auto& [connection, question] : questions_) {
    if (!std::exchange(question->is_suspended, false)) continue;
    question->text = "";
    MHD_resume_connection(connection);
  }
}

int MetricsServer::port() const {
  const MHD_DaemonInfo* info = MHD_get_daemon_info(daemon_.get(), MHD_DAEMON_INFO_BIND_PORT);
  return info == nullptr ? 0 : info->port;
}

void MetricsServer::Turn() {
  MHD_run(daemon_.get());
  loop_.Cancel(timer_);
  timer_ = {};
  MHD_UNSIGNED_LONG_LONG wait_ms = 0;
  if (MHD_get_timeout(daemon_.get(), &wait_ms) != MHD_YES) return;
  timer_ =
      loop_.After(Millis(static_cast<int64_t>(std::max<uint64_t>(wait_ms, 1))), [this] { Turn(); });
}

// Compares in constant time.
bool MetricsServer::HasToken(MHD_Connection* connection) const {
  static constexpr std::string_view kScheme = "Bearer ";
  const char* header = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
  const std::string_view sent = header == nullptr ? "" : header;
  if (!sent.starts_with(kScheme) || sent.size() != kScheme.size() + token_.size()) return false;
  unsigned char differs = 0;
  for (size_t i = 0; i < token_.size(); ++i) {
    differs |= static_cast<unsigned char>(sent[kScheme.size() + i] ^ token_[i]);
  }
  return differs == 0;
}

int MetricsServer::Answer(MHD_Connection* connection, const std::string& url,
                          const std::string& method) {
  std::shared_ptr<Question>& question = questions_[connection];
  if (!question) question = std::make_shared<Question>();
  // The first call is for the header, before the body.
  if (!std::exchange(question->is_seen, true)) return 0;
  if (method != "GET")
    return Respond(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET alone\n", "text/plain");
  if (url == "/health") return Respond(connection, MHD_HTTP_OK, "ok\n", "text/plain");
  if (url != "/metrics") {
    return Respond(connection, MHD_HTTP_NOT_FOUND, "there are /metrics and /health\n",
                   "text/plain");
  }
  if (!HasToken(connection)) {
    return Respond(connection, MHD_HTTP_UNAUTHORIZED,
                   "send the line of --metrics-token: Authorization: Bearer ...\n", "text/plain");
  }
  if (question->text)
    return Respond(connection, MHD_HTTP_OK, *question->text, MetricsType(question->format));
  return Ask(connection, question);
}

int MetricsServer::Ask(MHD_Connection* connection, const std::shared_ptr<Question>& question) {
  const char* accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Accept");
  if (accept != nullptr && std::strstr(accept, "application/openmetrics-text") != nullptr) {
    question->format = MetricsFormat::kOpenMetrics;
  }
  source_(question->format, [this, connection, alive = std::weak_ptr<bool>(alive_),
                             asked = std::weak_ptr<Question>(question)](std::string text) {
    const std::shared_ptr<Question> waiting = asked.lock();
    if (alive.expired() || waiting == nullptr) return;
    waiting->text = std::move(text);
    if (!std::exchange(waiting->is_suspended, false)) return;
    MHD_resume_connection(connection);
    loop_.After(Millis(0), [this, alive] {
      if (!alive.expired()) Turn();
    });
  });
  if (question->text)
    return Respond(connection, MHD_HTTP_OK, *question->text, MetricsType(question->format));
  question->is_suspended = true;
  MHD_suspend_connection(connection);
  return 0;
}

}  // namespace ppc::control
