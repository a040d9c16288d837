// SPDX-License-Identifier: Apache-2.0
// A real etcd of the test's own on local ports, where the package is installed.
#ifndef TESTS_UNIT_POLICIES_ETCD_SERVER_H_
#define TESTS_UNIT_POLICIES_ETCD_SERVER_H_

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "extras/etcd/etcd.h"
#include "policies/maio/template/store.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc::maio {

class EtcdServer {
 public:
  static constexpr const char* kProgram = "/usr/bin/etcd";
  static bool IsInstalled() { return access(kProgram, X_OK) == 0; }

  // Tries other ports if another process took these meanwhile.
  EtcdServer() {
    for (int again = 0; again < 5 && pid_ <= 0; again++) Start();
  }
  ~EtcdServer() { Stop(); }
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;

  bool is_up() const { return pid_ > 0; }
  std::string url(const std::string& prefix) const { return client_ + prefix; }
  // By the alarm that it raises itself when its space is full.
  void RefuseWrites(bool refuses) const {
    const Json status = Value(Ask("status", Json::object()));
    ASSERT_TRUE(IsOk(Ask("alarm", {{"action", refuses ? "ACTIVATE" : "DEACTIVATE"},
                                   {"memberID", status.at("header").at("member_id")},
                                   {"alarm", "NOSPACE"}})));
  }

 private:
  Result<Json> Ask(const std::string& what, const Json& request) const {
    return AskEtcd(client_, "/v3/maintenance/" + what, request, 60000);
  }
  static std::string FreeAddress() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(address);
    bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &bytes);
    close(fd);
    return "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }

  void Start() {
    client_ = FreeAddress();
    const std::string peer = FreeAddress();
    const std::string data = tree_.Path("/data" + peer.substr(peer.rfind(':') + 1));
    const std::string cluster = "default=" + peer;
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int null = open("/dev/null", O_RDWR);
      for (int fd : {0, 1, 2}) dup2(null, fd);
      setenv("ETCD_UNSUPPORTED_ARCH", "arm64", 0);
      execl(kProgram, kProgram, "--data-dir", data.c_str(), "--listen-client-urls", client_.c_str(),
            "--advertise-client-urls", client_.c_str(), "--listen-peer-urls", peer.c_str(),
            "--initial-advertise-peer-urls", peer.c_str(), "--initial-cluster", cluster.c_str(),
            "--unsafe-no-fsync", static_cast<char*>(nullptr));
      _exit(127);
    }
    // Only its clients learn that it is ready.
    std::string error;
    const auto store = EtcdStore(client_ + "/probe", 60000, &error);
    std::vector<std::string> names;
    for (int again = 0; again < 600; again++) {
      if (store->List(&names, &error) == 0) return;
      if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
        pid_ = -1;
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    Stop();
  }
  void Stop() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  TempTree tree_;
  std::string client_;
  pid_t pid_ = -1;
};

}  // namespace ppc::maio

#endif  // TESTS_UNIT_POLICIES_ETCD_SERVER_H_
