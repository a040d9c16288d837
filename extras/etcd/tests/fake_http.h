// SPDX-License-Identifier: Apache-2.0
// An HTTP server on a local port that answers each request as the test wants.
#ifndef TESTS_UNIT_POLICIES_FAKE_HTTP_H_
#define TESTS_UNIT_POLICIES_FAKE_HTTP_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace ppc::maio {

class FakeHttp {
 public:
  // Returns what the server sends back for a request's head and body; "" closes without an answer,
  // kNever sends nothing until the server goes.
  using Answer = std::function<std::string(const std::string& request)>;
  static constexpr const char* kNever = "never";

  explicit FakeHttp(Answer answer) : answer_(std::move(answer)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    listen(listener_, 16);
    socklen_t bytes = sizeof(address);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &bytes);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeHttp() {
    shutdown(listener_, SHUT_RDWR);
    if (const int held = held_.exchange(-1); held >= 0) shutdown(held, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  FakeHttp(const FakeHttp&) = delete;
  FakeHttp& operator=(const FakeHttp&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int requests() const { return requests_; }

  static std::string Reply(int status, const std::string& body) {
    return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: application/json\r\n" +
           "Content-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" +
           body;
  }

 private:
  void Serve() {
    for (;;) {
      const int peer = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (peer < 0) return;
      requests_++;
      const std::string answer = answer_(Receive(peer));
      if (answer == kNever) {
        held_ = peer;
        char byte;
        while (recv(peer, &byte, 1, 0) > 0) {
        }
        held_ = -1;
      } else if (send(peer, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) {
        // The client has gone: so does its connection.
      }
      close(peer);
    }
  }

  static std::string Receive(int peer) {
    std::string request;
    char block[4096];
    for (size_t want = ~size_t{0}; request.size() < want;) {
      const ssize_t n = recv(peer, block, sizeof(block), 0);
      if (n <= 0) break;
      request.append(block, static_cast<size_t>(n));
      const size_t head = request.find("\r\n\r\n");
      const size_t length = request.find("Content-Length: ");
      if (head != std::string::npos && length != std::string::npos)
        want = head + 4 + std::stoul(request.substr(length + 16));
    }
    return request;
  }

  Answer answer_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<int> requests_ = 0;
  std::atomic<int> held_ = -1;
  std::thread thread_;
};

}  // namespace ppc::maio

#endif  // TESTS_UNIT_POLICIES_FAKE_HTTP_H_
