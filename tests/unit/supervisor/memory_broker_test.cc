// SPDX-License-Identifier: Apache-2.0
// How memory is divided, and that the parts never are more than the whole.
#include "daemon/supervisor/memory_broker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>
#include <utility>

#include "tests/unit/units.h"

namespace ppc::control {
namespace {

using Shares = std::vector<uint64_t>;

Shares Divide(uint64_t total, std::vector<MemoryNeed> needs) { return FairShares(total, needs); }

TEST(FairSharesTest, SmallNeedsAreMetTheRestIsEqualAndWhatNobodyNeedsIsDealtOut) {
  EXPECT_EQ(Divide(100, {{10, 100}, {70, 100}, {80, 100}}), (Shares{10, 45, 45}));
  EXPECT_EQ(Divide(90, {{50, 90}, {50, 90}, {50, 90}}), (Shares{30, 30, 30}));
  EXPECT_EQ(Divide(100, {}), Shares{});
  EXPECT_EQ(Divide(100, {{10, 100}, {30, 100}}), (Shares{40, 60}));
  EXPECT_EQ(Divide(100, {{10, 20}, {30, 100}}), (Shares{20, 80}));
  EXPECT_EQ(Divide(100, {{10, 20}, {30, 40}}), (Shares{20, 40}));
  EXPECT_EQ(Divide(100, {{90, 20}, {90, 100}}), (Shares{20, 80})) << "no more than it could take";
}

TEST(FairSharesTest, TheSumHoldsWhateverIsSaid) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1000; ++i) {
    std::vector<MemoryNeed> needs(random() % 9);
    for (MemoryNeed& need : needs)
      need = {random() >> (random() % 64), random() >> (random() % 64)};
    const uint64_t total = random() >> (random() % 64);
    const Shares shares = FairShares(total, needs);
    uint64_t left = total;
    for (size_t k = 0; k < needs.size(); ++k) {
      ASSERT_LE(shares[k], needs[k].most);
      ASSERT_LE(shares[k], left);
      left -= shares[k];
    }
  }
}

// A runner that takes what it may.
struct Runner {
  uint64_t wants = 0;
  uint64_t keeps = 0;
  bool gives_back = true;
  uint64_t says_keeps = 0;  // 0: the truth
  uint64_t budget = 800 * kMiB;
  std::optional<uint64_t> share;  // as it has read it
  std::unique_ptr<MemoryBroker::Client> client;

  void Go() {
    const uint64_t most = share.value_or(budget);
    if (keeps > most && gives_back) keeps = most;
    keeps = std::max(keeps, std::min(wants, most));
  }
  MemoryReport Report() const { return {budget, says_keeps == 0 ? keeps : says_keeps, wants}; }
};

class MemoryBrokerTest : public testing::Test {
 protected:
  static constexpr uint64_t kBudget = 800 * kMiB;

  MemoryBrokerTest() : loop_(std::move(*EventLoop::Create())) {}

  Runner* Come(uint64_t wants) {
    runners_.emplace_back();
    Runner* runner = &runners_.back();
    runner->wants = wants;
    runner->client = broker_.Enter();
    runner->share = runner->client->FirstShare();
    runner->Go();
    runner->client->Begin([this, runner](std::optional<uint64_t> share, auto answer) {
      ++asked_;
      const auto read = [this, runner, share, answer] {
        runner->share = share;
        runner->Go();
        Check();
        answer(runner->Report());
      };
      if (late_.empty() || late_[asked_ % late_.size()] == 0) return read();
      if (late_[asked_ % late_.size()] < 0) return answer(std::nullopt);
      loop_->After(Millis(late_[asked_ % late_.size()]), read);
    });
    return runner;
  }
  void Check() {
    uint64_t sum = 0;
    for (const Runner& runner : runners_) sum += runner.keeps;
    most_ = std::max(most_, sum);
  }
  // So many questions.
  void Run(int questions = 40) {
    const int until = asked_ + questions;
    const std::function<void()> look = [&] {
      for (Runner& runner : runners_) runner.Go();
      Check();
      if (asked_ >= until) return loop_->Quit();
      loop_->After(Millis(1), look);
    };
    loop_->After(Millis(0), look);
    loop_->Run();
  }

