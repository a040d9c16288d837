// SPDX-License-Identifier: Apache-2.0
//
// How a recording ends, which recordings are doubtful, and what becomes of them.
#include <filesystem>
#include <fstream>

#include "policies/maio/template/template.h"
#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

class MaioRecordTest : public MaioTest {
 protected:
  maio::Template Stored() {
    maio::Template t;
    std::string error;
    EXPECT_EQ(maio::Load(maio::TemplatePath(store_.path(), kId), &t, &error), 0) << error;
    return t;
  }
  void Store(const maio::Template& t) {
    std::string error;
    EXPECT_EQ(maio::Store(store_.path(), t, &error), 0) << error;
  }
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
    EXPECT_TRUE(sim_->Run(120000));
    sim_->RunFor(50);
    return End(sim_.get(), "service_ready");
  }
  std::string Mode() { return sim_->Control({{"op", "status"}})["services"][0]["mode"]; }
  std::unique_ptr<Simulator> sim_;
  nlohmann::json started_;
};

TEST_F(MaioRecordTest, RestEndsARecordingToo) {
  Setup setup;
  auto sim = Make(setup);
  Start(sim.get(), setup);
  AddReaders(sim.get(), setup);
  ASSERT_TRUE(sim->Run(60000));
  sim->RunFor(8000);
  EXPECT_FALSE(std::filesystem::exists(maio::TemplatePath(store_.path(), kId)));
  sim->RunFor(4000);
  EXPECT_EQ(Stored().flags, maio::kComplete | maio::kTraced);
  EXPECT_EQ(sim->Control({{"op", "status"}})["services"][0]["mode"], "serving");
  EXPECT_EQ(sim->want, 0u) << "accesses are still traced";
  // Nothing came after it: what was stored stays as it is.
  End(sim.get(), "service_stop");
  EXPECT_EQ(Stored().flags, maio::kComplete | maio::kTraced);
}

// `ppcctl run` starts the command while the service starts.
TEST_F(MaioRecordTest, ALoadThatBeganBeforeItsServiceIsRecordedFromItsBeginning) {
  Setup setup;
  setup.init_ms = 0;
  setup.order = {0};
  setup.xpus = setup.reader_xpus = {0};
  auto sim = Make(setup);
  AddReaders(sim.get(), setup);
  sim->RunFor(10);
  EXPECT_EQ(Start(sim.get(), setup)["mode"], "record");
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(End(sim.get(), "service_ready")["reason"], "template stored");
  EXPECT_EQ(Stored().flags & maio::kPartial, 0U);
  uint64_t read = 0;
  for (const Access& access : WorkerAccesses(model_, 0)) read += access.size;
  EXPECT_EQ(maio::DistinctBytes(Stored()), read);
}

// A reader that pauses for longer than a recording waits is recorded to its end.
TEST_F(MaioRecordTest, ARecordingGoesOnWithItsReader) {
  uint64_t bytes[2] = {};
  for (const uint64_t pause_ms : {0, 20000}) {
    Setup setup;
    auto sim = Make(setup);
    Start(sim.get(), setup);
    AddReaders(sim.get(), setup);
    for (Reader& r : sim->readers) {
      for (size_t i = r.accesses.size() / 2; i < r.accesses.size(); i++)
        r.accesses[i].not_before_ms = sim->ms() + 2000 + pause_ms;
    }
    ASSERT_TRUE(sim->Run(60000));
    sim->RunFor(12000);
    for (const auto& group : Stored().groups) bytes[pause_ms != 0] += maio::SequenceBytes(group);
    std::filesystem::remove(maio::TemplatePath(store_.path(), kId));
  }
  EXPECT_NEAR(static_cast<double>(bytes[1]), static_cast<double>(bytes[0]), 1 << 20);
}

