// SPDX-License-Identifier: Apache-2.0
// MAIO after a service's process has failed: what the next start needs is loaded before that is
// told of, that start joins, and where none comes the memory is given back.
#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

class MaioRecoverTest : public MaioTest {
 protected:
  MaioRecoverTest() { setup_ = Scarce(); }
  // Readers faster than the disk, half of the memory that the model needs.
  static Setup Scarce() {
    Setup setup;
    setup.shape.shards = 8;  // 192 MiB
    setup.rate = 400 << 10;
    setup.init_ms = 0;
    setup.options.limit = 96 * kMiB;
    setup.config = {{"at_ready", "all"}};  // the simulator's processes map what they have read
    return setup;
  }
  std::unique_ptr<Simulator> Serving(const Setup& setup) {
    auto sim = Use(setup);
    sim->RunFor(5000);
    return sim;
  }
  nlohmann::json Fail(Simulator* sim) { return End(sim, "service_failed"); }

  // Milliseconds that a start takes from now on, whose processes need so much memory of their own.
  uint64_t Restart(Simulator* sim, const Setup& setup, uint64_t own = 0) {
    const uint64_t began = sim->ms();
    EXPECT_EQ(Start(sim, setup)["mode"], "use");
    sim->set_other(own);
    sim->readers.clear();
    AddReaders(sim, setup);
    for (Reader& reader : sim->readers) reader.pid += 50;
    EXPECT_TRUE(sim->Run(120000));
    return sim->ms() - began;
  }
};

// Told three seconds before the new process, in which half of the model does not fit all the same.
TEST_F(MaioRecoverTest, TheNextStartFindsWhatWasLoadedMeanwhile) {
  Record(setup_);
  uint64_t took_ms[2] = {};
  uint64_t read[2] = {};
  for (const bool is_told : {false, true}) {
    auto sim = Serving(setup_);  // it did not fit: nothing of it stays
    EXPECT_EQ(sim->resident(), 0u);
    const uint64_t before = sim->disk_bytes;
    const nlohmann::json reply = is_told ? Fail(sim.get()) : End(sim.get(), "service_stop");
    EXPECT_EQ(reply.value("wait_s", 0), is_told ? 60 : 0) << reply;
    sim->RunFor(3000);
    EXPECT_LE(sim->resident(), setup_.options.limit * 85 / 100);
    EXPECT_GE(sim->resident(), is_told ? setup_.options.limit * 75 / 100 : 0);
    took_ms[is_told] = Restart(sim.get(), setup_);
    read[is_told] = sim->disk_bytes - before;
    EXPECT_LE(sim->peak, setup_.options.limit * 85 / 100 + 4 * kMiB);
    EXPECT_EQ(sim->reclaimed_bytes, 0u);
  }
  RecordProperty("told_percent", static_cast<int>(took_ms[1] * 100 / took_ms[0]));
  EXPECT_LE(took_ms[1] * 100, took_ms[0] * 65) << took_ms[1] << " of " << took_ms[0];
  EXPECT_LE(read[1] * 100, read[0] * 102);  // nothing twice
}

// Killed half way: what was loaded ahead of it stays, and the beginning comes beside it.
TEST_F(MaioRecoverTest, KilledHalfWay) {
  Record(setup_);
  setup_.rate = 90 << 10;  // the loader is ahead of them
  auto sim = Begin(setup_);
  while (sim->readers[0].at < sim->readers[0].accesses.size() / 2) sim->RunFor(1);
  sim->readers.clear();
  const uint64_t left = sim->resident();
  ASSERT_GT(left, 0u);
  const uint64_t before = sim->disk_bytes;
  Fail(sim.get());
  sim->RunFor(3000);
  EXPECT_GE(sim->resident() + 8 * kMiB, setup_.options.limit * 80 / 100);
  setup_.rate = 400 << 10;
  Restart(sim.get(), setup_);
  // Nothing that was there is read again, but for a little that made room.
  EXPECT_LE(sim->disk_bytes - before, model_.bytes() - left + model_.bytes() / 20);
  EXPECT_EQ(sim->reclaimed_bytes, 0u);
}

// Killed half way and replaced at once, its memory full of what comes late: what the dead process
// had of its own is room when the service begins, and the next one's own a moment later.
struct Replaced {
  uint64_t missing = 0;  // bytes
  uint64_t took = 0;     // of the disk's time, in bytes
  uint64_t read = 0;     // bytes
};

