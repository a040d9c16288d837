// SPDX-License-Identifier: Apache-2.0
// Small files before the model, and the phases of a start-up that a service tells of.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "policies/maio/template/template.h"
#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

constexpr uint32_t kPackages = 400;
constexpr uint64_t kPackageBytes = 12'288;

class MaioSmallTest : public MaioTest {
 protected:
  // As they are listed; read in another order.
  void AddPackages(Simulator* sim) {
    files_.clear();
    for (uint32_t i = 0; i < kPackages; i++) {
      const uint32_t name = i * 7 % kPackages;
      files_.push_back(sim->AddFile("lib/m" + std::to_string(name) + ".py", kPackageBytes));
    }
  }
  // A process of no worker reads them one after the other.
  void AddImporter(Simulator* sim, uint64_t not_before_ms = 0) {
    Reader r;
    r.pid = 90;
    r.mapped = false;
    r.bytes_per_ms = 64 << 10;
    r.start_ms = sim->ms();
    for (const uint64_t file : files_)
      r.accesses.push_back({file, 0, kPackageBytes, 0, sim->ms() + not_before_ms});
    sim->readers.push_back(r);
  }
  std::unique_ptr<Simulator> Ready(const Setup& setup) {
    return Make(setup, [this](Simulator* made) { AddPackages(made); });
  }
  nlohmann::json Phase(Simulator* sim, const char* phase) {
    return sim->Control({{"op", "service_phase"}, {"service_id", kId}, {"phase", phase}});
  }
  void RecordAll(const Setup& setup, bool with_model = true) {
    auto sim = Ready(setup);
    EXPECT_EQ(Start(sim.get(), setup)["mode"], "record");
    EXPECT_EQ(Phase(sim.get(), "init")["mode"], "record");
    AddImporter(sim.get());
    if (with_model) AddReaders(sim.get(), setup);
    ASSERT_TRUE(sim->Run(60000));
    Phase(sim.get(), "compile");
    sim->RunFor(50);
    const nlohmann::json reply = End(sim.get(), "service_ready");
    ASSERT_EQ(reply["reason"], "template stored") << reply;
  }

  std::vector<uint64_t> files_;  // in the order in which they are read
};

TEST_F(MaioSmallTest, AreRecordedInOneOrderWithThePhases) {
  setup_.init_ms = 5000;
  RecordAll(setup_);
  const maio::Template t = Stored();
  std::vector<std::string> order;
  for (const maio::TemplateGroup& group : t.groups) {
    for (const maio::Extent& e : group.extents) {
      const bool is_small = t.files[e.file].kind == maio::FileKind::kSmall;
      EXPECT_EQ(is_small, group.id == maio::kCommonGroup);
      if (t.files[e.file].path.starts_with("lib/")) order.push_back(t.files[e.file].path);
    }
  }
  ASSERT_EQ(order.size(), kPackages);
  for (uint32_t i = 0; i < kPackages; i++)
    EXPECT_EQ(order[i], "lib/m" + std::to_string(i * 7 % kPackages) + ".py");
  ASSERT_EQ(t.phases.size(), 4u);
  EXPECT_EQ(t.phases[0].phase, maio::Phase::kInit);
  EXPECT_EQ(t.phases[1].phase, maio::Phase::kWeights);
  EXPECT_FALSE(t.phases[1].is_told);
  EXPECT_GE(t.phases[1].ms, 5000u);
  EXPECT_EQ(t.phases[2].phase, maio::Phase::kCompile);
  EXPECT_EQ(t.phases[3].phase, maio::Phase::kReady);
}

TEST_F(MaioSmallTest, AreLoadedInThatOrderBeforeTheModel) {
  setup_.init_ms = 5000;
  RecordAll(setup_);
  auto sim = Ready(setup_);
  EXPECT_EQ(Start(sim.get(), setup_)["mode"], "use");
  sim->RunFor(1000);  // nobody has read anything
  const nlohmann::json service = StatusOf(sim.get());
  EXPECT_GE(service["small_files"], kPackages);
  EXPECT_EQ(service["small_asked"], service["small_bytes"]);
  EXPECT_GE(service["small_loaded"], kPackages * kPackageBytes);
  const uint64_t demanded = sim->demand_bytes;
  AddImporter(sim.get());
  AddReaders(sim.get(), setup_);
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->demand_bytes, demanded);
  const nlohmann::json end = End(sim.get(), "service_ready");
  EXPECT_EQ(end["small_missed"], 0);
  EXPECT_EQ(end["unknown"], 0);
}

