// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/runner_talk.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <vector>

#include "daemon/base/clock.h"
#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc::control {
namespace {

// A runner that gives these answers, one to each line it is sent, and then is mute.
class RunnerTalkTest : public ::testing::Test {
 protected:
  void Start(const std::vector<std::string>& answers) {
    const std::string program = dir_.Path("/runner");
    std::string script = "#!/bin/sh\n";
    for (const std::string& answer : answers)
      script += "read -r line <&3; echo \"$line\" >>" + dir_.Path("/asked") + "; echo '" + answer +
                "' >&3\n";
    dir_.Write("/runner", script + "while read -r line <&3; do :; done\n");
    ASSERT_EQ(chmod(program.c_str(), 0700), 0);
    loop_ = *EventLoop::Create();
    std::unique_ptr<RunnerProcess> process = Value(RunnerProcess::Spawn(
        *loop_, program, "", {}, {.on_event = nullptr, .on_exit = [](int) {}}));
    talk_ = std::make_unique<RunnerTalk>(std::move(process), reads_.Enter(), options_, "/models");
  }

  // The answer to a control message.
  Result<Json> Ask(const char* op) {
    Result<Json> answer = Json();
    talk_->Control({{"op", op}}, [&](Result<Json> got) {
      answer = std::move(got);
      loop_->Quit();
    });
    loop_->Run();
    return answer;
  }

  std::string Asked() const { return dir_.Read("/asked"); }

  const TempTree dir_;
  Options options_{.start_timeout = Millis(20000),
                   .control_timeout = Millis(20000),
                   .status_timeout = Millis(20000),
                   .silence_limit = Millis(30000)};
  std::unique_ptr<EventLoop> loop_;
  ReadBroker reads_;
  std::unique_ptr<RunnerTalk> talk_;
};

TEST_F(RunnerTalkTest, OfAControlMessageThePolicysObjectIsTheAnswer) {
  Start({R"({"ok":true,"reply":{"mode":"use","v":1,"ok":true}})"});
  EXPECT_EQ(Value(Ask("service_start")), Json({{"mode", "use"}}));
  EXPECT_TRUE(Has(Asked(), R"("message":{"op":"service_start"})"));
}

TEST_F(RunnerTalkTest, ARefusalOfThePolicyIsAnError) {
  Start({R"({"ok":true,"reply":{"error":"no such service"}})"});
  const Result<Json> answer = Ask("service_stop");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, EINVAL);
  EXPECT_EQ(answer.error().message, "no such service");
}

TEST_F(RunnerTalkTest, OneThatIsStoppedIsNamedWithItsRemedy) {
  options_.control_timeout = Millis(300);
  Start({});
  ASSERT_EQ(kill(talk_->pid(), SIGSTOP), 0);
  for (int i = 0; i < 1000 && !talk_->IsStopped(); ++i) usleep(1000);
  ASSERT_TRUE(talk_->IsStopped());
  const Result<Json> answer = Ask("service_stop");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ETIMEDOUT);
  EXPECT_TRUE(Has(answer.error().message, "the runner of /models (pid "));
  EXPECT_TRUE(Has(answer.error().message, "kill -CONT it"));
  // Nor is it asked for what would be old when it answers.
  Json lines;
  talk_->AskForLog([&](Json got) { lines = std::move(got); });
  EXPECT_EQ(lines, Json::array());
  bool has_answered = false;
  talk_->AskForMemory(1 << 20, [&](const std::optional<MemoryReport>& report) {
    has_answered = true;
    EXPECT_FALSE(report);
  });
  EXPECT_TRUE(has_answered);
  EXPECT_TRUE(talk_->Watch());
  EXPECT_TRUE(Has(talk_->WhyMute(true), "is stopped by a signal; its lease has run out"));
}

TEST_F(RunnerTalkTest, OneThatIsMuteForTooLongIsNoticed) {
  options_.silence_limit = Millis(50);
  options_.watch_period = Millis(100);
  Start({R"({"ok":true})"});
  loop_->After(Millis(200), [this] {
    talk_->AskForStatus([this](const Result<Json>& status) {
      EXPECT_TRUE(status);
      loop_->Quit();
    });
  });
  loop_->Run();
  EXPECT_FALSE(talk_->Watch()) << "a status says nothing of the thread that runs the policy";
  EXPECT_TRUE(Has(talk_->WhyMute(false), "does not answer; the native policy is in force once"));
}

