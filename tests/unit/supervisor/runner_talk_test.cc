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
    Result<std::unique_ptr<RunnerProcess>> process =
        RunnerProcess::Spawn(*loop_, program, "", {}, {.on_event = nullptr, .on_exit = [](int) {}});
    ASSERT_TRUE(process) << process.error().message;
    talk_ = std::make_unique<RunnerTalk>(*std::move(process), reads_.Enter(), options_, "/models");
  }

  RunnerTalk::JsonHandler Keep(Result<Json>* answer) {
    return [this, answer](Result<Json> got) {
      *answer = std::move(got);
      loop_->Quit();
    };
  }

  std::string Asked() const {
    std::ifstream file(dir_.Path("/asked"));
    return {std::istreambuf_iterator<char>(file), {}};
  }

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
  Result<Json> answer = Json();
  talk_->Control({{"op", "service_start"}}, Keep(&answer));
  loop_->Run();
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(*answer, Json({{"mode", "use"}}));
  EXPECT_NE(Asked().find(R"("message":{"op":"service_start"})"), std::string::npos) << Asked();
}

TEST_F(RunnerTalkTest, ARefusalOfThePolicyIsAnError) {
  Start({R"({"ok":true,"reply":{"error":"no such service"}})"});
  Result<Json> answer = Json();
  talk_->Control({{"op", "service_stop"}}, Keep(&answer));
  loop_->Run();
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
  Result<Json> answer = Json();
  talk_->Control({{"op", "service_stop"}}, Keep(&answer));
  loop_->Run();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ETIMEDOUT);
  EXPECT_NE(answer.error().message.find("the runner of /models (pid "), std::string::npos);
  EXPECT_NE(answer.error().message.find("kill -CONT it"), std::string::npos);
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
  EXPECT_NE(talk_->WhyMute(true).find("is stopped by a signal; its lease has run out"),
            std::string::npos);
}

TEST_F(RunnerTalkTest, OneThatIsMuteForTooLongIsNoticed) {
  options_.silence_limit = Millis(50);
  options_.watch_period = Millis(100);
  Start({});
  loop_->After(Millis(200), [this] { loop_->Quit(); });
  loop_->Run();
  EXPECT_FALSE(talk_->Watch());
  EXPECT_NE(talk_->WhyMute(false).find("does not answer; the native policy is in force once"),
            std::string::npos);
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
  EXPECT_NE(Asked().find(R"("share":4096)"), std::string::npos) << Asked();
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

}  // namespace
}  // namespace ppc::control
