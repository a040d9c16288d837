// SPDX-License-Identifier: Apache-2.0
// What a service says of its start-up and keeps for the next one: `ppcctl service phase` and `env`,
// `ppcctl run --env-from-service` and `--also`.
#include <filesystem>
#include <fstream>

#include "tests/unit/supervisor/daemon_fixture.h"

namespace ppc::control {
namespace {

namespace fs = std::filesystem;

class ServiceVerbsTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    std::erase_if(environment_,
                  [](const std::string& e) { return e.starts_with("PPC_ARTIFACT_DIR="); });
    environment_.push_back("PPC_ARTIFACT_DIR=" + dir_ + "/artifacts");
    environment_.push_back("XDG_RUNTIME_DIR=" + dir_);
    log_ = {{"log", dir_ + "/runner.log"}};
    config_ = DumpJson({{"fake", log_}});
  }
  void ExpectUsage(const std::vector<std::string>& words, const std::string& part) {
    const ProcessResult result = Ctl(words);
    EXPECT_EQ(result.exit_status, 2) << words.back();
    EXPECT_TRUE(Has(result.err, part));
  }
  std::string Env(std::vector<std::string> words) {
    words.insert(words.begin(), {"service", "env"});
    const ProcessResult result = Ctl(words);
    EXPECT_EQ(result.exit_status, 0) << result.err;
    return result.out;
  }
  Json log_;
  std::string config_;
};

TEST_F(ServiceVerbsTest, PhasesReachThePolicy) {
  StartDaemon();
  ASSERT_TRUE(Register(log_)["ok"]);
  ASSERT_EQ(Ctl({"service", "start", "--id", "svc1", kMount}).exit_status, 0);
  for (const char* phase : {"init", "weights", "compile", "graphs"}) {
    Out({"service", "phase", "svc1", phase, kMount});
    EXPECT_TRUE(Has(RunnerLog(), "\"phase\":\"" + std::string(phase) + "\""));
  }
  EXPECT_EQ(Ctl({"service", "phase", "weights", kMount, "--id", "svc1"}).exit_status, 0);
  EXPECT_FALSE(Has(RunnerLog(), "service_ready"));
  EXPECT_EQ(Ctl({"service", "phase", "svc1", "ready", kMount}).exit_status, 0);
  EXPECT_TRUE(Has(RunnerLog(), "service_ready"));
  EXPECT_EQ(StatusOf()["services"][0]["state"], "ready");
  EXPECT_EQ(Ctl({"service", "phase", "svc2", "init", kMount}).exit_status, 1);
  ExpectUsage({"service", "phase"}, "[ID] PHASE [MNT]");
  ExpectUsage({"service", "phase", "svc1", "loading", kMount}, "init, weights, compile, graphs");
  ExpectUsage({"service", "phase", "init", kMount}, "which service?");
}

TEST_F(ServiceVerbsTest, ACommandTellsOfItsPhasesWithoutWords) {
  Out({"run", "--policy", "alpha", "--config", config_, "/proc", "--", "/bin/sh", "-c",
       kPpcctl + " service phase init && " + kPpcctl + " service phase compile"});
  const std::string log = RunnerLog();
  EXPECT_LT(log.find("\"init\"", log.find("service_phase")), log.find("\"compile\"")) << log;
}

TEST_F(ServiceVerbsTest, ValuesAreKeptAndPrintedForAShell) {
  if (!HasVerb("service env")) GTEST_SKIP() << "the core alone";
  EXPECT_EQ(Env({"svc1"}), "");
  EXPECT_EQ(Env({"svc1", "B=it's $HOME", "A=1"}), "");
  EXPECT_EQ(Env({"svc1", "C=3"}), "");
  const std::string lines = Env({"svc1"});
  EXPECT_TRUE(lines.starts_with("export A=1\nexport B=")) << lines;
  const ProcessResult shell = RunProcess(
      {"/bin/sh", "-c", "eval \"$(" + kPpcctl + " service env svc1)\"; echo \"$A $B $C\""},
      environment_);
  EXPECT_EQ(shell.out, "1 it's $HOME 3\n");
  EXPECT_EQ(Env({"svc2"}), "");
  EXPECT_EQ(Env({"svc1", "B=", "C="}), "");
  EXPECT_EQ(Env({"--id", "svc1"}), "export A=1\n");
  const Json json = Value(ParseJsonObject(Env({"svc1", "--json"}), "values"));
  EXPECT_EQ(json["values"], (Json{{"A", "1"}}));
  ExpectUsage({"service", "env", "svc1", "LD_PRELOAD=/x.so"}, "LD_PRELOAD");
  ExpectUsage({"service", "env", "svc1", "A"}, "NAME=VALUE");
  ExpectUsage({"service", "env"}, "which service?");
  EXPECT_EQ(Ctl({"service", "env", "../x", "A=1"}).exit_status, 1);
}

TEST_F(ServiceVerbsTest, RunSetsWhatAnEarlierStartHasKept) {
  if (!HasVerb("service env")) GTEST_SKIP() << "the core alone";
  const auto run = [&](const std::vector<std::string>& options, const std::string& script) {
    std::vector<std::string> words = {"run",   "--policy", "alpha", "--config",
                                      config_, "--id",     "svc1"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"/proc", "--", "/bin/sh", "-c", script});
    return Ctl(words);
  };
  // From within, no ID is needed.
  const ProcessResult first =
      run({"--env-from-service"},
          "echo \"<$KV_CACHE_BYTES>\"; " + kPpcctl + " service env KV_CACHE_BYTES=123 MINE=kept");
  EXPECT_EQ(first.out, "<>\n") << first.err;
  EXPECT_EQ(first.err, "");
  environment_.push_back("MINE=own");
  const ProcessResult second = run({"--env-from-service"}, "echo \"<$KV_CACHE_BYTES $MINE>\"");
  EXPECT_EQ(second.out, "<123 own>\n") << second.err;
  EXPECT_EQ(run({}, "echo \"<$KV_CACHE_BYTES>\"").out, "<>\n") << "nobody asked for it";
  // Whatever is wrong with them, the command runs.
  std::ofstream(dir_ + "/artifacts/" + std::to_string(geteuid()) + "/values/svc1") << "nonsense";
  const ProcessResult third = run({"--env-from-service"}, "echo \"<$KV_CACHE_BYTES>\"");
  EXPECT_EQ(third.exit_status, 0);
  EXPECT_EQ(third.out, "<>\n");
  EXPECT_TRUE(Has(third.err, "warning: --env-from-service: "));
}

TEST_F(ServiceVerbsTest, RunStartsTheServiceOnOtherDirectoriesToo) {
  const ProcessResult result =
      Ctl({"run", "--policy", "alpha", "--config", config_, "--also", "/sys", "--also",
           "/proc/self/fd/..", "--also", dir_ + "/missing", "/proc", "--", "/bin/sh", "-c",
           "echo $PPC_MOUNT; " + kPpcctl + " list; " + kPpcctl + " service ready"});
  EXPECT_EQ(result.exit_status, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with("/proc\n")) << result.out;
  EXPECT_TRUE(Has(result.out, "/sys"));
  EXPECT_TRUE(Has(result.err, "missing is read natively"));
  const std::string log = RunnerLog();
  for (const char* op : {"service_start", "service_ready", "service_stop"})
    EXPECT_EQ(CountOf(op, log), 2U) << op << "\n" << log;
}

}  // namespace
}  // namespace ppc::control
