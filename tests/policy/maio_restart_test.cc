// SPDX-License-Identifier: Apache-2.0
//
// The runner dies in the middle of a load, and another one is started.
#include <gtest/gtest.h>

#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

class MaioRestartTest : public MaioTest {
 protected:
  static Setup Constrained() {
    Setup setup;
    setup.options.limit = 80 * kMiB;
    return setup;
  }
  // "consumed" or "total" of all workers.
  static uint64_t SumOf(Simulator* sim, const char* what) {
    const nlohmann::json status = sim->Control({{"op", "status"}});
    uint64_t sum = 0;
    for (const auto& group : status["services"][0]["groups"]) sum += group[what].get<uint64_t>();
    return sum;
  }
  // Until so much of all that is to be read is read.
  void RunTo(Simulator* sim, double share) {
    const auto most = static_cast<uint64_t>(share * static_cast<double>(SumOf(sim, "total")));
    while (SumOf(sim, "consumed") < most) sim->RunFor(1);
  }
  nlohmann::json StartAgain(Simulator* sim, const Setup& setup) {
    return Settle(sim, {{"op", "service_start"},
                        {"service_id", kId},
                        {"service", 1},
                        {"workers", setup.order.size()},
                        {"xpus", setup.xpus},
                        {"resumed", true},
                        {"ready", false}});
  }
  // Of the whole load, with the runner killed at `share` of it and away for so long.
  std::unique_ptr<Simulator> Load(const Setup& setup, double share, uint64_t down_ms) {
    auto sim = Make(setup);
    Start(sim.get(), setup);
    AddReaders(sim.get(), setup);
    RunTo(sim.get(), share);
    sim->Crash();
    sim->RunFor(down_ms);
    EXPECT_EQ(sim->Recover(), 0);
    reply_ = StartAgain(sim.get(), setup);
    EXPECT_TRUE(sim->Run(120000)) << "readers did not finish";
    sim->RunFor(300);
    status_ = End(sim.get(), "service_ready");
    return sim;
  }
  nlohmann::json reply_;
};

class MaioRestartAtTest : public MaioRestartTest, public ::testing::WithParamInterface<int> {};

TEST_P(MaioRestartAtTest, WhereMemoryIsShortTheKernelReadsTheRest) {
  const Setup setup = Constrained();
  Record(setup);
  const uint64_t undisturbed = Use(setup)->disk_bytes;
  auto sim = Load(setup, GetParam() / 100.0, 100);
  EXPECT_EQ(status_["mode"], "native");
  EXPECT_EQ(status_["reason"],
            "left to the kernel until its next start: its runner ended during the load, and memory "
            "is short");
  EXPECT_LE(sim->disk_bytes, undisturbed * 115 / 100);
}

TEST_P(MaioRestartAtTest, WhereAllFitsItStartsOverAndReadsNothingTwice) {
  const Setup setup;
  Record(setup);
  const uint64_t undisturbed = Use(setup)->disk_bytes;
  auto sim = Load(setup, GetParam() / 100.0, 100);
  EXPECT_EQ(status_["mode"], "use");
  EXPECT_LE(sim->disk_bytes, undisturbed);
  EXPECT_GT(sim->disk_bytes, 0u);
}

INSTANTIATE_TEST_SUITE_P(Share, MaioRestartAtTest, ::testing::Values(10, 50, 90));

TEST_F(MaioRestartTest, TheNextStartIsFollowedAgain) {
  const Setup setup = Constrained();
  Record(setup);
  auto sim = Load(setup, 0.5, 100);
  sim->RunFor(100);
  EXPECT_EQ(Use(setup)->Control({{"op", "status"}})["services"].size(), 1u);
}

// The readers have read most of it by themselves meanwhile: that is not loaded again behind them.
TEST_F(MaioRestartTest, WhatWasReadMeanwhileIsNotLoadedAgain) {
  const Setup setup = Constrained();
  Record(setup);
  const uint64_t undisturbed = Use(setup)->disk_bytes;
  for (const uint64_t down_ms : {300, 600, 900}) {
    auto sim = Load(setup, 0.1, down_ms);
    EXPECT_LE(sim->disk_bytes, undisturbed * 110 / 100) << down_ms;
  }
}

// A service had failed, and its next start was awaited when the runner died.
TEST_F(MaioRestartTest, WhatAnAwaitedStartNeedsIsLoadedAllTheSame) {
  const Setup setup = Constrained();
  Record(setup);
  auto sim = Make(setup);
  nlohmann::json message = {{"op", "service_start"}, {"service_id", kId},
                            {"service", 1},          {"workers", setup.order.size()},
                            {"xpus", setup.xpus},    {"resumed", true},
                            {"failed", true}};
  (void)Settle(sim.get(), message);
  sim->RunFor(500);
  const uint64_t loaded = sim->disk_bytes;
  EXPECT_GT(loaded, 8 * kMiB);
  for (const char* const key : {"resumed", "failed"}) message.erase(key);
  EXPECT_EQ(sim->Control(message)["mode"], "use");
  sim->RunFor(100);
  EXPECT_EQ(sim->evicted_bytes, 0u) << "it is the start that was awaited";
}

TEST_F(MaioRestartTest, HalfOfALoadIsNoRecording) {
  const Setup setup;
  auto sim = Make(setup);
  Start(sim.get(), setup);
  AddReaders(sim.get(), setup);
  sim->RunFor(800);
  sim->Crash();
  sim->RunFor(300);
  EXPECT_EQ(sim->Recover(), 0);
  EXPECT_EQ(StartAgain(sim.get(), setup)["mode"], "record");
  ASSERT_TRUE(sim->Run(60000));
  const nlohmann::json reply = End(sim.get(), "service_ready");
  EXPECT_EQ(reply["reason"],
            "recording began in the middle of a load; the next start records again");
}

}  // namespace
}  // namespace ppc::test