class MaioReplaceTest : public MaioRecoverTest {
 protected:
  Replaced Replace(uint64_t demand_latency_ms) {
    constexpr uint64_t kOwnBytes = 12 * kMiB;
    Setup setup = Scarce();
    setup.options.demand_latency_ms = demand_latency_ms;
    Record(setup);
    setup.rate = 90 << 10;
    auto sim = Make(setup);
    sim->set_other(kOwnBytes);
    Start(sim.get(), setup);
    AddReaders(sim.get(), setup);
    while (sim->readers[0].at < sim->readers[0].accesses.size() / 2) sim->RunFor(1);
    sim->readers.clear();
    sim->set_other(0);
    Replaced out;
    out.missing = model_.bytes() - sim->resident();
    const uint64_t before = sim->disk_bytes;
    setup.rate = 400 << 10;
    out.took = Restart(sim.get(), setup, kOwnBytes) * setup.options.disk_bytes_per_ms;
    out.read = sim->disk_bytes - before;
    EXPECT_EQ(sim->reclaimed_bytes, 0u);
    RecordProperty("bound_percent", static_cast<int>(out.took * 100 / out.missing));
    RecordProperty("missing_percent", static_cast<int>(out.read * 100 / out.missing));
    return out;
  }
};

TEST_F(MaioReplaceTest, AtOnce) {
  const Replaced out = Replace(4);
  EXPECT_LE(out.took * 100, out.missing * 115);
  EXPECT_LE(out.read * 100, out.missing * 110);
}

// Where what is not loaded ahead is slow: natively, as it would read in the room that there is, it
// takes three times as long.
TEST_F(MaioReplaceTest, AtOnceFromASlowDisk) {
  const Replaced out = Replace(40);
  EXPECT_LE(out.took * 100, out.missing * 250);
}

// The start joins, it does not begin anew: what was asked for is not asked for again.
TEST_F(MaioRecoverTest, TheStartJoins) {
  Record(setup_);
  auto sim = Serving(setup_);
  const uint64_t before = sim->disk_bytes;
  Fail(sim.get());
  sim->RunFor(1000);
  const uint64_t asked = sim->stats["asked_bytes"];
  EXPECT_GE(asked, 64 * kMiB);
  Start(sim.get(), setup_);
  sim->RunFor(1000);
  EXPECT_EQ(sim->stats["asked_bytes"], asked);        // there is no room for more
  EXPECT_LE(sim->disk_bytes - before, asked + kMiB);  // and the small files
}

// What is loaded by headers for an awaited start is part of the recording that the start joins.
TEST_F(MaioRecoverTest, AStartThatIsRecordedJoins) {
  auto sim = Make(setup_);
  Start(sim.get(), setup_);
  Fail(sim.get());
  sim->RunFor(1000);
  sim->log.clear();
  EXPECT_EQ(Start(sim.get(), setup_)["mode"], "record");
  EXPECT_TRUE(sim->log.empty()) << sim->log.front();
  AddReaders(sim.get(), setup_);
  EXPECT_EQ(Finish(sim.get())["reason"], "template stored");
}

TEST_F(MaioRecoverTest, NobodyComesAndTheMemoryIsGivenBack) {
  Record(setup_);
  auto sim = Serving(setup_);
  const uint64_t stays = sim->resident();
  for (int told = 0; told < 2; told++) {  // by two, perhaps
    EXPECT_EQ(Fail(sim.get())["wait_s"], 60);
    sim->RunFor(1500);
  }
  EXPECT_GT(sim->resident(), 2 * stays);
  End(sim.get(), "service_stop");
  sim->RunFor(12000);
  EXPECT_EQ(sim->resident(), stays);
  EXPECT_EQ(sim->want, 0u);
}

// What the failed process did last may be told after its failure: that is not the next one.
TEST_F(MaioRecoverTest, WhatIsToldLateIsNobodysStart) {
  Record(setup_);
  auto sim = Serving(setup_);
  const uint64_t stays = sim->resident();
  const Access last = sim->readers[0].accesses[sim->readers[0].accesses.size() / 2];
  Fail(sim.get());
  sim->TellLate(sim->readers[0], last.file, last.offset / kPage, 20);
  sim->RunFor(1500);
  EXPECT_GT(sim->resident(), stays + 32 * kMiB);
  End(sim.get(), "service_stop");
  sim->RunFor(12000);
  EXPECT_EQ(sim->resident(), stays);
}

// It fitted: what the failed process had is there as it was.
TEST_F(MaioRecoverTest, WhatWasThereBeforeStays) {
  Setup setup;
  Record(setup);
  auto sim = Serving(setup);
  const uint64_t stays = sim->resident();
  EXPECT_GE(stays, model_.bytes());
  const uint64_t before = sim->disk_bytes;
  Fail(sim.get());
  sim->RunFor(3000);
  End(sim.get(), "service_stop");
  sim->RunFor(12000);
  EXPECT_EQ(sim->resident(), stays);
  EXPECT_EQ(sim->disk_bytes, before);
}

