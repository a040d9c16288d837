// SPDX-License-Identifier: Apache-2.0
// MAIO in the simulated machine: record, prefetch, affinity, burn after reading.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "policies/maio/template/template.h"
#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

TEST_F(MaioTest, RecordsWhatEachWorkerReads) {
  Record(setup_);
  const maio::Template t = Stored();
  EXPECT_EQ(t.flags, maio::kComplete | maio::kTraced);
  ASSERT_EQ(t.groups.size(), 3u);
  EXPECT_EQ(t.groups[0].id, 0u);
  EXPECT_EQ(t.groups[1].id, 1u);
  EXPECT_EQ(t.groups[2].id, maio::kCommonGroup);  // small files are everybody's
  EXPECT_EQ(maio::SequenceBytes(t.groups[2]), 8192u);
  EXPECT_EQ(maio::DistinctBytes(t), model_.bytes() + 8192);
  uint64_t expected = 0;
  for (const Access& a : WorkerAccesses(model_, 0)) expected += a.size;
  EXPECT_EQ(maio::SequenceBytes(t.groups[0]), expected);
  EXPECT_EQ(t.files.size(), 5u);
}

// More than a word has bits.
TEST_F(MaioTest, HundredsOfWorkersOnANode) {
  for (const uint32_t workers : {64u, 65u, 256u}) {
    Setup setup;
    setup.shape = {.shards = 1, .tensor_bytes = workers * (32ull << 10), .workers = workers};
    setup.order.resize(workers);
    std::iota(setup.order.begin(), setup.order.end(), 0);
    setup.xpus.assign(setup.order.begin(), setup.order.end());
    setup.reader_xpus = setup.xpus;
    setup.is_mapped = false;  // the machine tells 32 processes apart by their mappings
    for (const char* mode : {"record", "use"}) {
      auto sim = Begin(setup, mode, [&](Simulator* made) { made->xpu_nodes.assign(workers, 0); });
      status_ = Finish(sim.get());
      if (mode == std::string("record")) continue;
      EXPECT_LE(sim->demand_bytes, 2 * kMiB) << workers;
      EXPECT_EQ(sim->reread_bytes, 0u) << workers;
      EXPECT_EQ(status_["unknown"], 0) << status_;
      EXPECT_EQ(status_["over_prefetch"], 0) << status_;
      EXPECT_GE(status_["groups"].size(), workers);
    }
    std::filesystem::remove(Path());
  }
}

TEST_F(MaioTest, SwitchesWorkAlone) {
  Record(setup_);
  setup_.config = {{"affinity", false}};
  auto sim = Use(setup_);
  EXPECT_EQ(sim->node_bytes[0] + sim->node_bytes[1], 0u);
  setup_.config = {{"prefetch", false}};
  sim = Use(setup_);
  EXPECT_EQ(sim->disk_bytes, sim->demand_bytes);
  setup_.config = {{"bar", false}};
  setup_.options.limit = 64 * kMiB;
  sim = Use(setup_);
  EXPECT_EQ(sim->evicted_bytes, 0u);
}

TEST_F(MaioTest, SharedPagesWaitForTheSlowestReader) {
  setup_.shape.shards = 8;
  Record(setup_);
  setup_.options.limit = 128 * kMiB;
  auto sim = Begin(setup_);
  sim->readers[1].bytes_per_ms = setup_.rate / 2;
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->refault_bytes, 0u);
  EXPECT_EQ(sim->reclaimed_bytes, 0u);
  EXPECT_EQ(sim->reread_bytes, 0u);
}

// Loaders with threads: every worker reads its shards side by side, and not in the same
// interleaving as when it was recorded.
TEST_F(MaioTest, ThreadsReadFilesSideBySide) {
  setup_.shape.shards = 8;
  auto split = [&](Simulator* sim, uint64_t skew) {
    std::vector<Reader> threads;
    for (Reader& r : sim->readers) {
      for (size_t t = 0; t < 4; t++) {
        Reader thread = r;
        thread.bytes_per_ms = r.bytes_per_ms / 4 + skew * t * 1024;
        thread.accesses.clear();
        for (const Access& a : r.accesses) {
          if (a.file % 4 == t) thread.accesses.push_back(a);
        }
        threads.push_back(thread);
      }
    }
    sim->readers = threads;
  };
  Record(setup_, [&](Simulator* sim) { split(sim, 0); });
  setup_.options.limit = 128 * kMiB;
  auto sim = Begin(setup_, "use");
  split(sim.get(), 1);
  const nlohmann::json status = Finish(sim.get());
  EXPECT_EQ(sim->reclaimed_bytes, 0u);
  EXPECT_LE(sim->refault_bytes, model_.bytes() / 200) << status;
  EXPECT_LE(sim->reread_bytes, model_.bytes() / 50) << status;
  EXPECT_LE(sim->demand_bytes, model_.bytes() / 10) << status;
  for (const auto& group : status["groups"]) {
    EXPECT_GE(group["consumed"].get<uint64_t>(), group["total"].get<uint64_t>() * 95 / 100)
        << status;
  }
}