TEST_F(MaioSmallTest, PackagesAloneAreATemplateToo) {
  RecordAll(setup_, /*with_model=*/false);
  auto sim = Ready(setup_);
  EXPECT_EQ(Start(sim.get(), setup_)["mode"], "use");
  sim->RunFor(1000);
  const uint64_t demanded = sim->demand_bytes;
  AddImporter(sim.get());
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->demand_bytes, demanded);
  End(sim.get(), "service_ready");
  sim.reset();
  sim = Ready(setup_);
  EXPECT_EQ(Start(sim.get(), setup_)["mode"], "use") << "it fitted";
}

// What a fault maps beside its page is not told, and was there because the kernel had read it.
TEST_F(MaioSmallTest, OfAMappedLibraryWhatTheKernelReadsAroundAFaultIsRecorded) {
  uint64_t library = 0;
  auto sim = Begin(setup_, nullptr,
                   [&](Simulator* made) { library = made->AddFile("lib/libx.so.1", 200 * kPage); });
  auto& accesses = sim->readers[0].accesses;
  accesses.insert(accesses.begin(), {{library, 40 * kPage, kPage, PPC_F_MMAP, 0},
                                     {library, 199 * kPage, kPage, PPC_F_MMAP, 0}});
  ASSERT_EQ(Finish(sim.get())["reason"], "template stored");
  const maio::Template t = Stored();
  std::vector<maio::Extent> extents;
  for (const maio::TemplateGroup& group : t.groups) {
    for (const maio::Extent& e : group.extents) {
      if (t.files[e.file].path == "lib/libx.so.1") extents.push_back({0, e.page, e.pages});
    }
  }
  EXPECT_EQ(extents, (std::vector<maio::Extent>{{0, 32, 32}, {0, 192, 8}}));
}

// A file of the list that is another now is not worth a new recording.
TEST_F(MaioSmallTest, ChangedPackagesAreLoadedAllTheSame) {
  RecordAll(setup_, /*with_model=*/false);
  maio::Template t = Stored();
  for (maio::TemplateFile& file : t.files) {
    file.mtime_ns += 1;
    file.fingerprint = {};
  }
  Store(t);
  auto sim = Ready(setup_);
  EXPECT_EQ(Start(sim.get(), setup_)["mode"], "use");
  sim->RunFor(1000);
  EXPECT_EQ(StatusOf(sim.get())["stale_files"], 0);
  EXPECT_GE(sim->resident(), kPackages * kPackageBytes);
}

TEST_F(MaioSmallTest, PhasesAreToldOnceAndShown) {
  auto sim = Ready(setup_);
  Start(sim.get(), setup_);
  EXPECT_TRUE(Phase(sim.get(), "loading").contains("error"));
  EXPECT_TRUE(sim->Control({{"op", "service_phase"}, {"service_id", "nobody"}, {"phase", "init"}})
                  .contains("error"));
  Phase(sim.get(), "init");
  sim->RunFor(700);
  Phase(sim.get(), "weights");
  sim->RunFor(700);
  const nlohmann::json phases = Phase(sim.get(), "weights")["phases"];
  ASSERT_EQ(phases.size(), 2u);
  EXPECT_EQ(phases[1]["phase"], "weights");
  EXPECT_GE(phases[1]["ms"], 690);
  EXPECT_LT(phases[1]["ms"], 1400);
  const nlohmann::json ready = Phase(sim.get(), "ready");
  ASSERT_EQ(ready["phases"].size(), 3u);
  EXPECT_EQ(ready["phases"][2]["phase"], "ready");
  EXPECT_EQ(StatusOf(sim.get())["mode"], "serving");
}

// What compiles needs the room that read pages have, and nobody reads them again.
TEST_F(MaioSmallTest, WhatHasBeenReadIsNotHeldOnceItCompiles) {
  setup_.options.limit = 80 * kMiB;
  Record(setup_);
  auto sim = Begin(setup_, "use");
  ASSERT_TRUE(sim->Run(120000));
  EXPECT_GT(StatusOf(sim.get())["distance"], 0);
  Phase(sim.get(), "compile");
  EXPECT_EQ(StatusOf(sim.get())["distance"], 0);
}

