// SPDX-License-Identifier: Apache-2.0
// The verbs that look at services, once or until something has happened.
#include <unistd.h>

#include <thread>

#include "tests/unit/supervisor/verbs_fixture.h"

namespace ppc::control {
namespace {

class WatchTest : public VerbsTest {
 protected:
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
};

const Json kExplained = {
    {"pid", 42},
    {"service_id", "abcd"},
    {"worker", 1},
    {"xpu", 3},
    {"node", 1},
    {"bdf", "0000:3b:00.0"},
    {"source", "RANK"},
    {"decided", true},
    {"providers",
     {{{"provider", "RANK"},
       {"says", "RANK=1"},
       {"wins", true},
       {"worker", 1},
       {"xpu", 3},
       {"node", 1}},
      {{"provider", "device"}, {"says", "several accelerators are open"}, {"wins", false}}}}};

TEST_F(WatchTest, ExplainPidShowsEveryProviderAndTheWinner) {
  Start({{"reply", kExplained}});
  const std::string pid = std::to_string(getpid());
  const ProcessResult shown = Ctl({"explain-pid", pid});
  EXPECT_EQ(shown.exit_status, 0) << shown.err;
  for (const char* part : {"worker 1", "XPU 3", "0000:3b:00.0", "node 1", "RANK=1",
                           "several accelerators are open", "* RANK"}) {
    EXPECT_TRUE(Has(shown.out, part)) << part << "\n" << shown.out;
  }
  EXPECT_TRUE(WasTold("\"op\":\"explain_pid\""));
  EXPECT_TRUE(WasTold("\"pid\":" + pid));
  const ProcessResult json = Ctl({"explain-pid", pid, "/proc", "--json"});
  EXPECT_EQ(Json::parse(json.out)["mounts"][0]["source"], "RANK");
  ExpectFailure(Ctl({"explain-pid", pid, "/nowhere"}), 1);
}

TEST_F(WatchTest, ExplainPidWithoutAPolicyIsAnError) {
  StartDaemon();
  ExpectFailure(Ctl({"explain-pid", "1"}), 1);
}

TEST_F(WatchTest, TopTellsOfEachServiceOnALine) {
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

TEST_F(WatchTest, WaitEndsWithWhatItWaitsFor) {
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

TEST_F(WatchTest, IsActiveIsAnExitStatus) {
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

TEST_F(WatchTest, WhatIsOffIsNotActive) {
  StartDaemon({"--template-dir", dir_ + "/templates"});
  Register();
  Out({"off"});
  ExpectRan(Ctl({"is-active", kMount}), 1, "off\n");
}

TEST_F(WatchTest, WrongUsageIs2) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"explain-pid"}, {"explain-pid", "x"}, {"explain-pid", "0"}}) {
    ExpectFailure(Ctl(words), 2);
  }
}

TEST_F(WatchTest, LogsComeFromTheJournalElseFromTheDaemon) {
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

// The same with a log of objects, by the object's service or by the text.
TEST_F(WatchTest, LogsOfAServiceAreItsOwn) {
  StartDaemon({"--log-format", "json"});
  Json one = {{"number", 1}, {"priority", 6}, {"text", "maio: recording"}, {"service", "svc-one"}};
  const Json two = {{"number", 2}, {"priority", 6}, {"text", "maio: service svc-two: following"}};
  Register({{"lines", {one, two}}});
  const auto said = [this](const char* id) { return Ctl({"logs", "--id", id}).out; };
  EXPECT_TRUE(Has(Out({"logs", kMount}), "/proc: policy 'alpha' runs"));
  EXPECT_TRUE(said("svc-one").ends_with("/proc: maio: recording\n")) << said("svc-one");
  EXPECT_TRUE(said("svc-two").ends_with("svc-two: following\n")) << said("svc-two");
  for (const char* id : {"svc-one", "svc-two"}) {
    const std::string text = said(id);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  }
}

TEST_F(WatchTest, EventsTellWhatChanges) {
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

}  // namespace
}  // namespace ppc::control