// Names sort as text (layer 10 before layer 9), so a loader that walks layers jumps in the file.
TEST_F(MaioTest, TensorsOutOfFileOrder) {
  setup_.shape.shards = 8;
  auto shuffle = [&](Simulator* sim) {
    for (Reader& r : sim->readers) {
      for (size_t at = 1; at + 8 <= r.accesses.size(); at += 8) {
        std::rotate(r.accesses.begin() + static_cast<long>(at),
                    r.accesses.begin() + static_cast<long>(at) + 5,
                    r.accesses.begin() + static_cast<long>(at) + 8);
      }
    }
  };
  Record(setup_, shuffle);
  setup_.options.limit = 128 * kMiB;
  auto sim = Begin(setup_, "use");
  shuffle(sim.get());
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->reread_bytes, 0u);
  EXPECT_EQ(sim->reclaimed_bytes, 0u);
  for (const Reader& r : sim->readers) EXPECT_LE(r.stall_ms, 60u);
}

// Vocabulary: an anonymous allocation of the service makes room shrink in the middle of the load.
TEST_F(MaioTest, RoomShrinksWhileLoading) {
  setup_.shape.shards = 8;
  Record(setup_);
  setup_.options.limit = 160 * kMiB;
  auto sim = Begin(setup_);
  sim->RunFor(900);
  for (uint64_t other = 4 * kMiB; other <= 60 * kMiB; other += 4 * kMiB) {
    sim->set_other(other);
    sim->RunFor(20);
  }
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->reclaimed_bytes, 0u);
  EXPECT_LE(sim->reread_bytes, 60 * kMiB);
}

// All of the model is there when the service takes memory for itself: what its reader may compute
// from is not dropped for that.
TEST_F(MaioTest, RoomThatNoLoadNeedsIsNotMade) {
  Record(setup_);  // 96 MiB
  setup_.options.limit = 160 * kMiB;
  auto sim = Begin(setup_);
  PauseHalfWay(sim.get(), 60000);
  sim->RunFor(3000);
  ASSERT_GE(sim->resident(), 96 * kMiB);
  sim->set_other(56 * kMiB);
  sim->RunFor(3000);
  EXPECT_EQ(sim->evicted_bytes, 0u);
}

// Two services load the same model, one after the other has begun: pages stay until both have
// read them, and each is followed by itself.
TEST_F(MaioTest, TwoServicesShareAModel) {
  setup_.shape.shards = 8;
  Record(setup_);
  setup_.options.limit = 160 * kMiB;
  auto sim = Begin(setup_, "use");
  sim->services = {1, 2};
  // The second one records: the ID is new.
  nlohmann::json other = StartMessage(setup_);
  other.update({{"service_id", "feedfacefeedface"}, {"service", 2}});
  nlohmann::json reply = Settle(sim.get(), other);
  ASSERT_EQ(reply["mode"], "record");
  EXPECT_EQ(sim->want,
            PPC_WANT_TRACE | PPC_WANT_PROGRESS | PPC_WANT_MANAGED_RA | PPC_WANT_OPENCLOSE);
  sim->RunFor(400);
  AddReaders(sim.get(), setup_);
  for (size_t i = 2; i < 4; i++) {
    sim->readers[i].service = 2;
    sim->readers[i].pid += 20;
  }
  nlohmann::json first = Finish(sim.get());
  EXPECT_EQ(first["groups"][0]["consumed"], first["groups"][0]["total"]) << first;
  reply = Settle(sim.get(), {{"op", "service_ready"}, {"service_id", "feedfacefeedface"}});
  EXPECT_EQ(reply["reason"], "template stored");
  sim->RunFor(12000);  // it did not fit: what is left is dropped
  EXPECT_EQ(sim->want, 0u);
  const maio::Template a = Stored();
  const maio::Template b = Stored(maio::TemplatePath(store_.Root(), "feedfacefeedface"));
  EXPECT_EQ(maio::DistinctBytes(a), maio::DistinctBytes(b));
  ASSERT_EQ(b.groups.size(), 3u);
  EXPECT_EQ(maio::SequenceBytes(a.groups[1]), maio::SequenceBytes(b.groups[1]));
}

