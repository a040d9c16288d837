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
  const Setup setup = Constrained();
  Record(setup);
  auto sim = Use(setup);
  sim->RunFor(15000);  // what was left is dropped
  ASSERT_EQ(sim->resident(), 0u);
  ASSERT_EQ(sim->want, 0u);
  const uint64_t read = sim->disk_bytes, demanded = sim->demand_bytes;
  ReadAgain(sim.get(), setup);
  EXPECT_EQ(StatusOf(sim.get())["mode"], "use");
  EXPECT_LE(sim->demand_bytes - demanded, 24 * kMiB) << "loaded ahead of them";
  EXPECT_LE(sim->disk_bytes - read, read * 115 / 100);
  EXPECT_EQ(sim->reclaimed_bytes, 0u);
  EXPECT_LE(sim->peak, setup.options.limit * 85 / 100);
  // It ends by itself, like the first.
  sim->RunFor(45000);
  EXPECT_EQ(StatusOf(sim.get())["mode"], "idle");
  EXPECT_EQ(sim->resident(), 0u);
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
  EXPECT_EQ(StatusOf(sim.get())["mode"], "idle");
}

TEST_F(MaioAgainTest, WhatIsReadAgainAndAgainIsKept) {
  const Setup setup = Constrained();
  Record(setup);
  auto sim = Use(setup);
  std::vector<uint64_t> left;
  for (int i = 0; i < 3; i++) {
    sim->RunFor(15000);
    ReadAgain(sim.get(), setup);
    sim->RunFor(45000);
    left.push_back(sim->resident());
  }
  EXPECT_EQ(left[0], 0u);
  EXPECT_GT(left[1], 40 * kMiB);
  EXPECT_GT(left[2], 40 * kMiB);
  EXPECT_LE(sim->peak, setup.options.limit * 85 / 100);
}

// Loads long after one another are starts like any other.
TEST_F(MaioAgainTest, NowAndThenIsNotAgainAndAgain) {
  const Setup setup = Constrained();
  Record(setup);
  auto sim = Use(setup);
  for (int i = 0; i < 2; i++) {
    sim->RunFor(700'000);
    ReadAgain(sim.get(), setup);
    sim->RunFor(45000);
    EXPECT_EQ(sim->resident(), 0u);
  }
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
