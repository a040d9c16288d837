// SPDX-License-Identifier: Apache-2.0
// What clients may do to ppcd's socket.
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <random>

#include "daemon/supervisor/server.h"
#include "daemon/wire/listen_socket.h"
#include "daemon/wire/protocol.h"
#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {
namespace {

class NoSocketTest : public DaemonTest {
 protected:
  using Clients = std::vector<std::unique_ptr<RawClient>>;
  Clients Connect(size_t count) {
    Clients clients;
    for (size_t i = 0; i < count; ++i) clients.push_back(std::make_unique<RawClient>(socket_));
    return clients;
  }
  bool IsAlive() { return Ask({{"op", "ping"}}).value("ok", false); }
  // A second ppcd, which does not start.
  void ExpectRefused(const std::vector<std::string>& options, const std::string& part) {
    std::vector<std::string> argv = {PPC_TEST_BIN_DIR "/ppcd"};
    argv.insert(argv.end(), options.begin(), options.end());
    const ProcessResult result = RunProcess(argv, environment_);
    EXPECT_EQ(result.exit_status, 1);
    EXPECT_TRUE(Has(result.err, part));
  }
};

class SocketTest : public NoSocketTest {
 protected:
  void SetUp() override {
    NoSocketTest::SetUp();
    StartDaemon();
  }
};

TEST_F(SocketTest, AnswersRequestsInOrderOnOneConnection) {
  RawClient client(socket_);
  std::string burst;
  for (int i = 0; i < 100; ++i) {
    burst += R"({"v":1,"op":"service_id","params":{"n":)" + std::to_string(i) + "}}\n";
  }
  client.Send(burst);
  for (int i = 0; i < 100; ++i) {
    const Json answer = client.Answer();
    EXPECT_EQ(answer["canonical"], R"({"n":)" + std::to_string(i) + "}");
  }
}

TEST_F(SocketTest, GarbageGetsOneErrorPerLineAndTheConnectionStays) {
  RawClient client(socket_);
  const std::string deep(100000, '[');
  for (const std::string& line :
       {std::string("garbage"), std::string("{}"), std::string("[1,2]"), deep,
        std::string(R"({"v":9,"op":"ping"})"), std::string("\x01\x02\xff"),
        std::string(R"({"v":1,"op":"rm_policy","mount":3})")}) {
    client.SendLine(line);
    const Json answer = client.Answer();
    EXPECT_FALSE(answer["ok"]);
    EXPECT_FALSE(answer["error"].get<std::string>().empty());
  }
  EXPECT_TRUE(client.Ask({{"op", "ping"}}).value("ok", false));
}

TEST_F(SocketTest, RandomBytesHarmNobody) {
  RawClient bystander(socket_);
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    RawClient client(socket_);
    std::string bytes(random() % 5000, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    client.Send(bytes);
  }
  EXPECT_TRUE(bystander.Ask({{"op", "ping"}}).value("ok", false));
  EXPECT_TRUE(IsDaemonRunning());
}

TEST_F(SocketTest, AnOverlongLineIsAnErrorAndTheEndOfTheConnection) {
  RawClient client(socket_);
  std::string line = R"({"v":1,"op":"ping"})";
  line.insert(1, kMaxLineBytes - line.size(), ' ');
  client.SendLine(line);
  EXPECT_TRUE(client.Answer().value("ok", false)) << "the longest that is taken";
  client.Send(std::string(kMaxLineBytes + 1, 'x'));
  EXPECT_EQ(client.Answer()["code"], "E2BIG");
  EXPECT_TRUE(client.IsClosedByPeer());
  EXPECT_TRUE(IsAlive());
}

TEST_F(SocketTest, HalfALineAndHangUpIsNothing) {
  {
    RawClient client(socket_);
    client.Send(R"({"v":1,"op":"pi)");
  }
  EXPECT_TRUE(IsAlive());
}

TEST_F(SocketTest, RequestsBeforeAHalfCloseAreAnswered) {
  RawClient client(socket_);
  kill(daemon_, SIGSTOP);  // so that requests and end arrive together
  std::string burst;
  for (int i = 0; i < 40; ++i) burst += "{\"v\":1,\"op\":\"ping\"}\n";
  client.Send(burst + "half a line");
  client.CloseWriting();
  kill(daemon_, SIGCONT);
  for (int i = 0; i < 40; ++i) EXPECT_NE(client.ReadLine(), "") << i;
  EXPECT_TRUE(client.IsClosedByPeer());
}

TEST_F(SocketTest, RequestsBeforeAHangUpAreCarriedOut) {
  const std::string log = dir_ + "/runner.log";
  const Json config{{"fake", {{"log", log}, {"slow", {{"service_start", 300}}}}}};
  kill(daemon_, SIGSTOP);
  {
    RawClient client(socket_);
    client.SendLine(DumpJson({{"v", 1},
                              {"op", "reg_policy"},
                              {"mount", kMount},
                              {"policy", "alpha"},
                              {"config", config}}));
    client.SendLine(R"({"v":1,"op":"service_start","mount":"/proc","service_id":"svc-one"})");
    client.SendLine(R"({"v":1,"op":"service_ready","mount":"/proc","service_id":"svc-one"})");
  }
  kill(daemon_, SIGCONT);
  EXPECT_TRUE(Eventually([&] { return ReadText(log).find("service_ready") != std::string::npos; }));
  EXPECT_EQ(StatusOf()["services"][0]["state"], "ready");
}

// User and system time of a process in ticks of 10 ms.
long CpuTicks(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string field;
  for (int i = 1; i < 14; ++i) stat >> field;
  long user = 0, system = 0;
  stat >> user >> system;
  return user + system;
}

TEST_F(SocketTest, AHangUpBehindASlowRequestCostsNothing) {
  Register({{"slow", {{"service_start", 1000}}}});
  {
    RawClient client(socket_);
    const std::string padding(100000, ' ');
    client.SendLine(R"({"v":1,"op":"service_start","mount":"/proc","service_id":"svc-one"})");
    client.Send(padding);
    poll(nullptr, 0, 200);  // the request is under way
    while (send(client.fd(), padding.data(), 10000, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
    }
  }
  const long before = CpuTicks(daemon_);
  poll(nullptr, 0, 600);
  EXPECT_LT(CpuTicks(daemon_) - before, 10);
  EXPECT_TRUE(IsAlive());
}

TEST_F(SocketTest, ManyClientsAreServedAtOnce) {
  const Clients clients = Connect(200);
  for (const auto& client : clients) client->SendLine(R"({"v":1,"op":"ping"})");
  for (const auto& client : clients) EXPECT_NE(client->ReadLine(), "");
}

TEST_F(SocketTest, TooManyClientsAreToldSo) {
  Clients clients = Connect(Server::kMaxClients);
  clients.back()->SendLine(R"({"v":1,"op":"ping"})");
  EXPECT_NE(clients.back()->ReadLine(), "");
  RawClient one_more(socket_);
  EXPECT_EQ(one_more.Answer().value("code", ""), "EMFILE");
  clients.clear();
  EXPECT_TRUE(Eventually([this] { return IsAlive(); }));
}

TEST_F(SocketTest, WithoutDescriptorsItWaitsInsteadOfTurning) {
  const rlimit few{24, 24};
  ASSERT_EQ(prlimit(daemon_, RLIMIT_NOFILE, &few, nullptr), 0);
  Clients clients = Connect(40);
  ASSERT_TRUE(Eventually(
      [this] { return DaemonLog().find("no descriptor is left") != std::string::npos; }));
  const long before = CpuTicks(daemon_);
  poll(nullptr, 0, 600);
  EXPECT_LT(CpuTicks(daemon_) - before, 10);
  clients.clear();
  EXPECT_TRUE(IsAlive());
}

TEST_F(SocketTest, AClientThatNeverReadsHoldsUpOnlyItself) {
  RawClient slow(socket_);
  const int small = 4096;
  setsockopt(slow.fd(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  // More requests than their answers fit anywhere; sent without waiting.
  const std::string request =
      "{\"v\":1,\"op\":\"service_id\",\"params\":{\"a\":\"" + std::string(20000, 'z') + "\"}}\n";
  for (int i = 0; i < 200; ++i) {
    if (send(slow.fd(), request.data(), request.size(), MSG_DONTWAIT | MSG_NOSIGNAL) <= 0) break;
  }
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(IsAlive());
}

TEST_F(SocketTest, ASecondDaemonIsRefusedClearly) {
  ExpectRefused({"--state-dir", dir_ + "/run"},
                "another ppcd (pid " + std::to_string(daemon_) + ")");
  ExpectRefused({"--state-dir", dir_ + "/run2"}, "another ppcd answers at " + socket_);
  EXPECT_TRUE(IsAlive());
}

TEST_F(SocketTest, ItAnswersPingReplacesAStaleSocketAndRemovesItsOwn) {
  const Json answer = Ask({{"op", "ping"}});
  EXPECT_EQ(answer["version"], kVersionText);
  EXPECT_EQ(answer["pid"], daemon_);
  EXPECT_EQ(StopDaemon(SIGKILL), 128 + SIGKILL);
  struct stat info {};
  ASSERT_EQ(stat(socket_.c_str(), &info), 0) << "the stale socket should still be there";
  StartDaemon();
  EXPECT_TRUE(IsAlive());
  EXPECT_EQ(StopDaemon(SIGTERM), 0);
  EXPECT_NE(stat(socket_.c_str(), &info), 0) << "the socket should be removed";
}

TEST_F(NoSocketTest, AFileThatIsNoSocketIsNotTouched) {
  std::ofstream(socket_) << "precious";
  ExpectRefused({"--state-dir", dir_ + "/run"}, "is no socket");
  EXPECT_EQ(ReadText(socket_), "precious");
}

// What lies there is loaded: it would be who wrote it that says what.
TEST_F(NoSocketTest, AStateDirectoryOfOthersIsRefused) {
  const std::string state = dir_ + "/above/other";
  for (const std::string& part : {dir_ + "/above", state, state + "/mounts"})
    ASSERT_EQ(mkdir(part.c_str(), 0755), 0);
  for (const std::string& part : {state + "/mounts", state, dir_ + "/above"}) {
    ASSERT_EQ(chmod(part.c_str(), 0777), 0);
    ExpectRefused({"--socket", dir_ + "/s/ppcd.sock", "--state-dir", state},
                  "give --state-dir another");
    ASSERT_EQ(chmod(part.c_str(), 0755), 0);
  }
}

TEST_F(NoSocketTest, WrongArgumentsAreUsageErrors) {
  const std::string ppcd = std::string(PPC_TEST_BIN_DIR) + "/ppcd";
  for (const char* argument : {"--nonsense", "operand", "--socket"}) {
    const ProcessResult result = RunProcess({ppcd, argument}, environment_);
    EXPECT_EQ(result.exit_status, 2) << argument;
    EXPECT_TRUE(Has(result.err, argument));
  }
  EXPECT_EQ(RunProcess({ppcd, "--help"}, environment_).exit_status, 0);
}

}  // namespace
}  // namespace ppc::control