// Also what its readers still map.
TEST_F(MaioTest, AtReadyAllIsDropped) {
  Record(setup_);
  setup_.config = {{"at_ready", "all"}};
  auto sim = Use(setup_);
  EXPECT_EQ(sim->want, PPC_WANT_EVICT);
  sim->RunFor(5000);
  EXPECT_EQ(sim->resident(), 0u);
  EXPECT_EQ(sim->want, 0u);
}

// A service that never says ready may compute from what it maps.
TEST_F(MaioTest, AtReadyAllIsDroppedAtTheEndOfTheLoadUnlessMapped) {
  Record(setup_);
  setup_.config = {{"at_ready", "all"}};
  for (const bool is_mapped : {true, false}) {
    setup_.is_mapped = is_mapped;
    auto sim = Begin(setup_, "use");
    ASSERT_TRUE(sim->Run(120000));
    ASSERT_GE(sim->resident(), 96 * kMiB);
    sim->RunFor(10000);
    EXPECT_EQ(StatusOf(sim.get())["mode"], "serving");
    EXPECT_EQ(sim->resident() == 0, !is_mapped) << sim->resident();
    EXPECT_EQ(sim->reread_bytes, 0u);
    Finish(sim.get());
    sim->RunFor(5000);
    EXPECT_LE(sim->resident(), 2 * kPage) << "a fiftieth of a piece is not tried again";
  }
}

// A service that died is started again, on the same node and with half of the memory it needs.
TEST_F(MaioTest, KeptAtReadyItIsThereForTheNextStart) {
  setup_.shape.shards = 8;  // 192 MiB
  setup_.rate = 400 << 10;  // readers faster than the disk
  setup_.init_ms = 0;
  Record(setup_);
  setup_.options.limit = 96 * kMiB;
  uint64_t read[2] = {};
  uint64_t took_ms[2] = {};
  for (const bool is_kept : {false, true}) {
    setup_.config = {{"at_ready", is_kept ? "keep" : "all"}};
    auto sim = Use(setup_);
    sim->RunFor(5000);
    EXPECT_LE(sim->peak, setup_.options.limit * 85 / 100);
    EXPECT_EQ(sim->reread_bytes, 0u);
    End(sim.get(), "service_stop");
    const uint64_t before = sim->disk_bytes;
    const uint64_t began_ms = sim->ms();
    EXPECT_EQ(Start(sim.get(), setup_)["mode"], "use");
    AddReaders(sim.get(), setup_);
    EXPECT_TRUE(sim->Run(120000));
    read[is_kept] = sim->disk_bytes - before;
    took_ms[is_kept] = sim->ms() - began_ms;
  }
  EXPECT_LE(read[1] * 100, read[0] * 82);
  EXPECT_LE(took_ms[1] * 100, took_ms[0] * 85) << took_ms[1] << " of " << took_ms[0];
}

// Its own pages, there from the first run, are no lack of room.
TEST_F(MaioTest, AWarmModelThatFitsStaysAtReady) {
  Record(setup_);  // 96 MiB
  setup_.options.limit = 160 * kMiB;
  auto sim = Use(setup_);
  EXPECT_EQ(status_["constrained"], false);
  EXPECT_EQ(Start(sim.get(), setup_)["constrained"], false);
}

// MAIO asks for loads that can be dropped whoever maps them where the model does not fit, and only
// there.
TEST_F(MaioTest, WhatDoesNotFitIsBurnt) {
  Record(setup_);  // 96 MiB
  for (const uint64_t limit : {48 * kMiB, 160 * kMiB}) {
    setup_.options.limit = limit;
    auto sim = Use(setup_);
    sim->RunFor(100);
    EXPECT_EQ(sim->load_flags.contains(PPC_IO_BURN), limit < 96 * kMiB) << limit;
  }
}

TEST_F(MaioTest, TracesPositionsAndCounts) {
  Record(setup_);
  auto sim = Use(setup_);
  ASSERT_GT(sim->traces.size(), 10u);
  auto line = nlohmann::json::parse(sim->traces.back());
  for (const char* key :
       {"t", "service", "group", "front", "prefetch", "evict", "total", "state"}) {
    EXPECT_TRUE(line.contains(key)) << key;
  }
  EXPECT_EQ(line["front"], line["total"]);
  EXPECT_EQ(line["state"], "SYNC");
  EXPECT_EQ(sim->stats["sync_state"], 0u);
  EXPECT_EQ(sim->stats["coverage_percent"], 100u);
}

}  // namespace
}  // namespace ppc::test
