// SPDX-License-Identifier: Apache-2.0
// What happens after ready: the model is read another time, or others join it.  The runner dies in
// the middle of a load, and another one is started.
#include <gtest/gtest.h>

#include "policies/maio/template/template.h"
#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

class MaioAgainTest : public MaioTest {
 protected:
  MaioAgainTest() {
    setup_.options.limit = 80 * kMiB;
    setup_.init_ms = 0;
  }
  // The same processes read the model from its start.
  void ReadAgain(Simulator* sim, const Setup& setup) {
    sim->readers.clear();
    AddReaders(sim, setup);
    ASSERT_TRUE(sim->Run(60000));
  }
};

TEST_F(MaioAgainTest, ANewPassAfterReadyIsFollowed) {
  Record(setup_);
  setup_.config = {{"at_ready", "all"}};
  auto sim = Use(setup_);
  sim->RunFor(15000);  // what was left is dropped
  ASSERT_EQ(sim->resident(), 0u);
  ASSERT_EQ(sim->want, 0u);
  const uint64_t read = sim->disk_bytes, demanded = sim->demand_bytes;
  ReadAgain(sim.get(), setup_);
  EXPECT_LE(sim->demand_bytes - demanded, 24 * kMiB) << "loaded ahead of them";
  EXPECT_LE(sim->disk_bytes - read, read * 115 / 100);
  EXPECT_EQ(sim->reclaimed_bytes, 0u);
  EXPECT_LE(sim->peak, setup_.options.limit * 85 / 100);
  // It ends by itself, like the first, and drops nothing: nobody said ready.
  sim->RunFor(4000);
  EXPECT_EQ(StatusOf(sim.get())["mode"], "serving");
  const uint64_t left = sim->resident();
  EXPECT_GT(left, 0u);
  sim->RunFor(20000);
  EXPECT_EQ(sim->resident(), left);
}

// Everybody is at the end of what is listed: nothing is watched, planned or dropped any more.
TEST_F(MaioAgainTest, ALoadEndsByItself) {
  Record(setup_);
  auto sim = Begin(setup_);
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(StatusOf(sim.get())["mode"], "use");
  sim->RunFor(4000);
  EXPECT_EQ(StatusOf(sim.get())["mode"], "serving");
  EXPECT_EQ(sim->want, 0u);
  EXPECT_EQ(sim->stats["mode"], 2u);
  const uint64_t dropped = sim->evicted_bytes;
  sim->set_other(40 * kMiB);  // far above the threshold
  sim->RunFor(2000);
  EXPECT_EQ(sim->evicted_bytes, dropped);
}

// Populated, and then computed from: no access of the process is ever told.
TEST_F(MaioAgainTest, APopulatedLoadEndsByItself) {
  Setup setup;
  Record(setup);
  setup.options.limit = 128 * kMiB;
  auto sim = Begin(setup);
  Populate(sim.get());
  ASSERT_TRUE(sim->Run(60000));
  sim->RunFor(4000);
  EXPECT_EQ(StatusOf(sim.get())["mode"], "serving");
  EXPECT_EQ(sim->want, 0u);
  EXPECT_EQ(sim->evicted_bytes, 0u);
}

// Half of what is listed is never read.
TEST_F(MaioAgainTest, ALoadEndsWhenNothingComesOfItAnyMore) {
  const Setup setup;
  Record(setup);
  auto sim = Begin(setup);
  EndHalfWay(sim.get());
  ASSERT_TRUE(sim->Run(60000));
  sim->RunFor(8000);
  EXPECT_EQ(StatusOf(sim.get())["mode"], "use");
  sim->RunFor(4000);
  EXPECT_EQ(StatusOf(sim.get())["mode"], "serving");
}

