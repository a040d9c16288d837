// SPDX-License-Identifier: Apache-2.0
// Several runners below one limit: the broker's arithmetic, and with the buckets that runners load
// by.
#include "daemon/supervisor/read_broker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "daemon/cache/read_rate.h"

namespace ppc::control {
namespace {

constexpr uint64_t kLimit = 160'000'000;
constexpr ReadLimitId kId{7, 8, 0};

ReadReport Busy(uint64_t used = kLimit) { return {kId, kLimit, used, true}; }
ReadReport Idle(uint64_t used = 0) { return {kId, kLimit, used, false}; }
uint64_t RateOf(const ReadShares& shares) {
  return shares.listed.empty() ? ReadBroker::UnlistedRate(kLimit, shares.runners)
                               : shares.listed.front().rate;
}

class ReadBrokerTest : public testing::Test {
 protected:
  // Each is asked and answers.
  std::vector<uint64_t> Round(const std::vector<ReadReport>& reports) {
    std::vector<uint64_t> rates;
    for (size_t i = 0; i < reports.size(); ++i) {
      rates.push_back(RateOf(clients_[i]->TakeShares()));
      clients_[i]->TakeReports({reports[i]});
    }
    return rates;
  }
  void Enter(int count) {
    for (int i = 0; i < count; ++i) clients_.push_back(broker_.Enter());
  }
  ReadBroker broker_;
  std::vector<std::unique_ptr<ReadBroker::Client>> clients_;
};

TEST_F(ReadBrokerTest, OneAloneHasAllOfIt) {
  Enter(1);
  clients_[0]->TakeReports({Busy()});
  const ReadShares shares = clients_[0]->TakeShares();
  EXPECT_EQ(shares.runners, 1u);
  EXPECT_TRUE(shares.listed.empty());
}

TEST_F(ReadBrokerTest, TwoThatWantAllHaveHalfEach) {
  Enter(2);
  for (int i = 0; i < 4; ++i) Round({Busy(), Busy()});
  EXPECT_EQ(Round({Busy(), Busy()}), (std::vector<uint64_t>{kLimit / 2, kLimit / 2}));
}

TEST_F(ReadBrokerTest, WhatOneDoesNotUseTheOtherHas) {
  Enter(2);
  for (int i = 0; i < 4; ++i) Round({Busy(), Idle()});
  EXPECT_EQ(Round({Busy(), Idle()}), (std::vector<uint64_t>{kLimit - kLimit / 16, kLimit / 16}));
  for (int i = 0; i < 4; ++i) Round({Busy(), Idle(40'000'000)});
  EXPECT_EQ(Round({Busy(), Idle(40'000'000)})[1], 50'000'000u);
  // It needs it again.
  for (int i = 0; i < 4; ++i) Round({Busy(), Busy()});
  EXPECT_EQ(Round({Busy(), Busy()})[1], kLimit / 2);
}

TEST_F(ReadBrokerTest, OneThatBelongsToAnotherLimitLeavesAllButItsBeginning) {
  Enter(2);
  for (int i = 0; i < 3; ++i) {
    (void)clients_[0]->TakeShares();
    clients_[0]->TakeReports({Busy()});
    (void)clients_[1]->TakeShares();
    clients_[1]->TakeReports({{{9, 8, 0}, 1000, 1000, true}});
  }
  EXPECT_EQ(RateOf(clients_[0]->TakeShares()), kLimit - ReadBroker::UnlistedRate(kLimit, 2));
}

TEST_F(ReadBrokerTest, AShareGrowsOnlyIntoWhatHasBeenGivenBack) {
  Enter(1);
  clients_[0]->TakeReports({Busy()});
  Enter(1);  // the first goes by all of the limit until it has answered
  clients_[1]->TakeReports({Busy()});
  EXPECT_LE(RateOf(clients_[1]->TakeShares()), ReadBroker::UnlistedRate(kLimit, 2));
  clients_[1]->TakeReports({Busy()});
  (void)clients_[0]->TakeShares();
  EXPECT_LE(RateOf(clients_[1]->TakeShares()), ReadBroker::UnlistedRate(kLimit, 2));
  clients_[1]->TakeReports({Busy()});
  clients_[0]->TakeReports({Busy()});
  EXPECT_EQ(RateOf(clients_[1]->TakeShares()), kLimit / 2);
}

TEST_F(ReadBrokerTest, WhoEndsOrIsStoppedLeavesItsShare) {
  Enter(3);
  for (int i = 0; i < 4; ++i) Round({Busy(), Busy(), Busy()});
  clients_.pop_back();
  for (int i = 0; i < 2; ++i) Round({Busy(), Busy()});
  EXPECT_EQ(Round({Busy(), Busy()})[0], kLimit / 2);
  clients_[1]->Stopped();
  EXPECT_EQ(RateOf(clients_[0]->TakeShares()), kLimit);
}

TEST_F(ReadBrokerTest, ReportsOfNonsenseAreRefused) {
  EXPECT_FALSE(ReadReportsOf(Json{{"keeps", 1}}).has_value());
  EXPECT_FALSE(ReadReportsOf(Json{{"reads", {{{"cgroup", -1}}}}}).has_value());
  EXPECT_FALSE(ReadReportsOf(Json{{"reads", 3}}).has_value());
  EXPECT_EQ(ReadReportsOf(Json{{"reads", Json::array()}})->size(), 0u);
}

// A runner as far as its loads go.
struct Loads {
  TokenBuckets buckets;
  std::shared_ptr<TokenBucket> bucket = buckets.Get({kId.cgroup, kLimit, {kId.major, kId.minor}});
  uint64_t wants_per_s = kLimit;
  uint64_t owed = 0;
  uint64_t loaded = 0;

