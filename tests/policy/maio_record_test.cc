// SPDX-License-Identifier: Apache-2.0
// How a recording ends, which recordings are doubtful, and what becomes of them.
#include <filesystem>
#include <fstream>
#include <random>

#include "policies/maio/template/template.h"
#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

class MaioRecordTest : public MaioTest {
 protected:
  // A start that is stopped after `ms`; 0: runs to its end and becomes ready.
  nlohmann::json Run(const Setup& setup, uint64_t ms) {
    sim_.reset();  // the library holds one policy at a time
    sim_ = Make(setup);
    started_ = Start(sim_.get(), setup);
    AddReaders(sim_.get(), setup);
    if (ms != 0) {
      sim_->RunFor(ms);
      return End(sim_.get(), "service_stop");
    }
    return Finish(sim_.get());
  }
  static void Tell(HostedPolicy* host, const char* op) {
    (void)host->Control({{"op", op}, {"service_id", kId}, {"service", 1}});
    host->RunBackground();
  }
  std::string Mode() { return StatusOf(sim_.get())["mode"]; }
  std::unique_ptr<Simulator> sim_;
  nlohmann::json started_;
};

TEST_F(MaioRecordTest, RestEndsARecordingToo) {
  auto sim = Begin(setup_);
  ASSERT_TRUE(sim->Run(60000));
  sim->RunFor(8000);
  EXPECT_FALSE(IsStored());
  sim->RunFor(4000);
  EXPECT_EQ(Stored().flags, maio::kComplete | maio::kTraced);
  EXPECT_EQ(StatusOf(sim.get())["mode"], "serving");
  EXPECT_EQ(sim->want, 0u) << "accesses are still traced";
  // Nothing came after it: what was stored stays as it is.
  End(sim.get(), "service_stop");
  EXPECT_EQ(Stored().flags, maio::kComplete | maio::kTraced);
}

// `ppcctl run` starts the command while the service starts.
TEST_F(MaioRecordTest, ALoadThatBeganBeforeItsServiceIsRecordedFromItsBeginning) {
  setup_.init_ms = 0;
  setup_.order = {0};
  setup_.xpus = setup_.reader_xpus = {0};
  auto sim = Make(setup_);
  AddReaders(sim.get(), setup_);
  sim->RunFor(10);
  EXPECT_EQ(Start(sim.get(), setup_)["mode"], "record");
  EXPECT_EQ(Finish(sim.get())["reason"], "template stored");
  EXPECT_EQ(Stored().flags & maio::kPartial, 0U);
  uint64_t read = 0;
  for (const Access& access : WorkerAccesses(model_, 0)) read += access.size;
  EXPECT_EQ(maio::DistinctBytes(Stored()), read);
}

// What begins an automatic service comes before it.
TEST_F(MaioRecordTest, AStartWhoseReadsCameBeforeItTookNoTime) {
  HostedPolicy host(PolicyPath("maio"));
  host.template_dir = store_.Root();
  host.AddFile("m.gguf", 4 * kMiB);
  ASSERT_EQ(host.Init(), 0);
  const miss_io event = host.Event(PPC_ACCESS, 1, 0, kMiB);
  host.now_ns += 1'000'000;
  Tell(&host, "service_start");
  host.ops().ppc_event(&event);
  Tell(&host, "service_ready");
  EXPECT_EQ(nlohmann::json::parse(Stored().meta)["load_ms"], 0);
}

// A sparse file may be of any size, and its first event may come anywhere.
TEST_F(MaioRecordTest, AFirstEventFarIntoAFileCostsNoLookAtAllBeforeIt) {
  constexpr uint64_t kFar = 1ull << 40;
  for (const uint64_t at : {kFar, 512 * kMiB}) {
    HostedPolicy host(PolicyPath("maio"));
    host.AddFile("m.gguf", 2 * kFar);
    ASSERT_EQ(host.Init(), 0);
    Tell(&host, "service_start");
    miss_io event = host.Event(PPC_ACCESS, 1, at, kMiB);
    host.ops().ppc_event(&event);
    EXPECT_EQ(host.most_looked, at == kFar ? 4 * kMiB : at);
  }
}