// Its readers compile something in the middle of the load, for longer than a load may be quiet.
TEST_F(MaioAgainTest, AReaderThatPausedIsFollowedOn) {
  setup_.options.limit = 48 * kMiB;
  Record(setup_);
  uint64_t read[2] = {};
  for (const uint64_t pause_ms : {0, 40000}) {
    auto sim = Begin(setup_);
    PauseHalfWay(sim.get(), 1000 + pause_ms);
    sim->RunFor(pause_ms);
    EXPECT_EQ(StatusOf(sim.get())["mode"], pause_ms != 0 ? "serving" : "use");
    ASSERT_TRUE(sim->Run(60000));
    EXPECT_EQ(StatusOf(sim.get())["mode"], "use");
    EXPECT_LE(sim->demand_bytes, 24 * kMiB) << "loaded ahead of them";
    read[pause_ms != 0] = sim->disk_bytes;
  }
  EXPECT_LE(read[1], read[0] + 4 * kMiB) << "what had been read is not loaded again";
}

// What the kernel can keep is not dropped, though it is more than the threshold.
TEST_F(MaioAgainTest, WhatFitsIsNotDropped) {
  Setup setup;
  Record(setup);  // 96 MiB
  setup.options.limit = 104 * kMiB;
  for (const char* op : {"service_ready", ""}) {
    auto sim = Begin(setup);
    ASSERT_TRUE(sim->Run(60000));
    if (*op != 0) End(sim.get(), op);
    sim->RunFor(15000);
    EXPECT_EQ(sim->evicted_bytes, 0u);
    EXPECT_EQ(sim->reclaimed_bytes, 0u);
    EXPECT_EQ(sim->reread_bytes, 0u);
  }
}

// Of a model that did not fit, `ready` drops what no process maps.
TEST_F(MaioAgainTest, ReadyLeavesWhatIsMapped) {
  Record(setup_);
  for (const bool is_mapped : {true, false}) {
    setup_.is_mapped = is_mapped;
    auto sim = Use(setup_);
    const uint64_t left = sim->resident();
    ASSERT_GT(left, 8 * kMiB);
    sim->RunFor(15000);
    if (is_mapped) {
      EXPECT_GT(sim->resident(), left / 2);
    } else {
      EXPECT_EQ(sim->resident(), 0u);
    }
  }
}

// Pages of the model are read here and there while it serves.
TEST_F(MaioAgainTest, ServingIsNoNewPass) {
  Record(setup_);
  auto sim = Use(setup_);
  sim->RunFor(15000);
  Reader r;
  r.pid = 100;
  r.xpu = 0;
  r.bytes_per_ms = 4096;
  for (uint64_t i = 0; i < 40; i++) {
    Access a;
    a.file = model_.shards[i * 7 % model_.shards.size()];
    a.offset = (i * 37 % 11) * kMiB;
    a.size = 4096;
    r.accesses.push_back(a);
  }
  sim->readers = {r};
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(StatusOf(sim.get())["mode"], "serving");
}

// A draft model beside the one that was recorded.
TEST_F(MaioAgainTest, ASecondModelJoinsTheTemplate) {
  Setup setup;
  Record(setup);
  constexpr uint64_t kDraftBytes = 16 * kMiB;
  const auto load = [&](const char* mode) {
    uint64_t draft = 0;
    auto sim = Begin(setup, mode, [&](Simulator* made) {
      draft = made->AddFile("draft/model.safetensors", kDraftBytes);
    });
    sim->readers[0].accesses.push_back({draft, 0, kDraftBytes, 0, 0});
    status_ = Finish(sim.get());
    return sim;
  };
  auto sim = load("use");
  EXPECT_EQ(status_["reason"], "other model files have joined; the next start is recorded, too");
  sim = load("record");
  EXPECT_EQ(status_["reason"], "template stored");
  EXPECT_LE(sim->demand_bytes, kDraftBytes + 4 * kMiB) << "the model itself is loaded meanwhile";
  sim = load("use");
  EXPECT_NE(status_["reason"], "other model files have joined; the next start is recorded, too");
  EXPECT_LE(sim->demand_bytes, 4 * kMiB);
  EXPECT_EQ(sim->reread_bytes, 0u);
}

