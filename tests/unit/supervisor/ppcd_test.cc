// SPDX-License-Identifier: Apache-2.0
// ppcd as a whole: switched off and on, several runners, its log, what a service manager hands to
// it: sockets and a watchdog.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include "daemon/wire/listen_socket.h"
#include "tests/unit/child.h"
#include "tests/unit/supervisor/daemon_fixture.h"
#include "tests/unit/units.h"

namespace ppc::control {
namespace {

// Switching PPC off and on again.

class OffTest : public DaemonTest {
 protected:
  bool IsMarked() const { return std::filesystem::exists(dir_ + "/off"); }
  void Start() { StartDaemon({"--template-dir", dir_ + "/templates"}); }
};

TEST_F(OffTest, DirectoriesAreTheKernelsAtOnceAndComeBack) {
  Start();
  Register();
  ASSERT_EQ(Tell("service_start", "svc-one")["ok"], true);
  const pid_t runner = RunnerPid();
  const ProcessResult off = Ctl({"off"});
  EXPECT_EQ(off.out, "off: 1 directory is the kernel's alone, until `ppcctl on`\n") << off.err;
  EXPECT_NE(kill(runner, 0), 0) << "its runner still runs";
  EXPECT_TRUE(IsMarked());
  EXPECT_EQ(Ask({{"op", "status"}})["daemon"]["off"], true);
  EXPECT_TRUE(Has(Ctl({"list"}).out, "off"));
  for (const std::vector<std::string>& status :
       std::vector<std::vector<std::string>>{{"status"}, {"status", kMount}}) {
    const std::string said = Ctl(status).out;
    EXPECT_TRUE(Has(said, "; off: "));
    EXPECT_TRUE(Has(said, "/proc  alpha  off"));
  }
  // Services start natively; twice is once.
  const Json refused = Tell("service_start", "svc-two");
  EXPECT_TRUE(Has(refused["error"].get<std::string>(), "ppcctl on")) << refused;
  EXPECT_EQ(Ctl({"off"}).out, off.out);
  EXPECT_EQ(Ctl({"on"}).out, "on: 1 directory has its policy\n");
  EXPECT_FALSE(IsMarked());
  ASSERT_TRUE(WaitForState("running"));
  EXPECT_EQ(StatusOf()["services"][0]["service_id"], "svc-one");
  EXPECT_EQ(Ctl({"on"}).exit_status, 0);
}

// As after a reboot: what units register meanwhile is there when it is switched on.
TEST_F(OffTest, ANewDaemonIsOffToo) {
  Start();
  ASSERT_EQ(Ctl({"off"}).exit_status, 0);
  EXPECT_EQ(StopDaemon(), 0);
  Start();
  const ProcessResult remembered = Ctl({"reg_policy", kMount, "alpha"});
  EXPECT_TRUE(Has(remembered.out, "is remembered; PPC is off")) << remembered.err;
  EXPECT_LE(RunnerPid(), 0);
  ASSERT_EQ(Ctl({"reg_policy", kOtherMount, "alpha"}).exit_status, 0);
  const std::string unusual = std::string(kOtherMount) + "/";
  EXPECT_EQ(Ask({{"op", "rm_policy"}, {"mount", unusual}}).value("code", ""), "");
  EXPECT_EQ(Ask({{"op", "rm_policy"}, {"mount", unusual}}).value("code", ""), "ENOENT");
  EXPECT_EQ(Ctl({"on"}).out, "on: 1 directory has its policy\n");
  EXPECT_TRUE(WaitForState("running"));
}

TEST_F(OffTest, ItIsSaidThatARebootForgetsIt) {
  StartDaemon({"--template-dir", "/nowhere/templates"});
  const ProcessResult off = Ctl({"off"});
  EXPECT_EQ(off.exit_status, 0);
  EXPECT_TRUE(Has(off.err, "a reboot switches it on again"));
  EXPECT_EQ(Ask({{"op", "status"}})["daemon"]["off"], true);
}

TEST_F(OffTest, ItIsSwitchedOnWithoutADaemon) {
  environment_.push_back("PPC_TEMPLATE_DIR=" + dir_ + "/templates");
  Start();
  ASSERT_EQ(Ctl({"off"}).exit_status, 0);
  EXPECT_EQ(StopDaemon(), 0);
  EXPECT_EQ(Ctl({"on"}).exit_status, 0);
  EXPECT_FALSE(IsMarked());
  EXPECT_EQ(Ctl({"on"}).exit_status, 3) << "nothing to switch on, nobody to ask";
}

TEST_F(OffTest, OneCommandAlone) {
  Start();
  environment_.push_back("PPC=off");
  ExpectRan(Ctl({"run", "/nowhere", "--required", "--", "sh", "-c", "echo ran; exit 7"}), 7,
            "ran\n", "");
}

// Several runners on one machine.

class MemoryTest : public RunningDaemonTest {};

// What the lines of a runner's log say it may keep, the last one; 0: nothing is shared.
TEST_F(MemoryTest, RunnersShareTheMemory) {
  const auto share_of = [this](const std::string& log) -> uint64_t {
    const std::string text = ReadText(dir_ + "/" + log);
    const size_t line = text.rfind("\"op\":\"memory\"");
    if (line == std::string::npos) return 0;
    const size_t begin = text.rfind('{', line);
    const Json message = Json::parse(text.substr(begin, text.find('\n', begin) - begin));
    return message.value("share", uint64_t{0});
  };
  const auto fake = [this](const std::string& log) {
    return Json{{"memory", {{"budget", 90 * kMiB}, {"wants", 90 * kMiB}}},
                {"log", dir_ + "/" + log}};
  };
  ASSERT_TRUE(Register(fake("one")).value("ok", false));
  EXPECT_EQ(share_of("one"), 0u) << "alone";
  ASSERT_TRUE(Register(fake("two"), "alpha", kOtherMount).value("ok", false));
  EXPECT_TRUE(Eventually([&] { return share_of("one") + share_of("two") == 90 * kMiB; }));
  EXPECT_EQ(share_of("one"), 45 * kMiB);
  const std::string two = ReadText(dir_ + "/two");
  EXPECT_TRUE(Has(two, "\"memory_share\":0")) << "before it was asked: " << two;
  // The one that is gone leaves it.
  ASSERT_TRUE(Ask({{"op", "rm_policy"}, {"mount", kOtherMount}}).value("ok", false));
  EXPECT_TRUE(Eventually([&] { return share_of("one") == 0; }));
}

// ppcd's log as JSON, and the lines of one service.

class LogTest : public DaemonTest {
 protected:
  // The first line of ppcd's log with that in its message; null: there is none, or no object.
  Json LineWith(const std::string& text) {
    std::istringstream log(DaemonLog());
    for (std::string line; std::getline(log, line);) {
      if (line.find(text) != std::string::npos) return Json::parse(line, nullptr, false);
    }
    return nullptr;
  }
  // What ppcd answers of a directory, a line each.
  std::string Logged(const std::string& mount) {
    std::string text;
    const Json answer = Ask({{"op", "log"}, {"mount", mount}});
    for (const Json& line : answer.value("lines", Json::array()))
      text += line.value("text", "") + "\n";
    return text;
  }
  // A service whose process ends.
  void StartAndEnd(const std::string& id) {
    const pid_t pid = StartSleeper();
    EXPECT_EQ(
        Ask({{"op", "service_start"}, {"mount", kMount}, {"service_id", id}, {"pid", pid}})["ok"],
        true);
    KillAndReap(pid);
    EXPECT_TRUE(Eventually([&] { return !LineWith("of service " + id + " has ended").is_null(); }));
  }
};

TEST_F(LogTest, JsonTellsDirectoryAndService) {
  StartDaemon({"--log-format", "json"});
  Register();
  StartAndEnd("svc-one");
  StartAndEnd("svc-two");
  const Json line = LineWith("of service svc-two has ended");
  ASSERT_TRUE(line.is_object()) << DaemonLog();
  EXPECT_EQ(line["program"], "ppcd");
  EXPECT_EQ(line["priority"], 6);
  EXPECT_EQ(line["directory"], kMount);
  EXPECT_EQ(line["service"], "svc-two");
  const Json runs = LineWith("runs (pid");
  ASSERT_TRUE(runs.is_object()) << DaemonLog();
  EXPECT_EQ(runs["directory"], kMount);
  EXPECT_FALSE(runs.contains("service"));
}

// Without a journal the policy's lines stand among ppcd's, by their time.
TEST_F(LogTest, LinesOfTheRunnerAreThere) {
  StartDaemon();
  const auto line = [](uint64_t time_ns, const char* text) {
    return Json{{"number", 1}, {"time_ns", time_ns}, {"priority", 6}, {"text", text}};
  };
  Json first = line(1000000000, "maio: service svc-one: recording");
  first["service"] = "svc-one";
  Register(
      {{"lines", {first, line(4000000000000000000, "the last"), "no line", Json{{"text", 3}}}}});
  const std::string all = Logged(kMount);
  const size_t began = all.find("/proc: maio: service svc-one: recording\n");
  const size_t runs = all.find("/proc: policy 'alpha' runs");
  const size_t last = all.find("/proc: the last\n");
  ASSERT_NE(last, std::string::npos) << all;
  EXPECT_LT(began, runs) << all;
  EXPECT_LT(runs, last) << all;
  EXPECT_EQ(Logged(kOtherMount), "");
}

TEST_F(LogTest, TextIsTheUsualForm) {
  Start();
  StartAndEnd("svc-one");
  EXPECT_FALSE(LineWith("of service svc-one has ended").is_object()) << DaemonLog();
  EXPECT_TRUE(Has(DaemonLog(), "ppcd: /proc: process "));
  for (const auto& [option, value, why] : {std::tuple("--log-format", "xml", "it is text or json"),
                                           std::tuple("--free-floor", "lots", "--free-floor")}) {
    const ProcessResult wrong = RunProcess({PPC_TEST_BIN_DIR "/ppcd", option, value}, {});
    EXPECT_EQ(wrong.exit_status, 2);
    EXPECT_TRUE(Has(wrong.err, why)) << wrong.err;
  }
}

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