// A reader that pauses for longer than a recording waits is recorded to its end.
TEST_F(MaioRecordTest, ARecordingGoesOnWithItsReader) {
  uint64_t bytes[2] = {};
  for (const uint64_t pause_ms : {0, 20000}) {
    Setup setup;
    auto sim = Begin(setup);
    PauseHalfWay(sim.get(), 2000 + pause_ms);
    ASSERT_TRUE(sim->Run(60000));
    sim->RunFor(12000);
    for (const auto& group : Stored().groups) bytes[pause_ms != 0] += maio::SequenceBytes(group);
    std::filesystem::remove(Path());
  }
  EXPECT_NEAR(static_cast<double>(bytes[1]), static_cast<double>(bytes[0]), 1 << 20);
}

// A service may compute from its mappings while its start is still recorded.
TEST_F(MaioRecordTest, RepeatedPassesDoNotKeepARecordingGoing) {
  sim_ = Begin(setup_);
  for (Reader& r : sim_->readers) {
    const std::vector<Access> pass = r.accesses;
    for (int i = 0; i < 20; i++) r.accesses.insert(r.accesses.end(), pass.begin(), pass.end());
  }
  sim_->RunFor(10000);
  EXPECT_EQ(Mode(), "record");
  sim_->RunFor(4000);
  EXPECT_EQ(Mode(), "serving");
  EXPECT_FALSE(sim_->readers[0].finished());
  EXPECT_EQ(maio::DistinctBytes(Stored()), model_.bytes() + 8192);
}

// The load lasts longer than a recording waits for its readers.
TEST_F(MaioRecordTest, NewPagesKeepARecordingGoing) {
  setup_.rate = 4 << 10;
  sim_ = Begin(setup_);
  sim_->RunFor(15000);
  EXPECT_FALSE(sim_->readers[0].finished());
  EXPECT_FALSE(IsStored());
  EXPECT_EQ(Mode(), "record");
}

