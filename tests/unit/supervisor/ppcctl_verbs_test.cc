// SPDX-License-Identifier: Apache-2.0
// The verbs that look, wait and plan, and those that load and drop by hand.
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "daemon/base/clock.h"
#include "policies/maio/template/template.h"
#include "tests/unit/supervisor/daemon_fixture.h"
#include "tools/ppcctl/needed_bytes.h"

namespace ppc::control {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kModelBytes = 20 << 20;
constexpr long kTmpfs = 0x01021994;

class VerbsTest : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    model_ = fs::canonical(dir_).string() + "/model";
    file_ = model_ + "/a.safetensors";
    fs::create_directories(model_);
    std::ofstream(file_) << "";
    // A hole: of its right size, and nothing of it in memory.
    fs::resize_file(file_, kModelBytes);
    environment_.push_back("XDG_RUNTIME_DIR=" + dir_);
    environment_.push_back("HF_HUB_CACHE=" + dir_ + "/hub");
  }
  void StartService(const char* id) {
    ASSERT_EQ(Ctl({"service", "start", "/proc", "--id", id}).exit_status, 0);
  }
  // Asks ppcd once a program has connected that is started after this, and has had its first
  // answer.
  std::thread OnceOneHasAsked(const Json& request) {
    const auto clients = [this] {
      std::ifstream sockets("/proc/net/unix");
      int count = 0;
      for (std::string line; std::getline(sockets, line);)
        count += line.ends_with(" " + socket_) && line.find(" 03 ") != std::string::npos ? 1 : 0;
      return count;
    };
    EXPECT_TRUE(Eventually([&] { return clients() == 0; }));
    return std::thread([this, clients, request] {
      EXPECT_TRUE(Eventually([&] { return clients() > 0; }));
      usleep(200000);
      Ask(request);
    });
  }
  // The answer of a verb that succeeds.
  Json Told(std::vector<std::string> words, int exit_status = 0) {
    const auto dashes = std::find(words.begin(), words.end(), "--");
    words.insert(dashes, "--json");
    const ProcessResult result = Ctl(words);
    EXPECT_EQ(result.exit_status, exit_status) << words[0] << ": " << result.err;
    const Result<Json> json = ParseJsonObject(result.out, words[0]);
    EXPECT_TRUE(json) << result.out;
    return json ? *json : Json::object();
  }

  std::string model_;
  std::string file_;
};

TEST(StartBound, FollowsMemoryDiskAndStages) {
  ctl::StartCost cost{.bytes = 1000, .disk_rate = 100, .cache_bytes = 2000};
  EXPECT_DOUBLE_EQ(ctl::BoundOf(cost).seconds, 10);
  cost.init_s = 4;
  cost.hot_load_s = 7;
  EXPECT_DOUBLE_EQ(ctl::BoundOf(cost).seconds, 11) << "the disk is done before";
  cost.cache_bytes = 300;
  EXPECT_TRUE(ctl::BoundOf(cost).is_constrained);
  EXPECT_DOUBLE_EQ(ctl::BoundOf(cost).seconds, 11) << "300 are ahead after init";
  cost.hot_load_s = 1;
  cost.init_s = 2;
  EXPECT_DOUBLE_EQ(ctl::BoundOf(cost).seconds, 10) << "init lets 200 in";
}

TEST_F(VerbsTest, PlanSaysWhatRunWouldDoAndDoesNothing) {
  const Json plan = Told({"plan", "--policy", "alpha", "--disk-mbps", "10", "--init", "0.5",
                          "--hot-load", "0.1", "--", "/bin/true", "--model", file_});
  EXPECT_EQ(plan["model"], file_);
  EXPECT_EQ(plan["directory"], model_);
  EXPECT_EQ(plan["found_by"], "named by the command");
  EXPECT_EQ(plan["daemon"]["runs"], false);
  EXPECT_EQ(plan["registered"], false);
  EXPECT_EQ(plan["template"], nullptr);
  EXPECT_EQ(plan["bytes"]["needed"], kModelBytes);
  EXPECT_EQ(plan["bytes"]["resident"], 0);
  EXPECT_DOUBLE_EQ(plan["bound"]["seconds"], static_cast<double>(kModelBytes) / 1e7);
  EXPECT_EQ(plan["bound"]["constrained"], false);
  EXPECT_FALSE(fs::exists(dir_ + "/templates"));
  EXPECT_FALSE(fs::exists(socket_));
  const ProcessResult ran =
      Ctl({"run", "--policy", "alpha", "--", "/bin/sh", "-c", "echo $PPC_SERVICE_ID", file_});
  // Another program, hence another service; the same command is the same.
  EXPECT_NE(ran.out, plan["service_id"].get<std::string>() + "\n");
  const Json same =
      Told({"plan", "--policy", "alpha", "--", "/bin/sh", "-c", "echo $PPC_SERVICE_ID", file_});
  EXPECT_EQ(ran.out, same["service_id"].get<std::string>() + "\n") << ran.err;
  EXPECT_TRUE(same["bound"]["seconds"].is_null()) << "nobody has measured the disk";
  EXPECT_TRUE(Has(Out({"plan", model_, "--disk-mbps", "10"}), "20.0 MiB from disk"));
  EXPECT_EQ(Ctl({"plan", model_, "--disk-mbps", "fast"}).exit_status, 2);
  EXPECT_EQ(Ctl({"plan", dir_ + "/none"}).exit_status, 1);
}