// A service may compute from its mappings while its start is still recorded.
TEST_F(MaioRecordTest, RepeatedPassesDoNotKeepARecordingGoing) {
  Setup setup;
  sim_ = Make(setup);
  Start(sim_.get(), setup);
  AddReaders(sim_.get(), setup);
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
  Setup setup;
  setup.rate = 4 << 10;
  sim_ = Make(setup);
  Start(sim_.get(), setup);
  AddReaders(sim_.get(), setup);
  sim_->RunFor(15000);
  EXPECT_FALSE(sim_->readers[0].finished());
  EXPECT_FALSE(std::filesystem::exists(maio::TemplatePath(store_.path(), kId)));
  EXPECT_EQ(Mode(), "record");
}

// After it has read the listed half, a service may compute from it: loading that half ahead once
// more would take the memory that is short.  The other half is recorded all the same.
TEST_F(MaioRecordTest, AFollowedTemplateEndsBeforeItsRecordingAndDoesNotBeginAgain) {
  Setup setup;
  setup.options.limit = 24 * kMiB;
  const auto read_half = [&] {
    sim_.reset();
    sim_ = Make(setup);
    started_ = Start(sim_.get(), setup);
    AddReaders(sim_.get(), setup);
    for (Reader& r : sim_->readers) r.accesses.resize(r.accesses.size() / 2);
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
  AddReaders(sim_.get(), setup);
  ASSERT_TRUE(sim_->Run(60000));
  EXPECT_EQ(loaded(), before);
  EXPECT_EQ(sim_->evicted_bytes, dropped);
  EXPECT_EQ(End(sim_.get(), "service_ready")["reason"], "template stored");
  EXPECT_EQ(maio::DistinctBytes(Stored()), model_.bytes() + 8192);
}

TEST_F(MaioRecordTest, APartialTemplateIsFollowedAndRecordedAnew) {
  Setup setup;
  EXPECT_EQ(Run(setup, 1000)["reason"], "template stored");
  const uint64_t part = maio::DistinctBytes(Stored());
  EXPECT_TRUE(Stored().flags & maio::kPartial);
  // What it has is loaded ahead of the readers, and the whole is recorded meanwhile.
  EXPECT_EQ(Run(setup, 0)["reason"], "template stored");
  EXPECT_EQ(started_["mode"], "record");
  EXPECT_NE(started_["reason"].get<std::string>().find("to be repeated"), std::string::npos);
  EXPECT_LE(sim_->demand_bytes, model_.bytes() + 8192 - part + 2 * kMiB);
  EXPECT_EQ(sim_->reread_bytes, 0u);
  EXPECT_EQ(Stored().flags, maio::kComplete | maio::kTraced);
  EXPECT_EQ(maio::DistinctBytes(Stored()), model_.bytes() + 8192);
  Run(setup, 0);
  EXPECT_EQ(started_["mode"], "use");
}

TEST_F(MaioRecordTest, AShorterRecordingReplacesNothing) {
  Setup setup;
  Run(setup, 1000);
  const uint64_t part = maio::DistinctBytes(Stored());
  EXPECT_NE(Run(setup, 800)["reason"], "template stored");
  EXPECT_EQ(maio::DistinctBytes(Stored()), part);
  // One that got further does.
  EXPECT_EQ(Run(setup, 1200)["reason"], "template stored");
  EXPECT_GT(maio::DistinctBytes(Stored()), part);
  EXPECT_TRUE(Stored().flags & maio::kPartial);
}

TEST_F(MaioRecordTest, ACompleteTemplateOutlivesAStoppedRecording) {
  Setup setup;
  Record(setup);
  setup.config = {{"record", "always"}};
  EXPECT_NE(Run(setup, 1000)["reason"], "template stored");
  EXPECT_EQ(Stored().flags, maio::kComplete | maio::kTraced);
  EXPECT_EQ(maio::DistinctBytes(Stored()), model_.bytes() + 8192);
}

TEST_F(MaioRecordTest, AskedToRecordAgainItFollowsWhatItHas) {
  Setup setup;
  Record(setup);
  maio::Template t = Stored();
  t.flags |= maio::kRerecord;
  Store(t);
  EXPECT_EQ(Run(setup, 0)["reason"], "template stored");
  EXPECT_EQ(started_["mode"], "record");
  EXPECT_LE(sim_->demand_bytes, 2 * kMiB);
  EXPECT_EQ(Stored().flags, maio::kComplete | maio::kTraced);
  EXPECT_EQ(Stored().generation, t.generation + 1);
  EXPECT_EQ(maio::DistinctBytes(Stored()), model_.bytes() + 8192);
}

TEST_F(MaioRecordTest, StoppedBeforeItWasRecordedAgainItIsStillAsked) {
  Setup setup;
  Record(setup);
  maio::Template t = Stored();
  t.flags |= maio::kRerecord;
  Store(t);
  Run(setup, 1000);
  EXPECT_EQ(Stored().flags, t.flags);
  setup.config = {{"record", "never"}};
  Run(setup, 0);
  EXPECT_EQ(started_["mode"], "use");
}

// Misses alone (a module without TRACE) do not show what was cached already.
class MaioMissRecordTest : public MaioRecordTest {
 protected:
  uint32_t FlagsWhenCached(uint64_t bytes_per_shard, bool trace, const Setup& other = {}) {
    Setup setup = other;
    if (!trace) setup.no_caps = PPC_CAN_TRACE;
    auto sim = Make(setup);
    for (const uint64_t shard : model_.shards) sim->residency[shard].resident = bytes_per_shard;
    Start(sim.get(), setup);
    AddReaders(sim.get(), setup);
    EXPECT_TRUE(sim->Run(60000));
    EXPECT_EQ(End(sim.get(), "service_ready")["reason"], "template stored");
    return Stored().flags;
  }
};

TEST_F(MaioMissRecordTest, OnAWarmCacheItIsSuspect) {
  EXPECT_EQ(FlagsWhenCached(8 * kMiB, false), maio::kComplete | maio::kWarmSuspect);
}
TEST_F(MaioMissRecordTest, OnAColdCacheItIsNot) {
  EXPECT_EQ(FlagsWhenCached(kMiB, false), maio::kComplete);  // its own first windows
}
TEST_F(MaioMissRecordTest, WithTraceTheCacheDoesNotMatter) {
  EXPECT_EQ(FlagsWhenCached(8 * kMiB, true), maio::kComplete | maio::kTraced);
}

// The observer does not see what is mapped by huge pages.
TEST_F(MaioMissRecordTest, OfACachedMappingByHugePagesItIsSuspect) {
  Setup observer;
  observer.more_caps = PPC_MISSES_HUGE;
  EXPECT_EQ(FlagsWhenCached(20 * kMiB, true, observer),
            maio::kComplete | maio::kTraced | maio::kWarmSuspect);
}
TEST_F(MaioMissRecordTest, OfAMappingThatIsMissedItIsNot) {
  Setup observer;
  observer.more_caps = PPC_MISSES_HUGE;
  EXPECT_EQ(FlagsWhenCached(kMiB, true, observer), maio::kComplete | maio::kTraced);
}
TEST_F(MaioMissRecordTest, OfCachedFilesThatAreReadItIsNot) {
  Setup observer;
  observer.more_caps = PPC_MISSES_HUGE;
  observer.is_mapped = false;
  EXPECT_EQ(FlagsWhenCached(20 * kMiB, true, observer), maio::kComplete | maio::kTraced);
}
// Nothing comes of a huge page but its miss; smaller ones are read ahead for whoever reads on.
TEST_F(MaioRecordTest, AHugePageCountsAsReadWithItsMiss) {
  constexpr uint64_t kHuge = 2 * kMiB;
  for (const bool misses_huge : {true, false}) {
    FakeHost host;
    const TempDir store;
    host.template_dir = store.path();
    if (misses_huge) host.caps |= PPC_MISSES_HUGE;
    host.memory.limit = host.memory.threshold = host.memory.room = 1ull << 30;
    const uint64_t model = host.AddFile("m.safetensors", 64 * kMiB);
    const PolicyLibrary library(PolicyPath("maio"));
    ASSERT_EQ(library.ops()->ppc_init(host.context()), 0);
    const auto tell = [&](const char* op) {
      const nlohmann::json message = {{"op", op}, {"service_id", kId}, {"service", 1}};
      (void)library.ops()->ppc_control(message.dump().c_str());
      host.RunBackground();
    };
    tell("service_start");
    const auto comes = [&](uint32_t kind, uint64_t offset, uint64_t bytes) {
      miss_io event = host.Event(kind, model, offset, bytes);
      event.service = 1;
      event.flags = PPC_F_MMAP;
      if (kind == PPC_ACCESS) return (void)library.ops()->ppc_event(&event);
      (void)library.ops()->ppc_prefetch(&event);
    };
    comes(PPC_ACCESS, 0, kMiB);
    comes(PPC_MISS_FAULT, 8 * kMiB, kHuge);
    comes(PPC_MISS_FAULT, 16 * kMiB, kMiB);
    tell("service_ready");
    maio::Template recorded;
    std::string error;
    ASSERT_EQ(maio::Load(maio::TemplatePath(store.path(), kId), &recorded, &error), 0) << error;
    EXPECT_EQ(maio::DistinctBytes(recorded), kMiB + (misses_huge ? kHuge : 0));
    library.ops()->ppc_exit();
  }
}

TEST_F(MaioRecordTest, ASuspectTemplateIsRecordedAnew) {
  Setup setup;
  Record(setup);
  maio::Template t = Stored();
  t.flags = maio::kComplete | maio::kWarmSuspect;
  Store(t);
  EXPECT_EQ(Run(setup, 0)["reason"], "template stored");
  EXPECT_EQ(started_["mode"], "record");
  EXPECT_EQ(Stored().flags, maio::kComplete | maio::kTraced);
}

// A hook neither reads files nor waits for the store.
TEST_F(MaioTest, SlowWorkIsDoneInTheBackground) {
  const Setup setup;
  auto sim = Make(setup);
  const nlohmann::json message = {{"op", "service_start"},
                                  {"service_id", kId},
                                  {"service", 1},
                                  {"workers", 2},
                                  {"xpus", {0, 1}}};
  EXPECT_EQ(sim->Control(message)["mode"], "starting");
  EXPECT_NE(sim->want & PPC_WANT_TRACE, 0u) << "its first reads are recorded, too";
  // They come before it is known what to do with them.
  AddReaders(sim.get(), setup);
  ASSERT_TRUE(sim->Run(60000));
  const uint64_t reads = sim->reads;
  const nlohmann::json ready = sim->Control({{"op", "service_ready"}, {"service_id", kId}});
  EXPECT_EQ(ready["reason"], "its template is being stored");
  EXPECT_EQ(sim->reads, reads);
  const std::string path = maio::TemplatePath(store_.path(), kId);
  EXPECT_FALSE(std::filesystem::exists(path));
  // Started again at once, it waits for it.
  EXPECT_EQ(sim->Control(message)["mode"], "starting");
  EXPECT_EQ(sim->reads, reads);
  sim->RunBackground();
  EXPECT_GT(sim->reads, reads);
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(sim->Control({{"op", "status"}})["services"][0]["mode"], "use");
  EXPECT_EQ(sim->want & PPC_WANT_TRACE, 0u);
}

TEST_F(MaioTest, ATemplateThatCannotBeStoredIsToldOfOnce) {
  Setup setup;
  auto sim = std::make_unique<Simulator>(PolicyPath("maio"), setup.options);
  sim->template_dir = store_.path() + "/file/no";
  std::ofstream(store_.path() + "/file") << "no directory";
  model_ = AddModel(sim.get(), setup.shape);
  ASSERT_EQ(sim->Init(), 0);
  Start(sim.get(), setup);
  AddReaders(sim.get(), setup);
  ASSERT_TRUE(sim->Run(60000));
  sim->log.clear();
  sim->RunFor(32000);
  EXPECT_EQ(sim->log.size(), 1u);
}

}  // namespace
}  // namespace ppc::test
