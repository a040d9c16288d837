// SPDX-License-Identifier: Apache-2.0
// A service that reads its mapped model again and again, in less memory than the model takes.
#include <gtest/gtest.h>

#include <random>

#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

class MaioPassesTest : public MaioTest {
 protected:
  static constexpr uint64_t kModel = 96 * kMiB;
  static constexpr uint64_t kLimit = 64 * kMiB;

  MaioPassesTest() {
    setup_.options.limit = kLimit;
    setup_.shape.workers = 1;
    setup_.xpus = setup_.reader_xpus = {0};
    setup_.order = {0};
    setup_.init_ms = 0;
  }
  std::unique_ptr<Simulator> Load(const Setup& setup) {
    auto sim = Make(setup);
    EXPECT_EQ(Start(sim.get(), setup)["mode"], "use");
    Pass(sim.get(), setup, 1);
    sim->RunFor(4000);
    EXPECT_EQ(StatusOf(sim.get())["mode"], "serving");
    return sim;
  }
  std::unique_ptr<Simulator> RecordAndLoad() {
    Record(setup_);
    return Load(setup_);
  }
  // As it follows the passes.
  std::unique_ptr<Simulator> Following() {
    auto sim = RecordAndLoad();
    Pass(sim.get(), setup_, 6);
    EXPECT_EQ(Passes(sim.get())["state"], "on") << Passes(sim.get());
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
  nlohmann::json Passes(Simulator* sim) { return StatusOf(sim)["passes"]; }
};

TEST_F(MaioPassesTest, WhatDoesNotFitIsReadAloneInEachPass) {
  auto sim = RecordAndLoad();
  EXPECT_EQ(sim->want, 0u);
  EXPECT_GE(Pass(sim.get(), setup_, 1), kModel / 4) << "the cache evicts the oldest page";
  Pass(sim.get(), setup_, 5);
  EXPECT_EQ(Passes(sim.get())["state"], "on") << Passes(sim.get());
  EXPECT_NE(sim->want & PPC_WANT_PROGRESS, 0u);
  const uint64_t reclaimed = sim->reclaimed_bytes, missed = sim->demand_bytes;
  const uint64_t bytes = Pass(sim.get(), setup_, 4);
  EXPECT_LE(bytes, kModel - kLimit + 36 * kMiB);
  EXPECT_LE(sim->demand_bytes - missed, 4 * kMiB) << "the reader waits for next to nothing";
  EXPECT_EQ(sim->reclaimed_bytes, reclaimed);
  EXPECT_LE(sim->peak, kLimit);
  EXPECT_EQ(sim->load_flags.count(PPC_IO_BURN), 1u);
}

// Others' memory would have to make room.
TEST_F(MaioPassesTest, WithoutALimitOfItsOwnAServiceIsLeftToTheKernel) {
  setup_.options.is_cgroup = false;
  auto sim = RecordAndLoad();
  Pass(sim.get(), setup_, 6);
  EXPECT_EQ(Passes(sim.get())["state"], "watching");
  EXPECT_FALSE(sim->uses_limit);
}

// The kernel may read single pages by then, and the pass takes minutes.
TEST_F(MaioPassesTest, APassThatMissesMuchNeedNotEnd) {
  auto sim = RecordAndLoad();
  const uint64_t before = sim->disk_bytes;
  sim->readers.clear();
  AddReaders(sim.get(), setup_);
  for (int i = 0; i < 1000 && sim->disk_bytes < before + kModel / 2; i++) sim->RunFor(20);
  EXPECT_LT(sim->disk_bytes - before, kModel);
  EXPECT_EQ(Passes(sim.get())["state"], "on") << Passes(sim.get());
}

// There was less memory for a while.  In our count the margin below the limit is missing.
TEST_F(MaioPassesTest, WhatNearlyFitsIsTriedWithoutUs) {
  constexpr uint64_t kLarge = 1536 * kMiB;
  setup_.shape.shard_bytes = kLarge / setup_.shape.shards;
  setup_.options.limit = kLarge + 8 * kMiB;
  setup_.rate = 2 * kMiB;
  Record(setup_);
  setup_.options.other = 256 * kMiB;
  auto sim = Load(setup_);
  Pass(sim.get(), setup_, 3);
  ASSERT_EQ(Passes(sim.get())["state"], "on") << Passes(sim.get());
  sim->set_other(0);
  Pass(sim.get(), setup_, 20);
  EXPECT_EQ(Passes(sim.get())["state"], "watching") << Passes(sim.get());
  EXPECT_EQ(Pass(sim.get(), setup_, 4), 0u) << "all fits";
}

// What it costs where it does not fit: fewer and fewer passes.
TEST_F(MaioPassesTest, ATrialThatFailsIsNotRepeatedSoon) {
  constexpr uint64_t kLarge = 1536 * kMiB;
  setup_.shape.shard_bytes = kLarge / setup_.shape.shards;
  setup_.options.limit = kLarge - 4 * kMiB;
  setup_.rate = 2 * kMiB;
  auto sim = RecordAndLoad();
  uint64_t trials = 0;
  for (int i = 0; i < 60; i++) {
    const bool was_on = Passes(sim.get())["state"] == "on";
    Pass(sim.get(), setup_, 1);
    trials += was_on && Passes(sim.get())["why"].is_string() ? 1 : 0;
  }
  EXPECT_EQ(trials, 1u);
  EXPECT_LE(Pass(sim.get(), setup_, 4), kLarge / 8);
}

TEST_F(MaioPassesTest, WhatStaysFollowsTheMemoryThereIs) {
  auto sim = Following();
  const uint64_t kept = Passes(sim.get())["kept"];
  sim->set_other(16 * kMiB);
  Pass(sim.get(), setup_, 2);
  EXPECT_LT(Passes(sim.get())["kept"], kept);
  const uint64_t reclaimed = sim->reclaimed_bytes;
  Pass(sim.get(), setup_, 2);
  EXPECT_EQ(sim->reclaimed_bytes, reclaimed);
}

// Its computing takes longer than the disk; each pass may be a request, after a rest.
TEST_F(MaioPassesTest, PassesThatGainNothingEndIt) {
  setup_.options.demand_latency_ms = 0;
  setup_.options.disk_bytes_per_ms = 100 * kMiB;
  Record(setup_);
  for (const uint64_t rest_ms : {0, 3000}) {
    auto sim = Load(setup_);
    for (int pass = 0; pass < 8; ++pass) {
      Pass(sim.get(), setup_, 1);
      sim->RunFor(rest_ms);
    }
    EXPECT_EQ(Passes(sim.get())["state"], "off") << Passes(sim.get());
    EXPECT_EQ(sim->want, 0u);
    EXPECT_FALSE(sim->uses_limit);
    const uint64_t evicted = sim->evicted_bytes;
    Pass(sim.get(), setup_, 3);
    EXPECT_EQ(sim->evicted_bytes, evicted);
  }
}

// An automatic service is not told how many workers it has: turns of two readers are none.
TEST_F(MaioPassesTest, WhereAnotherProcessJoinsItIsLeftToTheKernel) {
  auto sim = Following();
  const auto both = [&] {
    sim->readers.clear();
    AddReaders(sim.get(), setup_);
    AddReaders(sim.get(), setup_);
    sim->readers.back().pid++;
    for (Access& access : sim->readers.back().accesses) access.not_before_ms += 1200;
    EXPECT_TRUE(sim->Run(60000));
  };
  both();
  EXPECT_EQ(Passes(sim.get())["state"], "watching") << Passes(sim.get());
  const uint64_t evicted = sim->evicted_bytes;
  both();
  EXPECT_LE(sim->evicted_bytes - evicted, kModel / 8)
      << "misses alone do not tell of the other one";
  EXPECT_EQ(sim->want, 0u);
  EXPECT_FALSE(sim->uses_limit);
  Pass(sim.get(), setup_, 3);
  EXPECT_EQ(Passes(sim.get())["state"], "on") << "it is alone again";
}

// A prompt is computed for seconds in the midst of a pass.
TEST_F(MaioPassesTest, RestsAreNoDisorder) {
  auto sim = Following();
  for (int i = 0; i < 6; i++) {
    sim->readers.clear();
    AddReaders(sim.get(), setup_);
    std::vector<Access>& accesses = sim->readers[0].accesses;
    for (size_t at = accesses.size() / 2; at < accesses.size(); at++)
      accesses[at].not_before_ms += 3000;
    EXPECT_TRUE(sim->Run(60000));
    EXPECT_EQ(Passes(sim.get())["state"], "on") << Passes(sim.get());
  }
}

TEST_F(MaioPassesTest, ReadsInNoOrderEndIt) {
  auto sim = Following();
  std::minstd_rand random(1);
  const auto read = [&](uint64_t places) {
    sim->readers.clear();
    AddReaders(sim.get(), setup_);
    std::vector<Access>& accesses = sim->readers[0].accesses;
    accesses.clear();
    for (uint64_t i = 0; i < places; i++)
      accesses.push_back({model_.shards[random() % 4], random() % 24 * kMiB, kMiB, 0, 0});
    EXPECT_TRUE(sim->Run(60000));
  };
  read(200);
  EXPECT_EQ(Passes(sim.get())["state"], "watching") << Passes(sim.get());
  const uint64_t evicted = sim->evicted_bytes;
  read(200);
  EXPECT_EQ(sim->evicted_bytes, evicted);
}

// A pass was measured with more memory and a faster disk than there is now.
TEST_F(MaioPassesTest, WithLessRoomAPassIsMeasuredAgain) {
  Record(setup_);
  for (const bool has_less_room : {false, true}) {
    auto sim = Load(setup_);
    Pass(sim.get(), setup_, 6);
    ASSERT_EQ(Passes(sim.get())["state"], "on");
    sim->set_disk(setup_.options.disk_bytes_per_ms / 16);
    if (has_less_room) sim->set_other(16 * kMiB);
    Pass(sim.get(), setup_, 6);
    EXPECT_EQ(Passes(sim.get())["state"], has_less_room ? "on" : "off") << Passes(sim.get());
  }
}

// Where no pass was faster than without, less room is no reason to try again.
TEST_F(MaioPassesTest, WithLessRoomPassesThatNeverGainedEnd) {
  setup_.options.demand_latency_ms = 0;
  setup_.options.disk_bytes_per_ms = 100 * kMiB;
  auto sim = RecordAndLoad();
  for (int pass = 0; Passes(sim.get())["state"] != "on"; ++pass) {
    ASSERT_LT(pass, 8);
    Pass(sim.get(), setup_, 1);
  }
  sim->set_other(16 * kMiB);
  for (int pass = 0; Passes(sim.get())["state"] == "on"; ++pass) {
    ASSERT_LT(pass, 8);
    Pass(sim.get(), setup_, 1);
  }
  EXPECT_EQ(Passes(sim.get())["state"], "off") << Passes(sim.get());
}

TEST_F(MaioPassesTest, AModelThatFitsIsLeftToTheKernel) {
  setup_.options.limit = 128 * kMiB;
  auto sim = RecordAndLoad();
  const uint64_t read = sim->disk_bytes;
  Pass(sim.get(), setup_, 4);
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
  auto sim = Following();
  const uint64_t alone = sim->evicted_bytes;
  Pass(sim.get(), setup_, 1);
  ASSERT_GT(sim->evicted_bytes, alone);
  sim->Control({{"op", "service_start"},
                {"service_id", "abcd"},
                {"service", 2},
                {"template", kId},
                {"workers", 1}});
  sim->RunBackground();
  const uint64_t evicted = sim->evicted_bytes;
  Pass(sim.get(), setup_, 1);
  EXPECT_EQ(sim->evicted_bytes, evicted);
}

TEST_F(MaioPassesTest, AStopGivesTheLimitBack) {
  auto sim = Following();
  ASSERT_TRUE(sim->uses_limit);
  End(sim.get(), "service_stop");
  EXPECT_FALSE(sim->uses_limit);
}

}  // namespace
}  // namespace ppc::test
