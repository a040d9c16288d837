// SPDX-License-Identifier: Apache-2.0
// What a service manager hands to ppcd: sockets and a watchdog.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "daemon/wire/listen_socket.h"
#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {
namespace {

class SystemdTest : public DaemonTest {
 protected:
  static constexpr int kFirst = 3;

  // A socket as a unit of systemd makes it.
  UniqueFd MakeSocket(const std::string& path, int type = SOCK_STREAM) {
    UniqueFd fd(socket(AF_UNIX, type, 0));
    const Result<sockaddr_un> address = SocketAddress(path);
    const auto* name = reinterpret_cast<const sockaddr*>(&*address);
    EXPECT_EQ(bind(fd.Get(), name, sizeof(*address)), 0);
    if (type == SOCK_STREAM) {
      EXPECT_EQ(listen(fd.Get(), 8), 0);
    }
    return fd;
  }

  // The next message of ppcd to its manager; "": none in time.
  static std::string Hear(int receiver, int timeout_ms) {
    char text[256] = {};
    pollfd waiting{receiver, POLLIN, 0};
    if (poll(&waiting, 1, timeout_ms) <= 0) return "";
    EXPECT_GT(recv(receiver, text, sizeof(text) - 1, 0), 0);
    return text;
  }

  // ppcd with `socket` as descriptor 3, called `name`, meant for itself or for another process.
  void StartWith(int socket, const std::string& name, bool is_meant = true) {
    daemon_ = fork();
    if (daemon_ != 0) return;
    for (const std::string& entry : environment_) putenv(const_cast<char*>(entry.c_str()));
    setenv("LISTEN_PID", std::to_string(is_meant ? getpid() : getppid()).c_str(), 1);
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_FDNAMES", name.c_str(), 1);
    const int log = open((dir_ + "/log").c_str(), O_WRONLY | O_CREAT, 0600);
    dup2(log, STDERR_FILENO);
    if (socket == kFirst || dup2(socket, kFirst) == kFirst) {
      const std::string program = std::string(PPC_TEST_BIN_DIR) + "/ppcd";
      const std::string state = dir_ + "/run";
      execl(program.c_str(), program.c_str(), "--state-dir", state.c_str(), nullptr);
    }
    _exit(127);
  }

