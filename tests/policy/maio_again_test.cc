// SPDX-License-Identifier: Apache-2.0
//
// What happens after ready: the model is read another time, or others join it.
#include <gtest/gtest.h>

#include "policies/maio/template/template.h"
#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

class MaioAgainTest : public MaioTest {
 protected:
  static Setup Constrained() {
    Setup setup;
    setup.options.limit = 80 * kMiB;
    setup.init_ms = 0;
    return setup;
  }
  // The same processes read the model from its start.
  void ReadAgain(Simulator* sim, const Setup& setup) {
    sim->readers.clear();
    AddReaders(sim, setup);
    ASSERT_TRUE(sim->Run(60000));
  }
  nlohmann::json StatusOf(Simulator* sim) {
    return sim->Control({{"op", "status"}})["services"][0];
  }
};

TEST_F(MaioAgainTest, ANewPassAfterReadyIsFollowed) {
  Setup setup = Constrained();
  Record(setup);
  setup.config = {{"at_ready", "all"}};
  auto sim = Use(setup);
  sim->RunFor(15000);  // what was left is dropped
  ASSERT_EQ(sim->resident(), 0u);
  ASSERT_EQ(sim->want, 0u);
  const uint64_t read = sim->disk_bytes, demanded = sim->demand_bytes;
  ReadAgain(sim.get(), setup);
  EXPECT_LE(sim->demand_bytes - demanded, 24 * kMiB) << "loaded ahead of them";
  EXPECT_LE(sim->disk_bytes - read, read * 115 / 100);
  EXPECT_EQ(sim->reclaimed_bytes, 0u);
  EXPECT_LE(sim->peak, setup.options.limit * 85 / 100);
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
  const Setup setup = Constrained();
  Record(setup);
  auto sim = Make(setup);
  Start(sim.get(), setup);
  AddReaders(sim.get(), setup);
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
  auto sim = Make(setup);
  Start(sim.get(), setup);
  AddReaders(sim.get(), setup);
  for (Reader& r : sim->readers) {
    for (Access& a : r.accesses) a.flags = PPC_F_NOT_USER;
  }
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
  auto sim = Make(setup);
  Start(sim.get(), setup);
  AddReaders(sim.get(), setup);
  for (Reader& r : sim->readers) r.accesses.resize(r.accesses.size() / 2);
  ASSERT_TRUE(sim->Run(60000));
  sim->RunFor(8000);
  EXPECT_EQ(StatusOf(sim.get())["mode"], "use");
  sim->RunFor(4000);
  EXPECT_EQ(StatusOf(sim.get())["mode"], "serving");
}

// Its readers compile something in the middle of the load, for longer than a load may be quiet.
TEST_F(MaioAgainTest, AReaderThatPausedIsFollowedOn) {
  Setup setup = Constrained();
  setup.options.limit = 48 * kMiB;
  Record(setup);
  uint64_t read[2] = {};
  for (const uint64_t pause_ms : {0, 40000}) {
    auto sim = Make(setup);
    Start(sim.get(), setup);
    AddReaders(sim.get(), setup);
    for (Reader& r : sim->readers) {
      for (size_t i = r.accesses.size() / 2; i < r.accesses.size(); i++)
        r.accesses[i].not_before_ms = sim->ms() + 1000 + pause_ms;
    }
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
    auto sim = Make(setup);
    Start(sim.get(), setup);
    AddReaders(sim.get(), setup);
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
  Setup setup = Constrained();
  Record(setup);
  for (const bool is_mapped : {true, false}) {
    setup.is_mapped = is_mapped;
    auto sim = Use(setup);
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
  const Setup setup = Constrained();
  Record(setup);
  auto sim = Use(setup);
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

// Nobody says ready after them: each leaves what there was room for.
TEST_F(MaioAgainTest, WhatIsReadAgainIsKept) {
  const Setup setup = Constrained();
  Record(setup);
  auto sim = Use(setup);
  const uint64_t read = sim->disk_bytes;
  for (int i = 0; i < 3; i++) {
    sim->RunFor(15000);
    ReadAgain(sim.get(), setup);
    sim->RunFor(15000);
    EXPECT_GT(sim->resident(), 32 * kMiB);
  }
  EXPECT_LE(sim->disk_bytes, read * 4) << "no pass reads more than the first";
}

// A draft model beside the one that was recorded.
TEST_F(MaioAgainTest, ASecondModelJoinsTheTemplate) {
  Setup setup;
  Record(setup);
  constexpr uint64_t kDraftBytes = 16 * kMiB;
  const auto load = [&](const char* mode) {
    auto sim = Make(setup);
    const uint64_t draft = sim->AddFile("draft/model.safetensors", kDraftBytes);
    sim->Crash();  // nothing has been started yet
    EXPECT_EQ(sim->Recover(), 0);
    EXPECT_EQ(Start(sim.get(), setup)["mode"], mode);
    AddReaders(sim.get(), setup);
    sim->readers[0].accesses.push_back({draft, 0, kDraftBytes, 0, 0});
    EXPECT_TRUE(sim->Run(60000));
    sim->RunFor(50);
    status_ = End(sim.get(), "service_ready");
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

}  // namespace
}  // namespace ppc::test
