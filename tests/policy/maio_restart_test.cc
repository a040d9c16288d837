// SPDX-License-Identifier: Apache-2.0
//
// The runner dies in the middle of a load, and another one goes on.
#include <gtest/gtest.h>

#include <random>

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
  std::unique_ptr<Simulator> Load(const Setup& setup, double share, uint64_t down_ms,
                                  bool keeps_notes = true) {
    auto sim = Make(setup);
    if (!keeps_notes) sim->checkpoint_room = 0;
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

TEST_P(MaioRestartAtTest, ReadsNothingAgainThatNobodyNeeds) {
  const Setup setup = Constrained();
  Record(setup);
  const uint64_t undisturbed = Use(setup)->disk_bytes;
  auto sim = Load(setup, GetParam() / 100.0, 100);
  EXPECT_EQ(reply_["reason"], "template found; goes on where the load was");
  EXPECT_LE(sim->disk_bytes, undisturbed * 115 / 100);
  EXPECT_EQ(sim->reclaimed_bytes, 0u);
  EXPECT_LE(sim->peak, setup.options.limit * 85 / 100);
  for (const auto& group : status_["groups"])
    EXPECT_GE(group["consumed"].get<uint64_t>(), group["total"].get<uint64_t>() * 9 / 10) << group;
}

INSTANTIATE_TEST_SUITE_P(Share, MaioRestartAtTest, ::testing::Values(10, 50, 90));

// Its readers have not read anything yet, but much is loaded for them.
TEST_F(MaioRestartTest, BeforeTheFirstReadItGoesOnToo) {
  const Setup setup = Constrained();
  Record(setup);
  auto sim = Make(setup);
  Start(sim.get(), setup);
  sim->RunFor(1000);
  ASSERT_GT(sim->disk_bytes, 0u);
  sim->Crash();
  EXPECT_EQ(sim->Recover(), 0);
  EXPECT_EQ(StartAgain(sim.get(), setup)["reason"], "template found; goes on where the load was");
  AddReaders(sim.get(), setup);
  EXPECT_TRUE(sim->Run(120000));
  EXPECT_LE(sim->disk_bytes, Use(setup)->disk_bytes * 115 / 100);
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

// What the tests above show they show only where that is not so without a note.
TEST_F(MaioRestartTest, WithoutANoteItStartsOver) {
  const Setup setup = Constrained();
  Record(setup);
  auto sim = Load(setup, 0.9, 300, /*keeps_notes=*/false);
  EXPECT_EQ(reply_["reason"], "template found");
  for (const auto& group : reply_["groups"]) EXPECT_EQ(group["consumed"], 0) << group;
}

// It has not read anything of what was released, and gets all of it.
TEST_F(MaioRestartTest, AProcessThatComesAnewReadsFromTheStart) {
  const Setup setup = Constrained();
  Record(setup);
  auto sim = Make(setup);
  Start(sim.get(), setup);
  AddReaders(sim.get(), setup);
  RunTo(sim.get(), 0.5);
  sim->Crash();
  sim->readers.clear();
  sim->RunFor(1500);
  EXPECT_EQ(sim->Recover(), 0);
  StartAgain(sim.get(), setup);
  const uint64_t before = sim->demand_bytes;
  AddReaders(sim.get(), setup);
  for (Reader& r : sim->readers) r.pid += 50;
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->reclaimed_bytes, 0u);
  EXPECT_LE(sim->demand_bytes - before, 24 * kMiB);
  status_ = End(sim.get(), "service_ready");
  for (const auto& group : status_["groups"])
    EXPECT_GE(group["consumed"].get<uint64_t>(), group["total"].get<uint64_t>() * 9 / 10) << group;
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

// Anything at all in the note, of the layout or not: the load goes on, from wherever.
TEST_F(MaioRestartTest, ANoteIsNotTrusted) {
  const Setup setup = Constrained();
  Record(setup);
  std::mt19937_64 random(1);
  for (int i = 0; i < 8; i++) {
    auto sim = Make(setup);
    Start(sim.get(), setup);
    AddReaders(sim.get(), setup);
    RunTo(sim.get(), 0.3);
    sim->Crash();
    std::vector<uint64_t>& words = sim->checkpoints[1];
    const size_t from = i % 2 != 0 ? 0 : random() % words.size();
    for (size_t w = from; w < words.size(); w += 1 + random() % 7) words[w] ^= random();
    EXPECT_EQ(sim->Recover(), 0);
    StartAgain(sim.get(), setup);
    ASSERT_TRUE(sim->Run(120000)) << i;
  }
}

}  // namespace
}  // namespace ppc::test