// Others' pages are not what another number of workers needs in that order: it begins anew.
TEST_F(MaioRecoverTest, AnotherShapeOfStartDoesNotJoin) {
  Record(setup_);
  auto sim = Use(setup_);
  Fail(sim.get());
  sim->RunFor(1000);
  nlohmann::json message = StartMessage(setup_);
  message["xpus"] = {1, 0};
  Settle(sim.get(), message);
  AddReaders(sim.get(), setup_);
  EXPECT_TRUE(sim->Run(120000));
  EXPECT_EQ(sim->reclaimed_bytes, 0u);
}

TEST_F(MaioRecoverTest, SwitchedOffNothingIsLoaded) {
  Record(setup_);
  setup_.config["recover_s"] = 0;
  auto sim = Serving(setup_);
  const uint64_t before = sim->disk_bytes;
  EXPECT_EQ(Fail(sim.get())["wait_s"], 0);
  sim->RunFor(3000);
  EXPECT_EQ(sim->disk_bytes, before);
  // Told by name it is another matter.
  const nlohmann::json reply =
      sim->Control({{"op", "service_failed"}, {"service_id", kId}, {"wait_s", 7}});
  EXPECT_EQ(reply["wait_s"], 7) << reply;
  sim->RunBackground();
  sim->RunFor(3000);
  EXPECT_GT(sim->disk_bytes, before);
}

TEST_F(MaioRecoverTest, RefusesNonsense) {
  auto sim = Make(setup_);
  EXPECT_TRUE(Fail(sim.get()).contains("error"));  // never started
  Start(sim.get(), setup_);
  for (const nlohmann::json& wait :
       {nlohmann::json(0), nlohmann::json(3601), nlohmann::json("soon")}) {
    const nlohmann::json reply =
        sim->Control({{"op", "service_failed"}, {"service_id", kId}, {"wait_s", wait}});
    ASSERT_TRUE(reply.contains("error")) << wait;
    EXPECT_TRUE(Has(reply["error"].get<std::string>(), "wait_s")) << reply;
  }
}

// Before anything was recorded there is nothing to load but what the headers say.
TEST_F(MaioRecoverTest, AFirstStartThatFailsIsRecordedAgain) {
  Setup setup;
  auto sim = Make(setup);
  EXPECT_EQ(Start(sim.get(), setup)["mode"], "record");
  Fail(sim.get());
  sim->RunFor(1000);
  EXPECT_EQ(Start(sim.get(), setup)["mode"], "record");
  AddReaders(sim.get(), setup);
  EXPECT_EQ(Finish(sim.get())["reason"], "template stored");
}

// What a service takes for itself before it reads its model is not filled with the model first.

class MaioOwnMemoryTest : public MaioTest {
 protected:
  // A start whose service takes memory of its own before it reads.
  std::unique_ptr<Simulator> Run(const Setup& setup, uint64_t own) {
    auto sim = Begin(setup);
    sim->RunFor(setup.init_ms - 100);
    sim->set_other(own);
    EXPECT_EQ(Finish(sim.get()).value("error", ""), "");
    EXPECT_EQ(sim->evicted_of[1], sim->evicted_bytes);
    return sim;
  }
};

TEST_F(MaioOwnMemoryTest, ItIsLeftOnceItIsKnown) {
  setup_.shape.shard_bytes = 192ull << 20;
  setup_.shape.tensor_bytes = 24ull << 20;
  setup_.rate = 480 << 10;
  setup_.options.disk_bytes_per_ms = 1600 << 10;
  setup_.init_ms = 2000;
  const uint64_t bytes = Model{setup_.shape, 0, {}}.bytes();
  const uint64_t own = bytes / 12;
  setup_.options.limit = bytes / 2;
  Run(setup_, 0);  // recorded when it took nothing
  const auto unaware = Run(setup_, own);
  EXPECT_GT(unaware->reread_bytes, own / 2);
  EXPECT_GT(unaware->evicted_bytes, own);
  for (const auto& entry : std::filesystem::directory_iterator(store_.Root()))
    std::filesystem::remove_all(entry);
  Run(setup_, own);
  const auto aware = Run(setup_, own);
  EXPECT_LT(aware->reread_bytes, unaware->reread_bytes / 4);
  EXPECT_LE(aware->ms(), unaware->ms());
  // Another time it takes less, and what was left is loaded as soon as it reads.
  const auto modest = Run(setup_, 0);
  EXPECT_LT(modest->reread_bytes, own / 4);
  // Where it was recorded without a limit it is known as well.
  for (const auto& entry : std::filesystem::directory_iterator(store_.Root()))
    std::filesystem::remove_all(entry);
  const uint64_t limit = std::exchange(setup_.options.limit, 64ull << 30);
  setup_.options.is_cgroup = false;
  Run(setup_, own);
  setup_.options.limit = limit;
  setup_.options.is_cgroup = true;
  const auto limited = Run(setup_, own);
  EXPECT_LT(limited->reread_bytes, unaware->reread_bytes / 4);
}

}  // namespace
}  // namespace ppc::test