TEST_F(VerbsTest, PlanKnowsTheDaemonAndWhatItMeasured) {
  Start({{"status", {{"loader", {{"device_mbps", 5}}}}}});
  const Json plan = Told({"plan", "/proc", "--id", "svc-plan"});
  EXPECT_EQ(plan["daemon"]["runs"], true);
  EXPECT_EQ(plan["registered"], true);
  EXPECT_EQ(plan["policy"], "alpha");
  EXPECT_EQ(plan["service_id"], "svc-plan");
  EXPECT_EQ(plan["bound"]["disk_mbps"], 5.0);
}

TEST_F(VerbsTest, NodeAndListKnowATemplate) {
  if (!HasVerb("node")) GTEST_SKIP() << "the core alone";
  environment_.push_back("PPC_TEMPLATE_DIR=" + dir_ + "/templates");
  Start();
  ASSERT_EQ(Ctl({"reg_policy", "--backend", "poll", model_, "alpha"}).exit_status, 0);
  const auto has_template = [this] { return Told({"node"})["models"][0]["template"]; };
  EXPECT_EQ(has_template(), false);
  maio::Template t;
  t.service_id = "svc-node";
  t.flags = maio::kComplete | maio::kTraced;
  t.files.push_back({.path = "a.safetensors", .size = kModelBytes, .mtime_ns = 1});
  for (const uint32_t id : {maio::kCommonGroup, 0U, 1U}) {
    t.groups.push_back({.id = id});
    t.groups.back().extents.push_back({0, 0, kModelBytes / 4096});
  }
  std::string error;
  fs::create_directories(dir_ + "/templates");
  ASSERT_EQ(maio::Store(dir_ + "/templates", t, &error), 0) << error;
  EXPECT_EQ(has_template(), true);
  EXPECT_TRUE(Has(Ctl({"template", "list"}).out, "1 files  2 workers"));
}

// What a policy says that has loaded all, of a service whose reader has half of it behind it.
Json Following(const std::string& id) {
  return {{"services",
           {{{"service_id", id},
             {"mode", "use"},
             {"template_bytes", 1000},
             {"loaded", 900},
             {"redundant", 100},
             {"groups", {{{"consumed", 1000}, {"total", 2000}, {"ahead", 300}}}}}}}};
}

TEST_F(VerbsTest, TopTellsOfEachServiceOnALine) {
  Start({{"reply", Following("svc-top")}});
  StartService("svc-top");
  const Json line = Told({"top", "--interval", "0.05", "--count", "1"});
  EXPECT_EQ(line["services"][0]["service_id"], "svc-top");
  EXPECT_EQ(line["services"][0]["mode"], "use");
  EXPECT_DOUBLE_EQ(line["services"][0]["progress"], 0.5);
  EXPECT_EQ(line["services"][0]["left_s"], 0.0);
  EXPECT_EQ(line["services"][0]["slack_bytes"], 300.0);
  EXPECT_EQ(line["services"][0]["slack_s"], nullptr) << "nobody reads";
  const ProcessResult text = Ctl({"top", "--interval", "0.05", "--count", "2"});
  EXPECT_EQ(text.exit_status, 0) << text.err;
  EXPECT_EQ(text.out.find('\033'), std::string::npos) << "no terminal";
  EXPECT_TRUE(Has(text.out, "svc-top  started  use"));
  EXPECT_TRUE(Has(text.out, "SLACK"));
  EXPECT_TRUE(Has(text.out, "  300 B  "));
  EXPECT_EQ(Ctl({"top", "--interval", "never"}).exit_status, 2);
}

TEST_F(VerbsTest, StatusSaysWhatIsDoneForAService) {
  Json reply = Following("svc-status");
  reply["services"][0]["processes"] = 3;
  Start({{"reply", reply}});
  StartService("svc-status");
  EXPECT_EQ(Told({"status"})["mounts"][0]["services"][0]["mode"], "use");
  const ProcessResult text = Ctl({"status"});
  EXPECT_TRUE(Has(text.out, "svc-status  started  following what was recorded  processes 3"));
}