TEST_F(RunnerTalkTest, MemoryIsToldAndHeard) {
  Start({R"({"ok":true,"budget":1000,"keeps":200,"wants":300,"reads":[]})",
         R"({"ok":true,"budget":"much"})"});
  std::vector<std::optional<MemoryReport>> reports;
  const auto keep = [&](const std::optional<MemoryReport>& report) {
    reports.push_back(report);
    if (reports.size() == 2) loop_->Quit();
  };
  talk_->AskForMemory(4096, keep);
  talk_->AskForMemory(std::nullopt, keep);
  loop_->Run();
  ASSERT_TRUE(reports[0]);
  EXPECT_EQ(reports[0]->budget, 1000u);
  EXPECT_EQ(reports[0]->keeps, 200u);
  EXPECT_EQ(reports[0]->wants, 300u);
  EXPECT_FALSE(reports[1]);  // that is no answer
  EXPECT_TRUE(Has(Asked(), R"("share":4096)"));
}

TEST_F(RunnerTalkTest, LogLinesNameTheDirectory) {
  Start({R"({"ok":true,"lines":[{"text":"loaded","level":"info"},{"text":7},4]})"});
  Json lines;
  talk_->AskForLog([&](Json got) {
    lines = std::move(got);
    loop_->Quit();
  });
  loop_->Run();
  ASSERT_EQ(lines.size(), 1u) << lines.dump();
  EXPECT_EQ(lines[0]["text"], "/models: loaded");
  EXPECT_EQ(lines[0]["directory"], "/models");
}

TEST_F(RunnerTalkTest, AnAnswerMayComeWhenTheTalkIsOver) {
  Start({});
  bool has_answered = false;
  talk_->AskForStatus([&](Result<Json> answer) {
    has_answered = true;
    EXPECT_FALSE(answer);
  });
  talk_.reset();
  loop_->After(Millis(100), [this] { loop_->Quit(); });
  loop_->Run();
  EXPECT_FALSE(has_answered);
}

constexpr uint64_t kHourNs = 3600 * kNsPerSec;

TEST(RestartBackoff, PausesDoubleUntilTooManyHaveDiedSoon) {
  const Options options{.first_back_off = Millis(200), .max_quick_deaths = 4};
  RestartBackoff backoff(options);
  backoff.Running(0);
  EXPECT_EQ(backoff.Died(kNsPerSec, true), Millis(200));
  EXPECT_EQ(backoff.Died(kNsPerSec, false), Millis(400));
  EXPECT_EQ(backoff.Died(kNsPerSec, false), Millis(800));
  EXPECT_EQ(backoff.Died(kNsPerSec, false), std::nullopt);
  EXPECT_EQ(backoff.DeathsInARow(), 4);
  EXPECT_EQ(backoff.Restarts(), 3u);
}

TEST(RestartBackoff, WhoRanForLongHasDiedForTheFirstTime) {
  const Options options{.first_back_off = Millis(200), .quick_death = Millis(10000)};
  RestartBackoff backoff(options);
  backoff.Running(0);
  EXPECT_EQ(backoff.Died(kNsPerSec, true), Millis(200));
  backoff.Running(2 * kNsPerSec);
  EXPECT_EQ(backoff.Died(13 * kNsPerSec, true), Millis(200));
  EXPECT_EQ(backoff.DeathsInARow(), 0);
}

TEST(RestartBackoff, AFailedPolicyIsTriedAgainLaterEachTimeButWithinTheHour) {
  const Options options{.first_retry = Millis(60000), .max_quick_deaths = 1};
  RestartBackoff backoff(options);
  // It was there before ppcd came, and has not run since, however long the machine has.
  EXPECT_EQ(backoff.Failed(5 * kHourNs), Millis(60000));
  EXPECT_EQ(backoff.Failed(7 * kHourNs), Millis(120000));
  for (int i = 0; i < 10; ++i) backoff.Failed(8 * kHourNs);
  EXPECT_EQ(backoff.Failed(9 * kHourNs), Millis(3600000));
  backoff.TryAgain();
  backoff.Running(10 * kHourNs);
  EXPECT_EQ(backoff.Failed(10 * kHourNs + kNsPerSec), Millis(3600000));
  backoff.Running(11 * kHourNs);
  EXPECT_EQ(backoff.Failed(13 * kHourNs), Millis(60000));
}

}  // namespace
}  // namespace ppc::control
