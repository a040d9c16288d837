// SPDX-License-Identifier: Apache-2.0
// Requests about a container, as a made-up ppcd gets them.
#include "extras/oci/service_messages.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/base/json.h"
#include "daemon/base/unique_fd.h"
#include "daemon/wire/listen_socket.h"
#include "tests/unit/temp_tree.h"

namespace ppc::oci {
namespace {

// Answers one connection's requests.
class MadeUpPpcd {
 public:
  explicit MadeUpPpcd(const std::string& socket)
      : listen_(control::OpenListenSocket(socket, 0600).value()),
        directory_(socket.substr(0, socket.rfind('/'))),
        thread_([this] { Serve(); }) {}
  ~MadeUpPpcd() {
    if (thread_.joinable()) thread_.join();
  }

  // When the other side has closed.
  std::vector<Json> Requests() {
    thread_.join();
    return requests_;
  }

 private:
  void Serve() {
    pollfd caller{listen_.Get(), POLLIN, 0};
    (void)poll(&caller, 1, -1);
    const UniqueFd fd(accept(listen_.Get(), nullptr, nullptr));
    std::string line;
    for (char byte = 0; read(fd.Get(), &byte, 1) == 1;) {
      line += byte;
      if (byte != '\n') continue;
      requests_.push_back(Json::parse(line));
      line.clear();
      const std::string answer =
          DumpJson({{"ok", true},
                    {"service_id", "svc.2"},
                    {"mounts", {{{"mount", directory_}, {"policy", "maio"}}}}}) +
          "\n";
      (void)WriteAll(fd.Get(), answer.data(), answer.size());
    }
  }

  UniqueFd listen_;
  std::vector<Json> requests_;
  const std::string directory_;  // that is registered
  std::thread thread_;
};

class ServiceMessagesTest : public ::testing::Test {
 protected:
  ServiceMessagesTest() {
    tree_.Write("/models/qwen/model.safetensors", "weights");
    tree_.WriteStat(4321);
    tree_.Write("/proc/4321/cgroup", "0::/pods/a\n");
    call_ = {tree_.Path("/ppcd.sock"),
             tree_.Path("/notes"),
             {tree_.Root(), tree_.Root()},
             20000,
             MonotonicNs() + 20000 * kNsPerMs};
    box_.id = "box";
    box_.pid = 4321;
    box_.annotations = {{"ppc.model", "/models/qwen"}, {"ppc.service-id", "svc-a"}};
    box_.mounts = {{"/models", tree_.Path("/models")}};
  }

  static std::vector<std::string> OpsOf(const std::vector<Json>& requests) {
    std::vector<std::string> ops;
    for (const Json& request : requests) ops.push_back(request["op"]);
    return ops;
  }

  TempTree tree_;
  Call call_;
  Container box_;
};

TEST_F(ServiceMessagesTest, AContainerThatRunsIsStartedAndStopped) {
  {
    MadeUpPpcd ppcd(call_.socket);
    ASSERT_TRUE(StartService(call_, box_).ok());
    const std::vector<Json> requests = ppcd.Requests();
    EXPECT_EQ(OpsOf(requests), (std::vector<std::string>{"list", "service_start"}));
    EXPECT_EQ(requests[1]["pid"], 4321);
    EXPECT_EQ(requests[1]["cgroup"], "/pods/a");
  }
  MadeUpPpcd ppcd(call_.socket);
  ASSERT_TRUE(StopService(call_, box_).ok());
  const std::vector<Json> requests = ppcd.Requests();
  EXPECT_EQ(OpsOf(requests), (std::vector<std::string>{"service_stop"}));
  EXPECT_EQ(requests[0]["service_id"], "svc.2");
}

// The load begins for a container without processes, and waits for them.
TEST_F(ServiceMessagesTest, AContainerThatDoesNotRunYetIsAwaited) {
  MadeUpPpcd ppcd(call_.socket);
  ASSERT_TRUE(StartService(call_, box_, 60).ok());
  const std::vector<Json> requests = ppcd.Requests();
  ASSERT_EQ(OpsOf(requests), (std::vector<std::string>{"list", "service_start", "service_failed"}));
  EXPECT_EQ(requests[1]["pid"], 4321);
  EXPECT_EQ(requests[2]["wait_s"], 60);
  EXPECT_EQ(requests[2]["service_id"], "svc.2");
}

TEST_F(ServiceMessagesTest, ThePolicyIsAnOperatorsChoice) {
  call_.may_register = false;
  box_.annotations["ppc.policy"] = "null";
  MadeUpPpcd ppcd(call_.socket);
  EXPECT_EQ(StartService(call_, box_).error().code, EPERM);
  EXPECT_EQ(OpsOf(ppcd.Requests()), (std::vector<std::string>{"list"}));
}

TEST_F(ServiceMessagesTest, NothingIsSaidOfAContainerLeftAlone) {
  box_.annotations["ppc.enable"] = "false";
  EXPECT_TRUE(StartService(call_, box_, 60).ok());
  EXPECT_TRUE(StopService(call_, box_).ok());
  box_.annotations.erase("ppc.enable");
  EXPECT_NE(StartService(call_, box_).error().message.find("ppcd"), std::string::npos);
}

}  // namespace
}  // namespace ppc::oci