class MaioRestartTest : public MaioTest {
 protected:
  MaioRestartTest() { setup_ = Constrained(); }
  static Setup Constrained() {
    Setup setup;
    setup.options.limit = 80 * kMiB;
    return setup;
  }
  // "consumed" or "total" of all workers.
  static uint64_t SumOf(Simulator* sim, const char* what) {
    uint64_t sum = 0;
    for (const auto& group : StatusOf(sim)["groups"]) sum += group[what].get<uint64_t>();
    return sum;
  }
  // Until so much of all that is to be read is read.
  void RunTo(Simulator* sim, double share) {
    const auto most = static_cast<uint64_t>(share * static_cast<double>(SumOf(sim, "total")));
    while (SumOf(sim, "consumed") < most) ASSERT_FALSE(sim->Run(1)) << "all is read";
  }
  nlohmann::json StartAgain(Simulator* sim, const Setup& setup) {
    nlohmann::json message = StartMessage(setup);
    message.update({{"resumed", true}, {"ready", false}});
    return Settle(sim, message);
  }
  // Of the whole load, with the runner killed at `share` of it and away for so long.
  std::unique_ptr<Simulator> Load(const Setup& setup, double share, uint64_t down_ms) {
    auto sim = Begin(setup);
    RunTo(sim.get(), share);
    sim->Crash();
    sim->RunFor(down_ms);
    EXPECT_EQ(sim->Recover(), 0);
    reply_ = StartAgain(sim.get(), setup);
    status_ = Finish(sim.get());
    return sim;
  }
  nlohmann::json reply_;
};

class MaioRestartAtTest : public MaioRestartTest, public ::testing::WithParamInterface<int> {};

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

// Its template was doubtful, so the start was recorded beside.
TEST_F(MaioRestartTest, WhereMemoryIsShortNothingIsRecordedOfTheRest) {
  Record(setup_);
  maio::Template t = Stored();
  t.flags |= maio::kProvisional;
  Store(t);
  auto sim = Load(setup_, 0.5, 100);
  EXPECT_EQ(reply_["mode"], "record");
  EXPECT_EQ(status_["mode"], "native");
  EXPECT_EQ(status_["reason"],
            "left to the kernel until its next start: its runner ended during the load, and memory "
            "is short");
}

// Its read-ahead is the kernel's from then on, not from the next tick on.
TEST_F(MaioRestartTest, WhereMemoryIsShortReadAheadIsTheKernelsAtOnce) {
  Record(setup_);
  auto sim = Begin(setup_);
  RunTo(sim.get(), 0.5);
  sim->Crash();
  sim->RunFor(100);
  EXPECT_EQ(sim->Recover(), 0);
  StartAgain(sim.get(), setup_);
  EXPECT_NE(sim->want & PPC_WANT_MANAGED_RA, 0u);
  for (int ms = 0; StatusOf(sim.get())["mode"] != "native"; ms++) {
    ASSERT_LT(ms, 1000);
    sim->RunFor(1);
  }
  EXPECT_EQ(sim->want, 0u);
}

TEST_F(MaioRestartTest, TheNextStartIsFollowedAgain) {
  Record(setup_);
  auto sim = Load(setup_, 0.5, 100);
  sim->RunFor(100);
  EXPECT_EQ(Use(setup_)->Control({{"op", "status"}})["services"].size(), 1u);
}

// The readers have read most of it by themselves meanwhile: that is not loaded again behind them.
TEST_F(MaioRestartTest, WhatWasReadMeanwhileIsNotLoadedAgain) {
  Record(setup_);
  const uint64_t undisturbed = Use(setup_)->disk_bytes;
  for (const uint64_t down_ms : {300, 600, 900}) {
    auto sim = Load(setup_, 0.1, down_ms);
    EXPECT_LE(sim->disk_bytes, undisturbed * 110 / 100) << down_ms;
  }
}

// A service had failed, and its next start was awaited when the runner died.
TEST_F(MaioRestartTest, WhatAnAwaitedStartNeedsIsLoadedAllTheSame) {
  Record(setup_);
  auto sim = Make(setup_);
  nlohmann::json message = StartMessage(setup_);
  message.update({{"resumed", true}, {"failed", true}});
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
  auto sim = Begin(setup);
  sim->RunFor(800);
  sim->Crash();
  sim->RunFor(300);
  EXPECT_EQ(sim->Recover(), 0);
  EXPECT_EQ(StartAgain(sim.get(), setup)["mode"], "record");
  const nlohmann::json reply = Finish(sim.get());
  EXPECT_EQ(reply["reason"],
            "recording began in the middle of a load; the next start records again");
}

}  // namespace
}  // namespace ppc::test
