// SPDX-License-Identifier: Apache-2.0
// `ppcctl run` without ceremony: no daemon, no directory, nothing that keeps the command from
// running.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "daemon/wire/listen_socket.h"
#include "tests/unit/supervisor/run_fixture.h"

namespace ppc::control {
namespace {

// For a command: until a private ppcd has started the service.  It serves ppcctl before.
const std::string kUntilStarted = std::string(PPC_TEST_BIN_DIR) + "/ppcctl list >/dev/null";

TEST_F(RunTest, StartsADaemonForTheCommandAlone) {
  ExpectRan(Run({"/proc", "--", "/bin/sh", "-c",
                 "echo $PPC_MOUNT; case $PPC_SOCKET in " + runtime_ + "/*) echo private;; esac; " +
                     "stat -c %a ${PPC_SOCKET%/*}; " + kUntilStarted + "; exit 7"}),
            7, "/proc\nprivate\n700\n", "");
  EXPECT_TRUE(WasTold("\"op\":\"stop\"")) << "the runner is drained";
  const std::string log = RunnerLog();
  EXPECT_LT(log.find("\"op\":\"init\""), log.find("service_start")) << log;
  EXPECT_LT(log.find("service_start"), log.find("service_stop"));
  EXPECT_TRUE(Has(log, "service_stop"));
  EXPECT_FALSE(Has(log, "service_ready"));
  EXPECT_FALSE(fs::exists(socket_));
  EXPECT_TRUE(Has(log, dir_ + "/templates"));
}

TEST_F(RunTest, TheCommandReachesThePrivateDaemon) {
  const ProcessResult result =
      Run({"/proc", "--", "/bin/sh", "-c", kPpcctl + " service ready && " + kPpcctl + " list"});
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_TRUE(Has(result.out, "/proc  alpha  running"));
  EXPECT_EQ(CountOf("service_ready", RunnerLog()), 1U);
}

// What policies may ask the kernel for is bounded, what the command may is not.
TEST_F(RunTest, TheFilterOfSystemCallsIsThePrivateDaemonsAlone) {
  const std::string mode = "sed -n 's/^Seccomp:[^0-9]*//p' /proc/";
  const ProcessResult own = RunProcess({"/bin/sh", "-c", mode + "self/status"}, {});
  const ProcessResult result = Run(
      {"/proc", "--", "/bin/sh", "-c",
       kUntilStarted + "; " + mode + "self/status; " + mode + "$(pgrep -P $PPID -x ppcd)/status"});
  EXPECT_EQ(result.out, own.out + "2\n") << result.err;
}

// A script that says ready says so in starts without a service, too.
TEST_F(RunTest, ScriptsGoOnWithoutAService) {
  const std::vector<std::string> script = {"--", "/bin/sh", "-ec",
                                           kPpcctl + " service phase weights; " + kPpcctl +
                                               " service ready; " + kPpcctl +
                                               " service ready --json"};
  const auto goes_on = [&](const ProcessResult& result) {
    EXPECT_EQ(result.exit_status, 0) << result.err;
    EXPECT_TRUE(Has(result.out, "\"told\": false"));
    EXPECT_FALSE(Has(result.err, "which mount"));
  };
  goes_on(Ctl(With({"run", "no/such/dir"}, script)));
  environment_.push_back("PPC=off");
  goes_on(Run(With({"/proc"}, script)));
}

TEST_F(RunTest, ThePrivateDaemonEndsWithAKilledPpcctl) {
  Run({"/proc", "--", "/bin/sh", "-c", kUntilStarted + "; kill -9 $PPID; sleep 0.1"});
  EXPECT_TRUE(Eventually([this] { return fs::is_empty(runtime_); }));
  EXPECT_TRUE(Has(RunnerLog(), "\"op\":\"stop\"")) << "drained, not cut off";
  // One that still starts ends with it, too.
  Run({"/proc", "--", "/bin/sh", "-c", "kill -9 $PPID"});
  EXPECT_TRUE(Eventually([this] { return fs::is_empty(runtime_); }));
}

// Loading the programs of an observer takes longer than many a command.
TEST_F(RunTest, ACommandNeedNotWaitForItsService) {
  config_ = R"({"fake":{"init":"hang"}})";
  ExpectRan(Run({"/proc", "--", "/bin/sh", "-c", "echo $PPC_RUN $PPC_MOUNT; exit 7"}), 7,
            "beside /proc\n", "");
}

TEST_F(RunTest, ScriptsGoOnWhereTheServiceCannotBeHad) {
  config_ = R"({"fake":{"init":"refuse"}})";
  const ProcessResult result =
      Run({"/proc", "--", "/bin/sh", "-ec",
           kPpcctl + " service phase weights; " + kPpcctl + " service ready; echo ran"});
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_EQ(result.out, "ran\n");
  ExpectOneLine(result, "chmod o-w");
}

// As PID 1 of a container: its end ends all.
TEST_F(RunTest, AsTheFirstProcessItWaitsForItsDaemon) {
  if (geteuid() != 0) GTEST_SKIP() << "needs the right to make a pid namespace";
  const ProcessResult result =
      RunProcess({"/usr/bin/unshare", "--pid", "--fork", "--mount-proc", kPpcctl, "run", "--policy",
                  "alpha", "--config", config_, "/sys", "--", "/bin/sh", "-c", "exit 0"},
                 environment_);
  if (result.err.find("unshare") != std::string::npos) GTEST_SKIP() << result.err;
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_TRUE(fs::is_empty(runtime_));
  EXPECT_TRUE(Has(RunnerLog(), "\"op\":\"stop\"")) << result.err;
}

TEST_F(RunTest, FailsOpenWithOneWarning) {
  config_ = R"({"fake":{"init":"refuse"}})";
  const ProcessResult refused =
      Run({"/proc", "--", "/bin/sh", "-c", "echo ran; " + kUntilStarted + " 2>&1; exit 3"});
  EXPECT_EQ(refused.exit_status, 3);
  EXPECT_EQ(refused.out, "ran\n");
  ExpectOneLine(refused, "warning: ");
  EXPECT_TRUE(Has(refused.err, "chmod o-w"));
  const ProcessResult missing = Run({"no/such/dir", "--", "/bin/echo", "ran"});
  EXPECT_EQ(missing.out, "ran\n");
  ExpectOneLine(missing);
  const ProcessResult unknown = Ctl({"run", "--policy", "gamma", "/proc", "--", "/bin/sh", "-c",
                                     "echo ran; " + kUntilStarted + " 2>&1"});
  EXPECT_EQ(unknown.out, "ran\n");
  ExpectOneLine(unknown, "gamma");
  environment_.push_back("XDG_RUNTIME_DIR=/nonexistent");
  environment_.push_back("PPC_TEMPLATE_DIR=/proc/none");
  const ProcessResult nowhere = Run({"/proc", "--", "/bin/echo", "ran"});
  EXPECT_EQ(nowhere.out, "ran\n");
  ExpectOneLine(nowhere);
}

TEST_F(RunTest, WarnsOnceWhenTheDaemonGoesAway) {
  Start();
  const ProcessResult result =
      Run({"/proc", "--", "/bin/sh", "-c",
           "kill -9 " + std::to_string(daemon_) + "; sleep 0.2; echo ran"});
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_EQ(result.out, "ran\n");
  ExpectOneLine(result);
}

TEST_F(RunTest, RequiredDoesNotRun) {
  config_ = R"({"fake":{"init":"crash"}})";
  const ProcessResult result = Run({"--required", "/proc", "--", "/bin/echo", "ran"});
  EXPECT_EQ(result.out, "");
  ExpectFailure(result, 125);
  const ProcessResult nothing = Run({"--required", "--", "/bin/echo", "ran"});
  EXPECT_EQ(nothing.out, "");
  ExpectFailure(nothing, 125);
}

TEST_F(RunTest, RegistersWithADaemonThatRunsAndLeavesIt) {
  StartDaemon();
  for (int i = 0; i < 2; ++i) {
    const ProcessResult result = Run({"/proc", "--", "/bin/sh", "-c", "echo $PPC_SOCKET"});
    EXPECT_EQ(result.exit_status, 0);
    EXPECT_EQ(result.err, i > 0 ? ""
                                : "ppcctl: /proc has policy 'alpha' from now on; to undo that: "
                                  "ppcctl rm_policy /proc\n");
    EXPECT_EQ(result.out, socket_ + "\n");
  }
  EXPECT_EQ(CountOf("\"op\":\"init\"", RunnerLog()), 1U);
  EXPECT_EQ(StateOf(), "running");
  EXPECT_TRUE(StatusOf()["services"].empty());
  // Whatever policy it has does, unless one is asked for.
  EXPECT_EQ(Ctl({"run", "/proc", "--", "/bin/true"}).err, "");
  const ProcessResult busy = Ctl({"run", "--policy", "beta", "/proc", "--", "/bin/echo", "ran"});
  EXPECT_EQ(busy.out, "ran\n");
  ExpectOneLine(busy, "rm_policy");
}

TEST_F(RunTest, TwoAtATimeAreReplicas) {
  Start();
  const std::string inner = dir_ + "/inner";
  std::ofstream(inner) << "\"$@\" run --id svc-one /proc -- /bin/sh -c 'echo $PPC_SERVICE_ID'";
  const ProcessResult result = Ctl({"run", "--id", "svc-one", "/proc", "--", "/bin/sh", "-c",
                                    "echo $PPC_SERVICE_ID; exec /bin/sh " + inner + " " + kPpcctl});
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_EQ(result.out, "svc-one\nsvc-one.2\n");
  ExpectOneLine(result, "its replica svc-one.2");
  EXPECT_TRUE(Eventually([this] { return StatusOf()["services"].empty(); }));
}

TEST_F(RunTest, FindsTheModelAmongTheWords) {
  if (!CanMount()) GTEST_SKIP() << "needs the right to mount";
  ExpectRan(RunOnMount({"--", "/bin/sh", "-c", "echo $PPC_MOUNT; " + kUntilStarted,
                        "--tensor-parallel-size", "4", model_}),
            0, model_ + "\n", "");
  const std::string log = RunnerLog();
  EXPECT_TRUE(Has(log, "\"tp\":4"));
  EXPECT_TRUE(Has(log, "\"model\":\"" + model_ + "\""));
  const ProcessResult file =
      RunOnMount({model_ + "/a.safetensors", "--", "/bin/sh", "-c", "echo $PPC_MOUNT"});
  EXPECT_EQ(file.out, model_ + "\n") << file.err;
}

TEST_F(RunTest, SaysThatItFoundNoModel) {
  const ProcessResult result = Run({"--", "/bin/sh", "-c", "echo ran; exit 9"});
  EXPECT_EQ(result.exit_status, 9);
  EXPECT_EQ(result.out, "ran\n");
  ExpectOneLine(result, "ppcctl run DIR -- CMD");
}

TEST_F(RunTest, ReadinessBySdNotifyCountsAndIsPassedOn) {
  if (std::system("python3 -c 'import socket' 2>/dev/null") != 0) GTEST_SKIP() << "no python3";
  const UniqueFd upstream(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const std::string path = dir_ + "/notify";
  const sockaddr_un address = *SocketAddress(path);
  ASSERT_EQ(bind(upstream.Get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  environment_.push_back("NOTIFY_SOCKET=" + path);
  const std::string script =
      "import os, socket\n"
      "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
      "s.connect('\\0' + os.environ['NOTIFY_SOCKET'][1:])\n"
      "s.send(b'STATUS=up\\nREADY=1')\n"
      "raise SystemExit(5)\n";
  const ProcessResult result = Run({"/proc", "--", "/usr/bin/env", "python3", "-c", script});
  EXPECT_EQ(result.exit_status, 5) << result.err;
  EXPECT_EQ(CountOf("service_ready", RunnerLog()), 1U) << RunnerLog();
  char text[128];
  const ssize_t got = recv(upstream.Get(), text, sizeof(text), 0);
  ASSERT_GT(got, 0);
  EXPECT_EQ(std::string(text, static_cast<size_t>(got)), "STATUS=up\nREADY=1");
  EXPECT_LT(recv(upstream.Get(), text, sizeof(text), 0), 0) << "ppcd's own state is no business";
}

TEST_F(RunTest, WorksForAnOrdinaryUser) {
  if (geteuid() != 0) GTEST_SKIP() << "is one already";
  const std::string home = dir_ + "/home";
  fs::create_directories(home);
  for (const std::string& own : {home, runtime_, dir_})
    ASSERT_EQ(chown(own.c_str(), 65534, 65534), 0);
  fs::permissions(dir_, fs::perms::owner_all | fs::perms::others_exec | fs::perms::group_exec);
  std::erase_if(environment_,
                [](const std::string& entry) { return entry.starts_with("PPC_TEMPLATE_DIR="); });
  environment_.push_back("HOME=" + home);
  const ProcessResult result =
      RunProcess({"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", kPpcctl,
                  "run", "--policy", "alpha", "--config", config_, "/proc", "--", "/bin/sh", "-c",
                  "echo $PPC_MOUNT; " + kUntilStarted},
                 environment_);
  if (result.exit_status == 127 || result.exit_status == 126) GTEST_SKIP() << result.err;
  EXPECT_EQ(result.out, "/proc\n");
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(Has(RunnerLog(), home + "/.local/state/ppc/templates"));
}

}  // namespace
}  // namespace ppc::control
