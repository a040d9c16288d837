// SPDX-License-Identifier: Apache-2.0
// The launcher with misbehaving workers: it always ends, with the right message.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <regex>
#include <set>
#include <string>

#include "daemon/base/files.h"
#include "extras/oci/programs.h"
#include "tests/unit/temp_tree.h"

namespace ppc::oci {
namespace {

constexpr const char* kState = R"({"id": "box", "annotations": {}})";
constexpr const char* kRequired = R"({"id": "box", "annotations": {"ppc.required" : "true"}})";
constexpr const char* kStopped =
    R"({"id": "box", "status": "stopped", "annotations": {"ppc.required" : "true"}})";

class LauncherTest : public ::testing::Test {
 protected:
  struct Outcome {
    int status = -1;  // 128 and more: killed
    std::string said;
  };

  std::string Worker(const std::string& script) {
    tree_.Write("/worker", "#!/bin/sh\n" + script + "\n");
    chmod(tree_.Path("/worker").c_str(), 0755);
    return tree_.Path("/worker");
  }

  Outcome Run(const std::string& worker, const std::string& state, const std::string& more = "") {
    tree_.Write("/state", state);
    const std::string command = std::string(PPC_OCI_HOOK) + " --timeout-ms " +
                                std::to_string(timeout_ms_) + " --worker " + worker + " <" +
                                tree_.Path("/state") + " 2>" + tree_.Path("/said") + more;
    const int status = std::system(command.c_str());
    Outcome outcome;
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.said = ReadFile(tree_.Path("/said")).value();
    return outcome;
  }

  void ExpectTrouble(const std::string& worker, const std::string& text) {
    const Outcome open = Run(worker, kState);
    EXPECT_EQ(open.status, 0);
    EXPECT_NE(open.said.find(text), std::string::npos) << open.said;
    EXPECT_NE(open.said.find("goes on without PPC"), std::string::npos) << open.said;
    EXPECT_EQ(open.said.find('\n'), open.said.size() - 1) << "more than a line: " << open.said;
    const Outcome closed = Run(worker, kRequired);
    EXPECT_EQ(closed.status, 1);
    EXPECT_NE(closed.said.find("is not started"), std::string::npos) << closed.said;
    const Outcome stopped = Run(worker, kStopped);
    EXPECT_EQ(stopped.status, 0);
    EXPECT_NE(stopped.said.find("by itself"), std::string::npos) << stopped.said;
  }