constexpr uint64_t kImageBytes = 256 * kMiB;

class MaioScatteredTest : public MaioTest {
 protected:
  std::unique_ptr<Simulator> Ready() {
    auto sim = Empty({.more_caps = PPC_CAN_MANY});
    image_ = sim->AddFile("vm/memory", kImageBytes);
    EXPECT_EQ(sim->Init(), 0);
    return sim;
  }
  // Every `share`th block of so many bytes, none after its neighbour.
  void AddGuest(Simulator* sim, uint64_t block_bytes, uint64_t share, uint32_t flags = 0) {
    std::vector<uint64_t> blocks(kImageBytes / block_bytes);
    std::iota(blocks.begin(), blocks.end(), 0);
    std::ranges::shuffle(blocks, std::mt19937_64(5));
    blocks.resize(blocks.size() / share);
    Reader r;
    r.bytes_per_ms = 1 << 20;
    r.start_ms = sim->ms();
    for (const uint64_t block : blocks)
      r.accesses.push_back({image_, block * block_bytes, block_bytes, 0, 0});
    r.accesses[r.accesses.size() / 2].flags = flags;
    sim->readers.push_back(r);
    touched_ = blocks.size() * block_bytes;
  }
  uint64_t Took(Simulator* sim) {
    EXPECT_TRUE(sim->Run(600'000));
    return sim->readers.back().end_ms - sim->readers.back().start_ms;
  }
  uint64_t RecordGuest(uint64_t block_bytes, uint64_t share) {
    auto sim = Ready();
    EXPECT_EQ(Start(sim.get(), setup_)["mode"], "record");
    AddGuest(sim.get(), block_bytes, share);
    const uint64_t took = Took(sim.get());
    EXPECT_EQ(End(sim.get(), "service_ready")["reason"], "template stored");
    return took;
  }
  // The module reads a window around each miss, which is most of what natively is gained here.
  void FollowsWithoutJumps(uint64_t block_bytes, uint64_t share) {
    const uint64_t native = RecordGuest(block_bytes, share);
    auto sim = Ready();
    EXPECT_EQ(Start(sim.get(), setup_)["mode"], "use");
    AddGuest(sim.get(), block_bytes, share);
    EXPECT_LT(Took(sim.get()), native);
    sim->RunFor(100);
    const nlohmann::json service = StatusOf(sim.get());
    EXPECT_EQ(service["small_files"], 1u);
    // Each page once, and of their neighbours not more, however its reader jumps.
    EXPECT_GE(service["small_asked"], touched_);
    EXPECT_LE(service["small_asked"], 3 * touched_);
    EXPECT_EQ(service["jumps"], 0u);
    End(sim.get(), "service_ready");
    sim.reset();
    sim = Ready();
    EXPECT_EQ(Start(sim.get(), setup_)["mode"], "use") << "it fitted";
  }

  uint64_t image_ = 0;
  uint64_t touched_ = 0;
};

TEST_F(MaioScatteredTest, PagesHereAndThereAreThereBeforeTheirReader) {
  FollowsWithoutJumps(kPage, 16);
}

TEST_F(MaioScatteredTest, SoAreBlocksOfAnImageThatIsReadWhole) {
  FollowsWithoutJumps(16 * kPage, 1);
}

TEST_F(MaioScatteredTest, WhereEventsWereLostTheNextStartIsRecordedToo) {
  auto sim = Ready();
  Start(sim.get(), setup_);
  AddGuest(sim.get(), 16 * kPage, 1, PPC_F_LOST);
  Took(sim.get());
  EXPECT_EQ(End(sim.get(), "service_ready")["reason"], "template stored");
  EXPECT_NE(Stored().flags & maio::kWarmSuspect, 0u);
  sim.reset();
  sim = Ready();
  EXPECT_EQ(Start(sim.get(), setup_)["mode"], "record");
  AddGuest(sim.get(), 16 * kPage, 1);
  Took(sim.get());
  EXPECT_EQ(End(sim.get(), "service_ready")["reason"], "template stored");
  EXPECT_EQ(Stored().flags & maio::kWarmSuspect, 0u);
}

}  // namespace
}  // namespace ppc::test