  std::unique_ptr<EventLoop> loop_;
  MemoryBroker::Machine machine_{.available = 900 * kMiB, .files = 900 * kMiB};
  MemoryBroker broker_{*loop_, Millis(1), [this] { return std::optional(machine_); }};
  std::deque<Runner> runners_;
  std::vector<int> late_;  // ms until an answer, in turn; -1: none
  int asked_ = 0;
  uint64_t most_ = 0;
};

TEST_F(MemoryBrokerTest, OneAloneHasAll) {
  Runner* one = Come(kBudget);
  EXPECT_EQ(one->share, std::nullopt);
  EXPECT_EQ(one->keeps, kBudget);
}

TEST_F(MemoryBrokerTest, ThreeShareWhatOneWouldHave) {
  Come(kBudget);
  Runner* two = Come(kBudget);
  EXPECT_EQ(two->share, 0u) << "until the first has answered";
  Runner* three = Come(100 * kMiB);
  Run();
  EXPECT_LE(most_, kBudget);
  EXPECT_EQ(three->keeps, 100 * kMiB);
  for (Runner* runner : {&runners_[0], two}) EXPECT_EQ(runner->keeps, 350 * kMiB);
}

TEST_F(MemoryBrokerTest, TheShareOfOneThatEndsComesBack) {
  Runner* one = Come(kBudget);
  Come(kBudget);
  Run();
  EXPECT_EQ(one->keeps, kBudget / 2);
  runners_.pop_back();
  Run(1);
  EXPECT_EQ(one->share, std::nullopt);
}

TEST_F(MemoryBrokerTest, WhoIsAloneAgainIsToldUntilItAnswers) {
  Runner* one = Come(kBudget);
  Come(kBudget);
  Run();
  runners_.pop_back();
  late_ = {-1};
  Run(2);
  EXPECT_NE(one->share, std::nullopt);
  late_.clear();
  Run(1);
  EXPECT_EQ(one->share, std::nullopt);
}

TEST_F(MemoryBrokerTest, NobodyGrowsIntoWhatIsNotGivenBack) {
  Runner* one = Come(600 * kMiB);
  one->gives_back = false;
  Runner* two = Come(kBudget);
  Run();
  EXPECT_EQ(one->share, kBudget / 2);
  EXPECT_EQ(two->keeps, 200 * kMiB);
  one->gives_back = true;
  Run();
  EXPECT_EQ(two->keeps, kBudget / 2);
  EXPECT_LE(most_, kBudget);
}

TEST_F(MemoryBrokerTest, LateAndLostAnswersBreakNoSum) {
  late_ = {0, 3, 0, 1, -1, 2};
  Come(500 * kMiB);
  Come(kBudget);
  Come(300 * kMiB);
  Run(60);
  runners_[0].wants = 0;
  runners_[0].keeps = 0;
  Run(60);
  runners_[0].wants = kBudget;
  Run(60);
  EXPECT_LE(most_, kBudget);
}

// The pages of a runner that is stopped stay, and it may go on at any time.
TEST_F(MemoryBrokerTest, AMuteRunnerKeepsWhatItWasTold) {
  Runner* one = Come(300 * kMiB);
  Runner* two = Come(0);
  Run();
  late_ = {-1};
  two->wants = kBudget;
  Run(4);
  EXPECT_LE(*one->share + *two->share, kBudget);
  late_.clear();
  Run(120);  // it is asked again
  EXPECT_EQ(two->keeps, kBudget - 300 * kMiB);
  EXPECT_LE(most_, kBudget);
}

TEST_F(MemoryBrokerTest, ALiarTakesNobodysShare) {
  Runner* one = Come(kBudget);
  Runner* liar = Come(100 * kMiB);
  liar->says_keeps = ~uint64_t{0};
  liar->budget = ~uint64_t{0};
  Runner* three = Come(kBudget);
  Run(60);
  EXPECT_GE(one->keeps, kBudget / 4);
  EXPECT_LE(*one->share + *three->share, machine_.available);
  // The page cache is that of the honest ones: nothing else is believed.
  machine_.files = one->keeps + three->keeps + liar->keeps;
  Run(60);
  EXPECT_GE(one->keeps, kBudget / 4);
}

TEST_F(MemoryBrokerTest, TheMachineHasLess) {
  machine_.available = 400 * kMiB;
  Come(0);
  Come(0);
  Run();
  for (Runner& runner : runners_) runner.wants = kBudget;
  Run();
  EXPECT_LE(most_, machine_.available);
}

}  // namespace
}  // namespace ppc::control