  TempTree tree_;
  int timeout_ms_ = 20000;  // reached only by hanging workers
};

TEST_F(LauncherTest, AWorkerThatDoesItsWorkIsQuiet) {
  const std::string got = tree_.Path("/got");
  const std::string worker = Worker("cat >" + got + "; echo noise; echo $# >>" + got);
  EXPECT_EQ(Run(worker, kState).status, 0);
  EXPECT_EQ(Run(worker, kRequired).status, 0);
  EXPECT_EQ(Run(worker, kState).said, "");
  EXPECT_EQ(ReadFile(got).value(), std::string(kState) + "1\n");
}

TEST_F(LauncherTest, AWorkerThatFailsIsQuoted) {
  ExpectTrouble(Worker("echo no daemon >&2; echo more >&2; exit 3"), "no daemon");
  ExpectTrouble(Worker("exit 3"), "status 3");
}

TEST_F(LauncherTest, AWorkerThatIsMissing) { ExpectTrouble(tree_.Path("/none"), "No such file"); }

TEST_F(LauncherTest, AWorkerThatCrashes) { ExpectTrouble(Worker("kill -SEGV $$"), "signal 11"); }

TEST_F(LauncherTest, AWorkerThatHangsIsKilledWithItsChildren) {
  const std::string pids = tree_.Path("/pids");
  const std::string worker = Worker("sleep 1000 & echo $$ $! >" + pids + "; wait");
  int pid = 0;
  int child = 0;
  // A busy machine may not have started it in that time.
  for (timeout_ms_ = 300; child == 0 && timeout_ms_ < 40000; timeout_ms_ *= 2) {
    const Outcome outcome = Run(worker, kState);
    EXPECT_EQ(outcome.status, 0);
    EXPECT_NE(outcome.said.find("more than its time"), std::string::npos) << outcome.said;
    const Result<std::string> text = ReadFile(pids);
    if (text) std::sscanf(text->c_str(), "%d %d", &pid, &child);
  }
  ASSERT_NE(child, 0);
  const auto has_ended = [](int process) {
    const Result<std::string> stat = ReadFile("/proc/" + std::to_string(process) + "/stat");
    return !stat || stat->find(") Z ") != std::string::npos;  // its new parent may not look
  };
  for (int i = 0; i < 1000 && !(has_ended(pid) && has_ended(child)); ++i) usleep(10000);
  EXPECT_TRUE(has_ended(pid));
  EXPECT_TRUE(has_ended(child));
}

TEST_F(LauncherTest, AWorkerThatStopsItselfIsKilled) {
  timeout_ms_ = 300;
  ExpectTrouble(Worker("kill -STOP $$"), "more than its time");
}

TEST_F(LauncherTest, ARuntimeThatDoesNotWriteIsNotWaitedFor) {
  timeout_ms_ = 300;
  ASSERT_EQ(mkfifo(tree_.Path("/fifo").c_str(), 0600), 0);
  const int both_ends = open(tree_.Path("/fifo").c_str(), O_RDWR | O_CLOEXEC);
  const Outcome outcome = Run(Worker("exit 0"), kState, " <" + tree_.Path("/fifo"));
  close(both_ends);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.said.find("did not write"), std::string::npos) << outcome.said;
}

TEST_F(LauncherTest, OnlyTheAnnotationItselfMakesItRequired) {
  const std::string worker = Worker("exit 1");
  for (const char* state : {R"({"annotations": {"ppc.required": "false"}})",
                            R"({"annotations": {"x": "\"ppc.required\":\"true\""}})",
                            R"({"annotations": {"x": "ppc.required", "y": "true"}})", "", "{"}) {
    EXPECT_EQ(Run(worker, state).status, 0) << state;
  }
}

// The launcher has no option table: this compares the manual with the options it reads.
TEST_F(LauncherTest, TheManualIsTheLaunchers) {
  const std::string code = ReadFile(PPC_OCI_LAUNCHER).value();
  std::set<std::string> read;
  const std::regex option(R"re(argv\[i\], "(--[a-z-]+)")re");
  for (std::sregex_iterator it(code.begin(), code.end(), option), end; it != end; ++it) {
    read.insert((*it)[1]);
  }
  std::set<std::string> told;
  for (const cli::Option& each : HookProgram().verbs[0].options) told.insert(each.name);
  EXPECT_EQ(told, read);
  std::smatch limits;
  const std::regex limit(R"re(TimeoutMs = (\d+);[^;]*MaxTimeoutMs = (\d+))re");
  ASSERT_TRUE(std::regex_search(code, limits, limit));
  const std::string help = HookProgram().verbs[0].options[0].help;
  EXPECT_NE(help.find("default " + limits[1].str()), std::string::npos) << help;
  EXPECT_NE(help.find("at most " + limits[2].str()), std::string::npos) << help;
}

TEST_F(LauncherTest, BothAnswerPeople) {
  const auto says = [this](const std::string& command) {
    EXPECT_EQ(std::system((command + " >" + tree_.Path("/said") + " 2>&1 </dev/null").c_str()), 0);
    return ReadFile(tree_.Path("/said")).value();
  };
  EXPECT_NE(says(PPC_OCI_HOOK " --help").find("[--timeout-ms N]"), std::string::npos);
  EXPECT_EQ(says(PPC_OCI_HOOK " --version"),
            std::string("ppc-oci-hook ") + HookProgram().version + "\n");
  EXPECT_NE(says(PPC_OCI_WORKER " --help").find("TIMEOUT_MS"), std::string::npos);
}

}  // namespace
}  // namespace ppc::oci