  void Go(uint64_t now_ns, uint64_t ns) {
    owed += wants_per_s / 1000 * (ns / 1'000'000);
    const uint64_t available = bucket->Available(now_ns);
    if (available < owed) bucket->Lack();
    const uint64_t part = std::min(available, owed);
    bucket->Take(now_ns, part);
    loaded += part;
    owed = std::min(owed - part, wants_per_s / 10);
  }
  void Answer(uint64_t now_ns, ReadBroker::Client* client) {
    const ReadShares told = client->TakeShares();
    RateShares shares;
    shares.runners = told.runners;
    for (const ReadShare& one : told.listed)
      shares.rates[{one.id.cgroup, {one.id.major, one.id.minor}}] = one.rate;
    buckets.SetShares(shares);
    std::vector<ReadReport> reports;
    for (const RateUse& use : buckets.TakeUses(now_ns))
      reports.push_back(
          {{use.cgroup, use.device.major, use.device.minor}, use.limit, use.used, use.is_short});
    client->TakeReports(reports);
  }
};

// In the tenth of a second that a bucket holds, and no more, they may be beyond the limit.
TEST_F(ReadBrokerTest, RunnersTogetherKeepToTheLimitAndUseAllOfIt) {
  constexpr uint64_t kStepNs = 10'000'000;
  constexpr uint64_t kSecond = 1'000'000'000;
  Enter(2);
  std::deque<Loads> runners(2);
  uint64_t now = kSecond;
  uint64_t begun[2] = {};
  const auto run = [&](int seconds, uint64_t first_wants, uint64_t second_wants) {
    runners[0].wants_per_s = first_wants;
    runners[1].wants_per_s = second_wants;
    const uint64_t end = now + static_cast<uint64_t>(seconds) * kSecond;
    for (int i = 0; i < 2; ++i) begun[i] = runners[static_cast<size_t>(i)].loaded;
    for (uint64_t next_round = now; now < end; now += kStepNs) {
      for (size_t i = 0; now >= next_round && i < 2; ++i) runners[i].Answer(now, clients_[i].get());
      if (now >= next_round) next_round += kSecond / 5;
      for (Loads& one : runners) one.Go(now, kStepNs);
    }
  };
  const auto rate = [&](size_t i, int seconds) {
    return static_cast<double>(runners[i].loaded - begun[i]) / seconds / kLimit;
  };
  for (size_t i = 0; i < 2; ++i) runners[i].Answer(now, clients_[i].get());
  run(2, kLimit, kLimit);
  run(10, kLimit, kLimit);
  EXPECT_NEAR(rate(0, 10), 0.5, 0.05);
  EXPECT_NEAR(rate(1, 10), 0.5, 0.05);
  EXPECT_LE(rate(0, 10) + rate(1, 10), 1.02);
  run(2, kLimit, kLimit / 10);
  run(10, kLimit, kLimit / 10);
  EXPECT_NEAR(rate(1, 10), 0.1, 0.02);
  EXPECT_GE(rate(0, 10), 0.8);
  EXPECT_LE(rate(0, 10) + rate(1, 10), 1.02);
  run(2, 0, kLimit);
  run(10, 0, kLimit);
  EXPECT_GE(rate(1, 10), 0.9);
}

}  // namespace
}  // namespace ppc::control
