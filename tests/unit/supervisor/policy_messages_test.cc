// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/policy_messages.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/clock.h"

namespace ppc::control {
namespace {

// A runner that keeps what it is asked until the test answers.
class PolicyMessagesTest : public testing::Test {
 protected:
  PolicyMessages::Control Runner() {
    return [this](const Json& message, PolicyMessages::JsonHandler done) {
      asked_.push_back(message.value("op", "") + " " + message.value("service_id", ""));
      handlers_.push_back(std::move(done));
    };
  }
  void Answer(size_t question, Result<Json> answer) { handlers_.at(question)(std::move(answer)); }
  void Send(const std::string& op, const std::string& id = "") {
    messages_->Send({{"op", op}, {"service_id", id}}, [this](const Result<Json>& answer) {
      told_.push_back(answer ? "ok" : answer.error().message);
    });
  }
  Service& Add(const std::string& id) {
    Service service;
    service.id = id;
    service.number = next_number_++;
    service.message = {{"op", "service_start"}, {"service_id", id}};
    service.is_pending = false;
    services_.Put(std::move(service));
    return *services_.Find(id);
  }
  void Pass(Millis time) {
    now_ns_ += static_cast<uint64_t>(time.count()) * kNsPerMs;
    (void)loop_->RunTimers();
  }

  using Lines = std::vector<std::string>;
  uint64_t now_ns_ = kNsPerSec;
  uint32_t next_number_ = 0;
  std::unique_ptr<EventLoop> loop_ = EventLoop::Create([this] { return now_ns_; }).value();
  Services services_;
  int changes_ = 0;
  Lines failed_;
  Lines asked_;
  Lines told_;
  std::vector<PolicyMessages::JsonHandler> handlers_;
  std::unique_ptr<PolicyMessages> messages_ = std::make_unique<PolicyMessages>(
      *loop_, services_,
      PolicyMessages::Callbacks{[this] { ++changes_; },
                                [this](const std::string& why) { failed_.push_back(why); }});
};

TEST_F(PolicyMessagesTest, WithoutARunnerTheyWaitForOne) {
  Send("first");
  Send("second");
  EXPECT_EQ(told_, Lines{});
  messages_->Open(Runner(), /*is_restart=*/false);
  EXPECT_EQ(asked_, (Lines{"first ", "second "}));
  Answer(1, Json::object());
  Answer(0, Error{EIO, "broken"});
  EXPECT_EQ(told_, (Lines{"ok", "broken"}));
}

TEST_F(PolicyMessagesTest, WhoWaitsGoesOnWaitingWhereNewcomersAreRefused) {
  Send("waits");
  messages_->Close(Error{ENOTCONN, "is being removed"});
  Send("comes");
  EXPECT_EQ(told_, Lines{"is being removed"});
  messages_->RefuseWaiting(Error{ENOTCONN, "does not run"});
  EXPECT_EQ(told_, (Lines{"is being removed", "does not run"}));
  messages_->Hold();
  Send("later");
  messages_->Open(Runner(), /*is_restart=*/false);
  EXPECT_EQ(asked_, Lines{"later "});
}

TEST_F(PolicyMessagesTest, AFreshRunnerIsToldOfServicesOneAfterTheOther) {
  Add("a").is_starting = true;
  Add("b").is_ready = true;
  Send("status");
  messages_->Open(Runner(), /*is_restart=*/true);
  EXPECT_EQ(asked_, (Lines{"service_start a", "status "}));
  Answer(0, Json{{"service", 1}});
  EXPECT_EQ(asked_.back(), "service_start b");
  EXPECT_FALSE(services_.Find("a")->is_starting);
  Answer(2, Json{{"service", 2}});
  EXPECT_EQ(asked_.back(), "service_ready b");
  EXPECT_EQ(failed_, Lines{});
}

TEST_F(PolicyMessagesTest, WhatIsAboutAServiceWaitsUntilTheRunnerKnowsIt) {
  Add("a");
  Add("b");
  Send("service_ready", "b");
  messages_->Open(Runner(), /*is_restart=*/true);
  Send("service_start", "b");  // another one of its name
  Send("service_ready", "a");
  EXPECT_EQ(asked_, Lines{"service_start a"});
  Answer(0, Json::object());
  EXPECT_EQ(asked_, (Lines{"service_start a", "service_start b", "service_ready a"}));
  Answer(1, Json::object());
  EXPECT_EQ(asked_.size(), 5u);
  EXPECT_EQ(asked_[3], "service_ready b");
  EXPECT_EQ(asked_[4], "service_start b");
  EXPECT_EQ(told_, Lines{});
}

TEST_F(PolicyMessagesTest, ABurstIsSentAsItIsAnswered) {
  messages_->Open(Runner(), /*is_restart=*/false);
  for (size_t i = 0; i < 200; ++i) Send(std::to_string(i));
  EXPECT_EQ(asked_.size(), PolicyMessages::kMostUnanswered);
  for (size_t i = 0; i < 200; ++i) Answer(i, Json::object());
  EXPECT_EQ(told_, Lines(200, "ok"));
  EXPECT_EQ(asked_.back(), "199 ");
}

TEST_F(PolicyMessagesTest, TooManyAreRefused) {
  for (size_t i = 0; i <= PolicyMessages::kMostWaiting; ++i) Send("x");
  EXPECT_EQ(told_.size(), 1u);
}

TEST_F(PolicyMessagesTest, OneThatWasNeverTakenUpIsForgottenAndTheOthersAreTold) {
  Add("a").is_starting = true;
  Add("b");
  messages_->Open(Runner(), /*is_restart=*/true);
  Answer(0, Error{EIO, "no"});
  EXPECT_EQ(services_.Find("a"), nullptr);
  EXPECT_EQ(changes_, 1);
  EXPECT_EQ(failed_, Lines{"service a was not taken up again: no"});
  EXPECT_EQ(asked_.back(), "service_start b");
}

TEST_F(PolicyMessagesTest, TheNextRunnerIsNotToldByAnswersToTheLast) {
  Add("a");
  Add("b");
  messages_->Open(Runner(), /*is_restart=*/true);
  messages_->Hold();
  messages_->Open(Runner(), /*is_restart=*/true);
  EXPECT_EQ(asked_, (Lines{"service_start a", "service_start a"}));
  Answer(0, Error{EPIPE, "gone"});
  EXPECT_EQ(asked_.size(), 2u);
}

TEST_F(PolicyMessagesTest, AStopThatFoundNoPlaceIsRepeatedForThatRunnerAlone) {
  messages_->Open(Runner(), /*is_restart=*/false);
  Send("service_stop", "a");
  Answer(0, Error{EAGAIN, "too much"});
  Pass(Millis(700));
  EXPECT_EQ(asked_, (Lines{"service_stop a", "service_stop a"}));
  Send("service_stop", "b");
  Answer(2, Error{EAGAIN, "too much"});
  messages_->Hold();
  messages_->Open(Runner(), /*is_restart=*/false);
  Pass(Millis(700));
  EXPECT_EQ(asked_.size(), 3u);
}

TEST_F(PolicyMessagesTest, AnswersMayOutliveIt) {
  Add("a");
  messages_->Open(Runner(), /*is_restart=*/true);
  Send("service_stop", "b");
  messages_.reset();
  Answer(0, Json::object());
  Answer(1, Error{EAGAIN, "too much"});
  EXPECT_EQ(told_, Lines{"too much"});
  Pass(Millis(600));
}

}  // namespace
}  // namespace ppc::control
