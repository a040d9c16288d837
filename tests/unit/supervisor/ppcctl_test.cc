// SPDX-License-Identifier: Apache-2.0
// The command line as its users meet it: exit status, one line on stderr.
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/unit/child.h"
#include "tests/unit/supervisor/daemon_fixture.h"
#include "tools/ppcctl/run.h"

namespace ppc::control {
namespace {

class CtlTest : public DaemonTest {};

TEST_F(CtlTest, RegistersListsShowsRemoves) {
  StartDaemon();
  std::ofstream(dir_ + "/config.json") << R"({"distance":"16M"})";
  EXPECT_EQ(Ctl({"reg_policy", "/proc", "alpha", "@" + dir_ + "/config.json"}).exit_status, 0);
  EXPECT_EQ(StatusOf()["config"]["distance"], "16M");
  EXPECT_TRUE(Has(Out({"reg_policy", "/proc", "alpha", R"({"distance":"16M"})"}), "already"));
  EXPECT_TRUE(Has(Ctl({"list"}).out, "/proc  alpha  running"));
  const Json listed = *ParseJson(Ctl({"list", "--json"}).out, "list");
  EXPECT_EQ(listed["mounts"][0]["policy"], "alpha");
  const ProcessResult status = Ctl({"status"});
  EXPECT_TRUE(Has(status.out, "events.read"));
  const Json as_json = *ParseJson(Ctl({"status", "-j", "/proc"}).out, "status");
  EXPECT_EQ(as_json["mounts"][0]["state"], "running");
  EXPECT_EQ(Ctl({"rm_policy", "/proc"}).exit_status, 0);
  EXPECT_EQ(StateOf(), "native");
}

TEST_F(CtlTest, AMountMayBeNamedThroughALink) {
  StartDaemon();
  ASSERT_EQ(symlink("/proc", (dir_ + "/link").c_str()), 0);
  Out({"reg_policy", dir_ + "/link", "alpha"});
  EXPECT_EQ(StateOf(), "running");
}

TEST_F(CtlTest, ServicesStartReadyStop) {
  Start();
  const ProcessResult started =
      Ctl({"service", "start", "/proc", "--param", "model=m", "--param", "tp=2", "--xpu", "1,0"});
  EXPECT_EQ(started.exit_status, 0) << started.err;
  const ProcessResult id = Ctl({"service-id", "--param", "tp=2", "--param", "model=m"});
  EXPECT_EQ(started.out, id.out);
  EXPECT_TRUE(WasTold(R"("xpus":[1,0])"));
  EXPECT_EQ(Ctl({"service", "ready", "/proc", "--param", "model=m", "--param", "tp=2"}).exit_status,
            0);
  environment_.push_back("PPC_MOUNT=/proc");
  environment_.push_back("PPC_SERVICE_ID=" + id.out.substr(0, 32));
  EXPECT_EQ(Ctl({"service", "stop"}).exit_status, 0);
  EXPECT_EQ(Ctl({"service", "stop"}).exit_status, 1);
}

TEST_F(CtlTest, ServiceIdTellsNumbersFromText) {
  const ProcessResult typed = Ctl({"service-id", "--verbose", "--param", "a=4", "--param", "b=0.10",
                                   "--param", "c=true", "--param", "d=007", "--param", "e=x=y"});
  EXPECT_TRUE(Has(typed.out, R"({"a":4,"b":"0.10","c":true,"d":"007","e":"x=y"})"));
  EXPECT_EQ(Ctl({"service-id", "--params", R"({"model":"m"})"}).out,
            Ctl({"service-id", "--param", "model=m", "--param", "port=1"}).out);
}

TEST_F(CtlTest, RunPassesTheExitStatusOn) {
  Start();
  EXPECT_EQ(Ctl({"run", "--id", "svc-run", "/proc", "--", "/bin/sh", "-c", "exit 7"}).exit_status,
            7);
  EXPECT_TRUE(WasTold("service_stop"));
  EXPECT_FALSE(Has(RunnerLog(), "service_ready")) << "a command that failed has not become ready";
  EXPECT_EQ(
      Ctl({"run", "--id", "svc-run", "/proc", "--", "/bin/sh", "-c", "kill -9 $$"}).exit_status,
      128 + SIGKILL);
}

TEST_F(CtlTest, RunIsReadyWhenTheCommandEndsWell) {
  Start();
  EXPECT_EQ(Out({"run", "--id", "svc-run", "/proc", "--", "/bin/sh", "-c",
                 "echo $PPC_MOUNT $PPC_SERVICE_ID"}),
            "/proc svc-run\n");
  EXPECT_TRUE(WasTold("service_stop"));
  EXPECT_LT(RunnerLog().find("service_start"), RunnerLog().find("service_ready"));
  EXPECT_LT(RunnerLog().find("service_ready"), RunnerLog().find("service_stop"));
}

TEST_F(CtlTest, RunIsReadyWhenTheTextAppears) {
  Start();
  // The text comes in two pieces; the command waits until the runner was told.
  const std::string script =
      "printf 'start-up com'; sleep 0.1; echo plete >&1; "
      "until grep -q service_ready " +
      dir_ + "/runner.log; do sleep 0.05; done";
  EXPECT_EQ(Out({"run", "--id", "svc-run", "--ready-on", "start-up complete", "/proc", "--",
                 "/bin/sh", "-c", script}),
            "start-up complete\n");
}

TEST_F(CtlTest, RunSendsReadyOnce) {
  Start();
  EXPECT_EQ(Ctl({"run", "--id", "svc-run", "/proc", "--", kPpcctl, "service", "ready"}).exit_status,
            0);
  EXPECT_TRUE(WasTold("service_stop"));
  const std::string log = RunnerLog();
  EXPECT_EQ(log.find("service_ready"), log.rfind("service_ready")) << log;
}

TEST_F(CtlTest, RunForwardsSignals) {
  Start();
  const std::string script = "trap 'exit 42' TERM; kill -TERM $PPID; while :; do sleep 0.05; done";
  EXPECT_EQ(Ctl({"run", "--id", "svc-run", "/proc", "--", "/bin/sh", "-c", script}).exit_status,
            42);
}

TEST_F(CtlTest, RunForwardsSignalsWhileThePolicyIsToldOfReady) {
  Start({{"slow", {{"service_ready", 60000}}}});  // longer than a program here may run
  const std::string script =
      "trap 'exit 42' TERM; echo up; sleep 0.2; kill -TERM $PPID; while :; do sleep 0.05; done";
  const ProcessResult result = Ctl({"run", "--id", "svc-run", "--ready-on", "up", "--timeout",
                                    "0.5", "/proc", "--", "/bin/sh", "-c", script});
  EXPECT_EQ(result.exit_status, 42) << result.err;
}

TEST_F(CtlTest, RunForwardsSignalsWhileNobodyReadsItsOutput) {
  Start();
  const std::string got = dir_ + "/got";
  const std::string script = "trap 'touch " + got +
                             "; exit 42' TERM; head -c 300000 /dev/zero & sleep 0.3; "
                             "kill -TERM $PPID; while :; do sleep 0.05; done";
  environment_.push_back("SCRIPT=" + script);
  const std::string consumer = "i=0; until [ -e " + got +
                               " ] || [ $i -ge 60 ]; do sleep 0.05; i=$((i+1)); done; "
                               "[ -e " +
                               got + " ] && echo got; wc -c";
  const ProcessResult result = RunProcess(
      {"/bin/sh", "-c",
       std::string(PPC_TEST_BIN_DIR) + "/ppcctl run --id svc-run --ready-on nothing /proc -- " +
           "/bin/sh -c \"$SCRIPT\" | { " + consumer + "; }"},
      environment_);
  EXPECT_TRUE(result.out.starts_with("got\n")) << result.out << result.err;
}

TEST_F(CtlTest, RunDoesNotHoldTheExitStatusForLong) {
  // A command that fails is told of as such, and stopped where its policy does not wait for
  // another.
  Start({{"slow", {{"service_stop", 4000}, {"service_failed", 4000}}}});
  ExpectFailure(
      Ctl({"run", "--id", "svc-run", "--timeout", "0.5", "/proc", "--", "/bin/sh", "-c", "exit 7"}),
      7, "goes on without ppcctl");
  EXPECT_TRUE(WaitForNoServices());
}

TEST(RunChild, ReapsTheOrphansThatItAdopts) {
  const auto runs = [] {
    prctl(PR_SET_CHILD_SUBREAPER, 1);  // as PID 1 is
    ctl::Child child;
    child.command = {"/bin/sh", "-c",
                     "(sleep 0.1 &); sleep 0.5; cat /proc/$PPID/task/*/children | wc -w | "
                     "grep -qx 1"};
    const Result<int> status = ctl::RunChild(child);
    return status ? *status : 99;
  };
  EXPECT_EQ(EndOf(StartChild(runs)), 0) << "a zombie besides the command";
}

TEST_F(CtlTest, RunRunsAlthoughThePolicyRefuses) {
  Start({{"control", "refuse"}});
  const ProcessResult result = Ctl({"run", "--id", "svc-run", "/proc", "--", "/bin/echo", "ran"});
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_EQ(result.out, "ran\n");
  EXPECT_TRUE(Has(result.err, "template is stale"));
}

TEST_F(CtlTest, RunTellsAMissingCommandFromABadOne) {
  Start();
  ExpectFailure(Ctl({"run", "--id", "svc-run", "/proc", "--", "/no/such/cmd"}), 127,
                "/no/such/cmd");
  EXPECT_EQ(Ctl({"run", "--id", "svc-run", "/proc", "--", "/etc/passwd"}).exit_status, 126);
  EXPECT_TRUE(StatusOf()["services"].empty());
}

TEST_F(CtlTest, RunInAPidNamespaceOfItsOwnIsTheServicesRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to make a namespace";
  Start();
  const std::string script = "echo $PPID; " + kPpcctl + " status --json /proc";
  const ProcessResult result =
      RunProcess({"/usr/bin/unshare", "--pid", "--fork", kPpcctl, "run", "--id", "svc-run", "/proc",
                  "--", "/bin/sh", "-c", script},
                 environment_);
  if (result.err.find("unshare failed") != std::string::npos) GTEST_SKIP() << result.err;
  ASSERT_EQ(result.exit_status, 0) << result.err;
  ASSERT_TRUE(result.out.starts_with("1\n")) << result.out;
  const Json status = *ParseJson(result.out.substr(2), "status");
  EXPECT_GT(status["mounts"][0]["services"][0]["pid"], 1);
}

TEST_F(CtlTest, RunThatIsKilledStopsItsService) {
  Start();
  const std::string script = "kill -9 $PPID; sleep 0.1";
  Ctl({"run", "--id", "svc-run", "/proc", "--", "/bin/sh", "-c", script});
  EXPECT_TRUE(WaitForNoServices());
}

TEST(TextFinder, FindsATextAcrossPiecesOnce) {
  ctl::TextFinder finder("ready");
  EXPECT_FALSE(finder.Feed("not rea", 7));
  EXPECT_TRUE(finder.Feed("dy yet", 6));
  EXPECT_FALSE(finder.Feed("ready", 5));
  ctl::TextFinder nothing("");
  EXPECT_FALSE(nothing.Feed("x", 1));
}

TEST(RunChild, WhatIsShortSaysNothingOfTheCommand) {
  EXPECT_EQ(ctl::ExitStatusOf(Error{ENOENT, ""}), 127);
  EXPECT_EQ(ctl::ExitStatusOf(Error{EACCES, ""}), 126);
  EXPECT_EQ(ctl::ExitStatusOf(Error{ENOEXEC, ""}), 126);
  EXPECT_EQ(ctl::ExitStatusOf(Error{EMFILE, ""}), 125);
  EXPECT_EQ(ctl::ExitStatusOf(Error{EAGAIN, ""}), 125);
}

}  // namespace
}  // namespace ppc::control
