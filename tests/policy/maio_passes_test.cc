// SPDX-License-Identifier: Apache-2.0
//
// A service that reads its mapped model again and again, in less memory than the model takes.
#include <gtest/gtest.h>

#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

class MaioPassesTest : public MaioTest {
 protected:
  static constexpr uint64_t kModel = 96 * kMiB;
  static constexpr uint64_t kLimit = 64 * kMiB;

  static Setup OneReader() {
    Setup setup;
    setup.options.limit = kLimit;
    setup.shape.workers = 1;
    setup.xpus = setup.reader_xpus = {0};
    setup.order = {0};
    setup.init_ms = 0;
    return setup;
  }
  std::unique_ptr<Simulator> Load(const Setup& setup) {
    auto sim = Make(setup);
    EXPECT_EQ(Start(sim.get(), setup)["mode"], "use");
    Pass(sim.get(), setup, 1);
    sim->RunFor(4000);
    EXPECT_EQ(sim->Control({{"op", "status"}})["services"][0]["mode"], "serving");
    return sim;
  }
  // Bytes that these passes read from the disk, each.
  uint64_t Pass(Simulator* sim, const Setup& setup, uint64_t passes) {
    const uint64_t before = sim->disk_bytes;
    for (uint64_t i = 0; i < passes; i++) {
      sim->readers.clear();
      AddReaders(sim, setup);
      EXPECT_TRUE(sim->Run(60000));
    }
    return (sim->disk_bytes - before) / passes;
  }
  nlohmann::json Passes(Simulator* sim) {
    return sim->Control({{"op", "status"}})["services"][0]["passes"];
  }
};

TEST_F(MaioPassesTest, WhatDoesNotFitIsReadAloneInEachPass) {
  const Setup setup = OneReader();
  Record(setup);
  auto sim = Load(setup);
  EXPECT_EQ(sim->want, 0u);
  Pass(sim.get(), setup, 1);
  EXPECT_GE(Pass(sim.get(), setup, 1), kModel) << "the cache evicts the oldest page";
  Pass(sim.get(), setup, 4);
  EXPECT_EQ(Passes(sim.get())["state"], "on") << Passes(sim.get());
  EXPECT_NE(sim->want & PPC_WANT_PROGRESS, 0u);
  const uint64_t reclaimed = sim->reclaimed_bytes, missed = sim->demand_bytes;
  const uint64_t bytes = Pass(sim.get(), setup, 4);
  EXPECT_LE(bytes, kModel - kLimit + 36 * kMiB);
  EXPECT_LE(sim->demand_bytes - missed, 4 * kMiB) << "the reader waits for next to nothing";
  EXPECT_EQ(sim->reclaimed_bytes, reclaimed);
  EXPECT_LE(sim->peak, kLimit);
  EXPECT_EQ(sim->load_flags.count(PPC_IO_BURN), 1u);
}

TEST_F(MaioPassesTest, WhatStaysFollowsTheMemoryThereIs) {
  const Setup setup = OneReader();
  Record(setup);
  auto sim = Load(setup);
  Pass(sim.get(), setup, 6);
  ASSERT_EQ(Passes(sim.get())["state"], "on");
  const uint64_t kept = Passes(sim.get())["kept"];
  sim->set_other(16 * kMiB);
  Pass(sim.get(), setup, 2);
  EXPECT_LT(Passes(sim.get())["kept"], kept);
  const uint64_t reclaimed = sim->reclaimed_bytes;
  Pass(sim.get(), setup, 2);
  EXPECT_EQ(sim->reclaimed_bytes, reclaimed);
}

// Its computing takes longer than the disk.
TEST_F(MaioPassesTest, PassesThatGainNothingEndIt) {
  Setup setup = OneReader();
  setup.options.demand_latency_ms = 0;
  setup.options.disk_bytes_per_ms = 100 * kMiB;
  Record(setup);
  auto sim = Load(setup);
  Pass(sim.get(), setup, 8);
  EXPECT_EQ(Passes(sim.get())["state"], "off") << Passes(sim.get());
  EXPECT_EQ(sim->want, 0u);
  EXPECT_FALSE(sim->uses_limit);
  const uint64_t evicted = sim->evicted_bytes;
  Pass(sim.get(), setup, 3);
  EXPECT_EQ(sim->evicted_bytes, evicted);
}

// A pass was measured with more memory and a faster disk than there is now.
TEST_F(MaioPassesTest, WithLessRoomAPassIsMeasuredAgain) {
  const Setup setup = OneReader();
  Record(setup);
  for (const bool has_less_room : {false, true}) {
    auto sim = Load(setup);
    Pass(sim.get(), setup, 6);
    ASSERT_EQ(Passes(sim.get())["state"], "on");
    sim->set_disk(setup.options.disk_bytes_per_ms / 16);
    if (has_less_room) sim->set_other(16 * kMiB);
    Pass(sim.get(), setup, 6);
    EXPECT_EQ(Passes(sim.get())["state"], has_less_room ? "on" : "off") << Passes(sim.get());
  }
}

TEST_F(MaioPassesTest, AModelThatFitsIsLeftToTheKernel) {
  Setup setup = OneReader();
  setup.options.limit = 128 * kMiB;
  Record(setup);
  auto sim = Load(setup);
  const uint64_t read = sim->disk_bytes;
  Pass(sim.get(), setup, 4);
  EXPECT_EQ(sim->disk_bytes, read);
  EXPECT_FALSE(sim->uses_limit);
  EXPECT_EQ(sim->want, 0u);
}

// Each of several workers has a place of its own.
TEST_F(MaioPassesTest, SeveralWorkersAreLeftToTheKernel) {
  Setup setup;
  setup.options.limit = kLimit;
  setup.init_ms = 0;
  Record(setup);
  auto sim = Load(setup);
  Pass(sim.get(), setup, 5);
  EXPECT_FALSE(sim->uses_limit);
  EXPECT_TRUE(Passes(sim.get()).is_null());
}

// Another service that computes from the same files would wait for what is dropped.
TEST_F(MaioPassesTest, WhatAnotherServiceNeedsStays) {
  const Setup setup = OneReader();
  Record(setup);
  auto sim = Load(setup);
  Pass(sim.get(), setup, 5);
  ASSERT_EQ(Passes(sim.get())["state"], "on");
  const uint64_t alone = sim->evicted_bytes;
  Pass(sim.get(), setup, 1);
  ASSERT_GT(sim->evicted_bytes, alone);
  sim->Control({{"op", "service_start"},
                {"service_id", "abcd"},
                {"service", 2},
                {"template", kId},
                {"workers", 1}});
  sim->RunBackground();
  const uint64_t evicted = sim->evicted_bytes;
  Pass(sim.get(), setup, 1);
  EXPECT_EQ(sim->evicted_bytes, evicted);
}

TEST_F(MaioPassesTest, AStopGivesTheLimitBack) {
  const Setup setup = OneReader();
  Record(setup);
  auto sim = Load(setup);
  Pass(sim.get(), setup, 5);
  ASSERT_TRUE(sim->uses_limit);
  End(sim.get(), "service_stop");
  EXPECT_FALSE(sim->uses_limit);
}

}  // namespace
}  // namespace ppc::test