  // What ppcd tells its manager comes here.
  UniqueFd Manager() {
    environment_.push_back("NOTIFY_SOCKET=" + dir_ + "/notify");
    return MakeSocket(dir_ + "/notify", SOCK_DGRAM);
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
    const int log = open((dir_ + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
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
};

TEST_F(SystemdTest, ServesTheSocketThatItIsGivenAndLeavesItsFile) {
  const std::string given = dir_ + "/given.sock";
  UniqueFd socket = MakeSocket(given);
  RawClient early(given);  // connects before there is a ppcd
  StartWith(socket.Get(), "admin");
  EXPECT_TRUE(early.Ask({{"op", "ping"}}).value("ok", false)) << DaemonLog();
  EXPECT_FALSE(std::filesystem::exists(socket_)) << "it made one of its own as well";
  EXPECT_EQ(StopDaemon(SIGTERM), 0);
  EXPECT_TRUE(std::filesystem::exists(given));
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
  EXPECT_TRUE(Has(environment, "PPC_RUNNER"));
  EXPECT_FALSE(Has(environment, "LISTEN_"));
  EXPECT_FALSE(Has(environment, "WATCHDOG_"));
}

TEST_F(SystemdTest, ASocketThatItDoesNotKnowOrCannotListenToIsRefused) {
  const UniqueFd unknown = MakeSocket(dir_ + "/given.sock");
  StartWith(unknown.Get(), "other");
  EXPECT_EQ(WaitForExit(), 1);
  EXPECT_TRUE(Has(DaemonLog(), "'other', which ppcd does not know"));
  const UniqueFd datagrams = MakeSocket(dir_ + "/given.dgram", SOCK_DGRAM);
  StartWith(datagrams.Get(), "admin");
  EXPECT_EQ(WaitForExit(), 1);
  EXPECT_TRUE(Has(DaemonLog(), "no listening unix stream socket"));
}

TEST_F(SystemdTest, SocketsMeantForAnotherProcessAreNoneOfOurs) {
  UniqueFd socket = MakeSocket(dir_ + "/given.sock");
  StartWith(socket.Get(), "admin", false);
  EXPECT_TRUE(Eventually([this] { return RawClient(socket_).IsConnected(); })) << DaemonLog();
}

TEST_F(SystemdTest, TheManagerIsToldWhatThereIs) {
  const UniqueFd receiver = Manager();
  StartDaemon();
  EXPECT_EQ(Hear(receiver.Get(), 10000), "READY=1");
  EXPECT_EQ(Hear(receiver.Get(), 10000), "STATUS=0 directories, 0 services");
  Register();
  Tell("service_start", "svc-one");
  const auto becomes = [&](const std::string& status) {
    return Eventually([&] { return Hear(receiver.Get(), 1500) == "STATUS=" + status; });
  };
  EXPECT_TRUE(becomes("1 directory, 1 service"));
  EXPECT_EQ(Hear(receiver.Get(), 1500), "") << "nothing has changed";
  Ask({{"op", "off"}});
  EXPECT_TRUE(becomes("switched off; ppcctl on"));
}

TEST_F(SystemdTest, TheWatchdogHearsOfALoopThatTurnsAndOfNoOther) {
  const UniqueFd receiver = Manager();
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