TEST_F(VerbsTest, ARegistrationSaysWhichOthersAreAroundIt) {
  Start();
  const std::string inner = model_ + "/inner";
  fs::create_directories(inner);
  const auto said = [this](const std::string& directory) {
    const ProcessResult result = Ctl({"reg_policy", "--backend", "poll", directory, "alpha"});
    return result.out + result.err;
  };
  EXPECT_FALSE(Has(said(model_), " in it "));
  EXPECT_TRUE(Has(said(inner), "it lies in " + model_ + ","));
  ASSERT_EQ(Ctl({"rm_policy", model_}).exit_status, 0);
  EXPECT_TRUE(Has(said(model_), inner + " in it keeps"));
}

TEST_F(VerbsTest, AReportOfAServiceThatHasEndedSaysSo) {
  if (!HasVerb("report")) GTEST_SKIP() << "the core alone";
  Start();
  ExpectFailure(Ctl({"report", "/proc", "--id", "svc-gone"}), 1,
                "no service svc-gone in /proc now");
}

TEST_F(VerbsTest, WaitEndsWithWhatItWaitsFor) {
  Start();
  ExpectFailure(Ctl({"wait", "/proc", "--id", "svc-wait", "--timeout", "0.2"}), 1,
                "svc-wait on /proc is not ready after 0.2 s: it was not started");
  StartService("svc-wait");
  const auto later = [this](const char* op) {
    return OnceOneHasAsked({{"op", op}, {"mount", "/proc"}, {"service_id", "svc-wait"}});
  };
  std::thread ready = later("service_ready");
  EXPECT_EQ(Told({"wait", "/proc", "--id", "svc-wait", "--timeout", "20"})["state"], "ready");
  ready.join();
  std::thread stop = later("service_stop");
  EXPECT_EQ(Told({"wait", "/proc", "--id", "svc-wait", "--for", "done"})["state"], "done");
  stop.join();
  StartService("svc-wait");
  std::thread early = later("service_stop");
  const ProcessResult ended = Ctl({"wait", "/proc", "--id", "svc-wait"});
  early.join();
  EXPECT_EQ(ended.exit_status, 1);
  EXPECT_TRUE(Has(ended.err, "ended before"));
  EXPECT_EQ(Ctl({"wait", "/proc", "--id", "svc-wait", "--for", "ever"}).exit_status, 2);
  EXPECT_EQ(Ctl({"wait", "/proc"}).exit_status, 2);
}

TEST_F(VerbsTest, IsActiveIsAnExitStatus) {
  EXPECT_EQ(Ctl({"is-active", "/proc"}).exit_status, 3);
  Start();
  EXPECT_EQ(Ctl({"is-active", "/proc"}).out, "running\n");
  EXPECT_EQ(Ctl({"is-active", "/proc"}).exit_status, 0);
  EXPECT_EQ(Ctl({"is-active", "/sys"}).exit_status, 1);
  EXPECT_EQ(Ctl({"is-active", model_}).out, "none\n");
  EXPECT_EQ(Ctl({"is-active", "/proc", "--id", "svc-active"}).exit_status, 1);
  StartService("svc-active");
  const Json told = Told({"is-active", "/proc", "--id", "svc-active"});
  EXPECT_EQ(told["state"], "started");
  EXPECT_EQ(told["service_id"], "svc-active");
}

TEST_F(VerbsTest, BindPidTellsThePolicy) {
  Start();
  Out({"bind-pid", "42", "/proc", "--id", "svc-bind", "--worker", "3"});
  EXPECT_TRUE(WasTold(R"("op":"bind_pid","pid":42,"service_id":"svc-bind","worker":3)"));
  EXPECT_EQ(Ctl({"bind-pid", "42", "/proc", "--id", "svc-bind"}).exit_status, 2);
  EXPECT_EQ(Ctl({"bind-pid", "x", "/proc", "--id", "svc-bind", "--worker", "3"}).exit_status, 2);
}