// An index, or a memory image that its machine goes on with.
TEST_F(MaioRecordTest, NewPagesHereAndThereKeepItGoingForAWhileAlone) {
  for (const bool in_order : {false, true}) {
    uint64_t file = 0;
    sim_.reset();
    sim_ = Make(setup_, [&](Simulator* sim) { file = sim->AddFile("index.bin", 2048 * kMiB); });
    Start(sim_.get(), setup_);
    Reader reader{.bytes_per_ms = 4096, .accesses = {}};
    std::minstd_rand random(1);
    for (uint64_t i = 0; i < 400'000; i++)
      reader.accesses.push_back(
          {file, (in_order ? i : random() % (2048 * 256)) * 4096, 4096, 0, 0});
    sim_->readers = {reader};
    sim_->RunFor(290'000);
    EXPECT_EQ(Mode(), "record");
    sim_->RunFor(30'000);
    EXPECT_EQ(Mode(), in_order ? "record" : "serving");
    EXPECT_FALSE(sim_->readers[0].finished());
    sim_->RunFor(20'000);
    EXPECT_EQ(Mode(), in_order ? "record" : "serving");
    End(sim_.get(), "service_stop");
    std::filesystem::remove(Path());
  }
}

// After it has read the listed half, a service may compute from it: loading that half ahead once
// more would take the memory that is short.  The other half is recorded all the same.
TEST_F(MaioRecordTest, AFollowedTemplateEndsBeforeItsRecordingAndDoesNotBeginAgain) {
  setup_.options.limit = 24 * kMiB;
  const auto read_half = [&] {
    sim_.reset();
    sim_ = Begin(setup_);
    EndHalfWay(sim_.get());
    ASSERT_TRUE(sim_->Run(60000));
  };
  const auto loaded = [&] { return sim_->disk_bytes - sim_->demand_bytes; };
  read_half();
  EXPECT_EQ(End(sim_.get(), "service_stop")["reason"], "template stored");
  read_half();
  sim_->RunFor(4000);
  EXPECT_EQ(Mode(), "record");
  const uint64_t before = loaded();
  const uint64_t dropped = sim_->evicted_bytes;
  EXPECT_GT(before, 24 * kMiB) << "what is listed is loaded ahead";
  EXPECT_GT(dropped, 0u);
  sim_->DropAll();  // now there is room to load
  sim_->readers.clear();
  AddReaders(sim_.get(), setup_);
  ASSERT_TRUE(sim_->Run(60000));
  EXPECT_EQ(loaded(), before);
  EXPECT_EQ(sim_->evicted_bytes, dropped);
  EXPECT_EQ(End(sim_.get(), "service_ready")["reason"], "template stored");
  EXPECT_EQ(maio::DistinctBytes(Stored()), model_.bytes() + 8192);
}

TEST_F(MaioRecordTest, APartialTemplateIsFollowedAndRecordedAnew) {
  EXPECT_EQ(Run(setup_, 1000)["reason"], "template stored");
  const uint64_t part = maio::DistinctBytes(Stored());
  EXPECT_TRUE(Stored().flags & maio::kPartial);
  // What it has is loaded ahead of the readers, and the whole is recorded meanwhile.
  EXPECT_EQ(Run(setup_, 0)["reason"], "template stored");
  EXPECT_EQ(started_["mode"], "record");
  EXPECT_TRUE(Has(started_["reason"].get<std::string>(), "to be repeated"));
  EXPECT_LE(sim_->demand_bytes, model_.bytes() + 8192 - part + 2 * kMiB);
  EXPECT_EQ(sim_->reread_bytes, 0u);
  EXPECT_EQ(Stored().flags, maio::kComplete | maio::kTraced);
  EXPECT_EQ(maio::DistinctBytes(Stored()), model_.bytes() + 8192);
  Run(setup_, 0);
  EXPECT_EQ(started_["mode"], "use");
}

TEST_F(MaioRecordTest, AShorterRecordingReplacesNothing) {
  Run(setup_, 1000);
  const uint64_t part = maio::DistinctBytes(Stored());
  EXPECT_NE(Run(setup_, 650)["reason"], "template stored");
  EXPECT_EQ(maio::DistinctBytes(Stored()), part);
  // One that got further does.
  EXPECT_EQ(Run(setup_, 1200)["reason"], "template stored");
  EXPECT_GT(maio::DistinctBytes(Stored()), part);
  EXPECT_TRUE(Stored().flags & maio::kPartial);
}

TEST_F(MaioRecordTest, ACompleteTemplateOutlivesAStoppedRecording) {
  Record(setup_);
  setup_.config = {{"record", "always"}};
  EXPECT_NE(Run(setup_, 1000)["reason"], "template stored");
  EXPECT_EQ(Stored().flags, maio::kComplete | maio::kTraced);
  EXPECT_EQ(maio::DistinctBytes(Stored()), model_.bytes() + 8192);
}

TEST_F(MaioRecordTest, AskedToRecordAgainItFollowsWhatItHas) {
  Record(setup_);
  maio::Template t = Stored();
  t.flags |= maio::kRerecord;
  Store(t);
  EXPECT_EQ(Run(setup_, 0)["reason"], "template stored");
  EXPECT_EQ(started_["mode"], "record");
  EXPECT_LE(sim_->demand_bytes, 2 * kMiB);
  EXPECT_EQ(Stored().flags, maio::kComplete | maio::kTraced);
  EXPECT_EQ(Stored().generation, t.generation + 1);
  EXPECT_EQ(maio::DistinctBytes(Stored()), model_.bytes() + 8192);
}

TEST_F(MaioRecordTest, StoppedBeforeItWasRecordedAgainItIsStillAsked) {
  Record(setup_);
  maio::Template t = Stored();
  t.flags |= maio::kRerecord;
  Store(t);
  Run(setup_, 1000);
  EXPECT_EQ(Stored().flags, t.flags);
  setup_.config = {{"record", "never"}};
  Run(setup_, 0);
  EXPECT_EQ(started_["mode"], "use");
}

// Misses alone (a module without TRACE) do not show what was cached already.
class MaioMissRecordTest : public MaioRecordTest {
 protected:
  static constexpr uint32_t kTraced = maio::kComplete | maio::kTraced;
  uint32_t FlagsWhenCached(uint64_t bytes_per_shard, bool trace, const Setup& other = {}) {
    Setup setup = other;
    if (!trace) setup.no_caps = PPC_CAN_TRACE;
    auto sim = Make(setup);
    for (const uint64_t shard : model_.shards) sim->residency[shard].resident = bytes_per_shard;
    Start(sim.get(), setup);
    AddReaders(sim.get(), setup);
    EXPECT_EQ(Finish(sim.get())["reason"], "template stored");
    const uint32_t flags = Stored().flags;
    std::filesystem::remove(Path());
    return flags;
  }
};

TEST_F(MaioMissRecordTest, OfACacheThatWasWarmItIsSuspect) {
  EXPECT_EQ(FlagsWhenCached(8 * kMiB, false), maio::kComplete | maio::kWarmSuspect);
  EXPECT_EQ(FlagsWhenCached(kMiB, false), maio::kComplete) << "its own first windows";
  EXPECT_EQ(FlagsWhenCached(8 * kMiB, true), kTraced) << "the cache does not matter";
  // The observer does not see what is mapped by huge pages.
  Setup observer;
  observer.more_caps = PPC_MISSES_HUGE;
  EXPECT_EQ(FlagsWhenCached(20 * kMiB, true, observer), kTraced | maio::kWarmSuspect);
  EXPECT_EQ(FlagsWhenCached(kMiB, true, observer), kTraced) << "it is missed";
  observer.is_mapped = false;
  EXPECT_EQ(FlagsWhenCached(20 * kMiB, true, observer), kTraced);
}

// Nothing comes of a huge page but its miss; smaller ones are read ahead for whoever reads on.
TEST_F(MaioRecordTest, AHugePageCountsAsReadWithItsMiss) {
  constexpr uint64_t kHuge = 2 * kMiB;
  for (const bool misses_huge : {true, false}) {
    const TempTree store;
    HostedPolicy host(PolicyPath("maio"));
    host.template_dir = store.Root();
    if (misses_huge) host.caps |= PPC_MISSES_HUGE;
    host.memory.limit = host.memory.threshold = host.memory.room = 1ull << 30;
    const uint64_t model = host.AddFile("m.safetensors", 64 * kMiB);
    ASSERT_EQ(host.Init(), 0);
    Tell(&host, "service_start");
    const auto comes = [&](uint32_t kind, uint64_t offset, uint64_t bytes) {
      miss_io event = host.Event(kind, model, offset, bytes);
      event.service = 1;
      event.flags = PPC_F_MMAP;
      if (kind == PPC_ACCESS) return (void)host.ops().ppc_event(&event);
      (void)host.ops().ppc_prefetch(&event);
    };
    comes(PPC_ACCESS, 0, kMiB);
    comes(PPC_MISS_FAULT, 8 * kMiB, kHuge);
    comes(PPC_MISS_FAULT, 16 * kMiB, kMiB);
    Tell(&host, "service_ready");
    const maio::Template recorded = Stored(maio::TemplatePath(store.Root(), kId));
    EXPECT_EQ(maio::DistinctBytes(recorded), kMiB + (misses_huge ? kHuge : 0));
  }
}

TEST_F(MaioRecordTest, ASuspectTemplateIsRecordedAnew) {
  Record(setup_);
  maio::Template t = Stored();
  t.flags = maio::kComplete | maio::kWarmSuspect;
  Store(t);
  EXPECT_EQ(Run(setup_, 0)["reason"], "template stored");
  EXPECT_EQ(started_["mode"], "record");
  EXPECT_EQ(Stored().flags, maio::kComplete | maio::kTraced);
}

// A hook neither reads files nor waits for the store.
TEST_F(MaioTest, SlowWorkIsDoneInTheBackground) {
  auto sim = Make(setup_);
  const nlohmann::json message = StartMessage(setup_);
  EXPECT_EQ(sim->Control(message)["mode"], "starting");
  EXPECT_NE(sim->want & PPC_WANT_TRACE, 0u) << "its first reads are recorded, too";
  // They come before it is known what to do with them.
  AddReaders(sim.get(), setup_);
  ASSERT_TRUE(sim->Run(60000));
  const uint64_t reads = sim->reads;
  const nlohmann::json ready = sim->Control({{"op", "service_ready"}, {"service_id", kId}});
  EXPECT_EQ(ready["reason"], "its template is being stored");
  EXPECT_EQ(sim->reads, reads);
  EXPECT_FALSE(IsStored());
  // Started again at once, it waits for it.
  EXPECT_EQ(sim->Control(message)["mode"], "starting");
  EXPECT_EQ(sim->reads, reads);
  sim->RunBackground();
  EXPECT_GT(sim->reads, reads);
  EXPECT_TRUE(IsStored());
  EXPECT_EQ(StatusOf(sim.get())["mode"], "use");
  EXPECT_EQ(sim->want & PPC_WANT_TRACE, 0u);
}

TEST_F(MaioTest, ATemplateThatCannotBeStoredIsToldOfOnce) {
  std::ofstream(store_.Root() + "/file") << "no directory";
  auto sim = Begin(setup_, nullptr,
                   [&](Simulator* made) { made->template_dir = store_.Root() + "/file/no"; });
  ASSERT_TRUE(sim->Run(60000));
  sim->log.clear();
  sim->RunFor(32000);
  EXPECT_EQ(sim->log.size(), 1u);
}

}  // namespace
}  // namespace ppc::test