  int WaitForExit() {
    int status = -1;
    EXPECT_TRUE(Eventually([&] { return waitpid(daemon_, &status, WNOHANG) == daemon_; }));
    daemon_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  bool Exists(const std::string& path) {
    struct stat info {};
    return stat(path.c_str(), &info) == 0;
  }
};

TEST_F(SystemdTest, ServesTheSocketThatItIsGivenAndLeavesItsFile) {
  const std::string given = dir_ + "/given.sock";
  UniqueFd socket = MakeSocket(given);
  RawClient early(given);  // connects before there is a ppcd
  StartWith(socket.Get(), "admin");
  EXPECT_TRUE(early.Ask({{"op", "ping"}}).value("ok", false)) << DaemonLog();
  EXPECT_FALSE(Exists(socket_)) << "it made one of its own as well";
  EXPECT_EQ(StopDaemon(SIGTERM), 0);
  EXPECT_TRUE(Exists(given));
}

// A caller there has no more rights than on ppcd's own.
TEST_F(SystemdTest, TheServicesSocketKeepsItsRights) {
  const std::string given = dir_ + "/services.sock";
  UniqueFd socket = MakeSocket(given);
  StartWith(socket.Get(), "service");
  ASSERT_TRUE(Eventually([this] { return RawClient(socket_).IsConnected(); })) << DaemonLog();
  RawClient service(given);
  const Json pong = service.Ask({{"op", "ping"}});
  EXPECT_EQ(pong.value("rights", ""), "service") << pong;
  const Json refused = service.Ask({{"op", "reg_policy"}, {"mount", kMount}, {"policy", "alpha"}});
  EXPECT_FALSE(refused.value("ok", true)) << refused;
  EXPECT_EQ(RawClient(socket_).Ask({{"op", "ping"}}).value("rights", ""), "admin");
}

TEST_F(SystemdTest, RunnersDoNotLearnOfTheSocket) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to look into a process that leaves no core";
  const std::string given = dir_ + "/given.sock";
  UniqueFd socket = MakeSocket(given);
  environment_.push_back("WATCHDOG_USEC=60000000");
  StartWith(socket.Get(), "admin");
  socket_ = given;
  Register();
  ASSERT_TRUE(WaitForState("running"));
  const std::string environment = ReadText("/proc/" + std::to_string(RunnerPid()) + "/environ");
  EXPECT_NE(environment.find("PPC_RUNNER"), std::string::npos);
  EXPECT_EQ(environment.find("LISTEN_"), std::string::npos);
  EXPECT_EQ(environment.find("WATCHDOG_"), std::string::npos);
}

TEST_F(SystemdTest, ASocketThatItDoesNotKnowIsRefused) {
  UniqueFd socket = MakeSocket(dir_ + "/given.sock");
  StartWith(socket.Get(), "other");
  EXPECT_EQ(WaitForExit(), 1);
  EXPECT_NE(DaemonLog().find("'other', which ppcd does not know"), std::string::npos)
      << DaemonLog();
}

TEST_F(SystemdTest, AnythingElseThanAListeningSocketIsRefused) {
  UniqueFd socket = MakeSocket(dir_ + "/given.sock", SOCK_DGRAM);
  StartWith(socket.Get(), "admin");
  EXPECT_EQ(WaitForExit(), 1);
  EXPECT_NE(DaemonLog().find("no listening unix stream socket"), std::string::npos) << DaemonLog();
}

TEST_F(SystemdTest, SocketsMeantForAnotherProcessAreNoneOfOurs) {
  UniqueFd socket = MakeSocket(dir_ + "/given.sock");
  StartWith(socket.Get(), "admin", false);
  EXPECT_TRUE(Eventually([this] { return RawClient(socket_).IsConnected(); })) << DaemonLog();
}

TEST_F(SystemdTest, TheManagerIsToldWhatThereIs) {
  const std::string path = dir_ + "/notify";
  const UniqueFd receiver = MakeSocket(path, SOCK_DGRAM);
  environment_.push_back("NOTIFY_SOCKET=" + path);
  StartDaemon();
  EXPECT_EQ(Hear(receiver.Get(), 10000), "READY=1");
  EXPECT_EQ(Hear(receiver.Get(), 10000), "STATUS=0 directories, 0 services");
  Register();
  Ask({{"op", "service_start"}, {"mount", kMount}, {"service_id", "svc-one"}});
  const auto becomes = [&](const std::string& status) {
    return Eventually([&] { return Hear(receiver.Get(), 1500) == "STATUS=" + status; });
  };
  EXPECT_TRUE(becomes("1 directory, 1 service"));
  EXPECT_EQ(Hear(receiver.Get(), 1500), "") << "nothing has changed";
  Ask({{"op", "off"}});
  EXPECT_TRUE(becomes("switched off; ppcctl on"));
}

TEST_F(SystemdTest, TheWatchdogHearsOfALoopThatTurnsAndOfNoOther) {
  const std::string path = dir_ + "/notify";
  const UniqueFd receiver = MakeSocket(path, SOCK_DGRAM);
  environment_.push_back("NOTIFY_SOCKET=" + path);
  environment_.push_back("WATCHDOG_USEC=200000");
  StartDaemon();
  const auto hears = [&](int timeout_ms) {
    std::string text = Hear(receiver.Get(), timeout_ms);
    return text.starts_with("STATUS=") ? Hear(receiver.Get(), timeout_ms) : text;
  };
  EXPECT_EQ(hears(10000), "READY=1");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(hears(10000), "WATCHDOG=1");
  kill(daemon_, SIGSTOP);
  while (!hears(1000).empty()) {
  }
  kill(daemon_, SIGCONT);
  EXPECT_EQ(hears(10000), "WATCHDOG=1");
}

}  // namespace
}  // namespace ppc::control