TEST_F(VerbsTest, LogsComeFromTheJournalElseFromTheDaemon) {
  const std::string tool = dir_ + "/journalctl";
  environment_.push_back("PATH=" + dir_);
  Start();
  ASSERT_EQ(Ctl({"reg_policy", "/sys", "beta"}).exit_status, 0);
  ASSERT_EQ(Ctl({"rm_policy", "/sys"}).exit_status, 0);
  const Json sys = Told({"logs", "/sys"});
  EXPECT_EQ(sys["source"], "ppcd");
  EXPECT_FALSE(sys["lines"].empty()) << DaemonLog();
  for (const Json& line : sys["lines"]) {
    EXPECT_TRUE(Has(line.value("text", ""), "/sys")) << line;
  }
  EXPECT_GT(Told({"logs"})["lines"].size(), sys["lines"].size());
  EXPECT_EQ(Told({"logs", "--lines", "1"})["lines"].size(), 1U);
  const ProcessResult nothing = Ctl({"logs", "/sys", "--id", "svc-none"});
  EXPECT_EQ(nothing.exit_status, 0);
  EXPECT_EQ(nothing.err, "ppcctl: nothing is logged of /sys of service svc-none\n");

  const std::string runner = std::to_string(RunnerPid());
  std::ofstream(tool) << "#!/bin/sh\n"
                         "echo '{\"MESSAGE\":\"ppcd: /proc: from the journal\",\"PRIORITY\":\"6\","
                         "\"__REALTIME_TIMESTAMP\":\"1000000\"}'\n"
                         "echo '{\"MESSAGE\":\"of the runner\",\"_PID\":\""
                      << runner
                      << "\"}'\n"
                         "echo '{\"MESSAGE\":\"of another\",\"_PID\":\"1\"}'\n";
  fs::permissions(tool, fs::perms::owner_all);
  const Json journal = Told({"logs", "/proc"});
  EXPECT_EQ(journal["source"], "journal");
  ASSERT_EQ(journal["lines"].size(), 2U) << journal;
  EXPECT_EQ(journal["lines"][1]["text"], "of the runner");
}

TEST_F(VerbsTest, DoctorSaysThatNothingIsRegistered) {
  if (!HasVerb("doctor")) GTEST_SKIP() << "the core alone";
  StartDaemon();
  const std::string said = Ctl({"doctor"}).out;
  EXPECT_TRUE(Has(said, "no registered directory is known here"));
}

TEST_F(VerbsTest, EventsTellWhatChanges) {
  Start();
  EXPECT_TRUE(Has(Out({"events"}), "/proc  registered: alpha"));
  std::thread later =
      OnceOneHasAsked({{"op", "service_start"}, {"mount", "/proc"}, {"service_id", "svc-event"}});
  const ProcessResult followed =
      Ctl({"events", "/proc", "--follow", "--interval", "0.1", "--count", "20", "--json"});
  later.join();
  EXPECT_EQ(followed.exit_status, 0) << followed.err;
  EXPECT_TRUE(Has(followed.out, R"("event":"started")"));
  EXPECT_TRUE(Has(followed.out, R"("service_id":"svc-event")"));
}

TEST_F(VerbsTest, WarmReadsWithinItsLimitAndDropLetsGo) {
  ExpectFailure(Ctl({"warm", model_, "--limit", "4M"}), 1);
  EXPECT_EQ(Told({"warm", model_, "--limit", "4M"}, 1)["read"], 4 << 20);
  const Json all = Told({"warm", file_, "--limit", "64M"});
  EXPECT_EQ(all["read"], kModelBytes);
  EXPECT_EQ(all["is_cut"], false);
  EXPECT_EQ(Told({"residency", model_})["resident"], all["resident"]);
  const Json dropped = Told({"drop", model_});
  EXPECT_EQ(Told({"residency", model_})["resident"], dropped["stayed"]);
  struct statfs info {};
  ASSERT_EQ(statfs(model_.c_str(), &info), 0);
  if (info.f_type != kTmpfs) {
    EXPECT_EQ(all["resident"], kModelBytes);
    EXPECT_EQ(dropped["stayed"], 0);
    EXPECT_EQ(dropped["dropped"], kModelBytes);
  }
  EXPECT_EQ(Ctl({"warm", model_, "--limit", "much"}).exit_status, 2);
  EXPECT_EQ(Ctl({"warm"}).exit_status, 2);
  EXPECT_EQ(Ctl({"drop", dir_ + "/none"}).exit_status, 1);
}

TEST_F(VerbsTest, XpusNeedNoDaemon) {
  EXPECT_TRUE(Told({"xpus"})["xpus"].empty());
  const std::string device = dir_ + "/sysroot/sys/bus/pci/devices/0000:3b:00.0";
  fs::create_directories(device);
  std::ofstream(device + "/class") << "0x030200\n";
  std::ofstream(device + "/vendor") << "0x10de\n";
  std::ofstream(device + "/numa_node") << "0\n";
  const Json xpus = Told({"xpus"})["xpus"];
  ASSERT_EQ(xpus.size(), 1U);
  EXPECT_EQ(xpus[0]["bdf"], "0000:3b:00.0");
  EXPECT_EQ(xpus[0]["vendor"], "0x10de");
  EXPECT_EQ(xpus[0]["node"], 0);
  EXPECT_TRUE(Has(Ctl({"xpus"}).out, "0    0000:3b:00.0"));
}

}  // namespace
}  // namespace ppc::control
