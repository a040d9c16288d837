// SPDX-License-Identifier: Apache-2.0
//
// Small files before the model, and the phases of a start-up that a service tells of.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policies/maio/template/template.h"
#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

constexpr uint32_t kFiles = 400;
constexpr uint64_t kFileBytes = 12'288;

class MaioSmallTest : public MaioTest {
 protected:
  // As they are listed; read in another order.
  void AddPackages(Simulator* sim) {
    files_.clear();
    for (uint32_t i = 0; i < kFiles; i++) {
      const uint32_t name = i * 7 % kFiles;
      files_.push_back(sim->AddFile("lib/m" + std::to_string(name) + ".py", kFileBytes));
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
      r.accesses.push_back({file, 0, kFileBytes, 0, sim->ms() + not_before_ms});
    sim->readers.push_back(r);
  }
  std::unique_ptr<Simulator> Ready(const Setup& setup) {
    auto sim = std::make_unique<Simulator>(PolicyPath("maio"), setup.options);
    sim->template_dir = store_.path();
    model_ = AddModel(sim.get(), setup.shape);
    AddPackages(sim.get());
    EXPECT_EQ(sim->Init(), 0);
    return sim;
  }
  maio::Template Stored() {
    maio::Template t;
    std::string error;
    EXPECT_EQ(maio::Load(maio::TemplatePath(store_.path(), kId), &t, &error), 0) << error;
    return t;
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
  Setup setup;
  setup.init_ms = 5000;
  RecordAll(setup);
  const maio::Template t = Stored();
  std::vector<std::string> order;
  for (const maio::TemplateGroup& group : t.groups) {
    for (const maio::Extent& e : group.extents) {
      const bool is_small = t.files[e.file].kind == maio::FileKind::kSmall;
      EXPECT_EQ(is_small, group.id == maio::kCommonGroup);
      if (t.files[e.file].path.starts_with("lib/")) order.push_back(t.files[e.file].path);
    }
  }
  ASSERT_EQ(order.size(), kFiles);
  for (uint32_t i = 0; i < kFiles; i++)
    EXPECT_EQ(order[i], "lib/m" + std::to_string(i * 7 % kFiles) + ".py");
  ASSERT_EQ(t.phases.size(), 4u);
  EXPECT_EQ(t.phases[0].phase, maio::Phase::kInit);
  EXPECT_EQ(t.phases[1].phase, maio::Phase::kWeights);
  EXPECT_FALSE(t.phases[1].is_told);
  EXPECT_GE(t.phases[1].ms, 5000u);
  EXPECT_EQ(t.phases[2].phase, maio::Phase::kCompile);
  EXPECT_EQ(t.phases[3].phase, maio::Phase::kReady);
}

TEST_F(MaioSmallTest, AreLoadedInThatOrderBeforeTheModel) {
  Setup setup;
  setup.init_ms = 5000;
  RecordAll(setup);
  auto sim = Ready(setup);
  EXPECT_EQ(Start(sim.get(), setup)["mode"], "use");
  sim->RunFor(1000);  // nobody has read anything
  const nlohmann::json service = sim->Control({{"op", "status"}})["services"][0];
  EXPECT_GE(service["small_files"], kFiles);
  EXPECT_EQ(service["small_asked"], service["small_bytes"]);
  EXPECT_GE(service["small_loaded"], kFiles * kFileBytes);
  const uint64_t demanded = sim->demand_bytes;
  AddImporter(sim.get());
  AddReaders(sim.get(), setup);
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->demand_bytes, demanded);
  const nlohmann::json end = End(sim.get(), "service_ready");
  EXPECT_EQ(end["small_missed"], 0);
  EXPECT_EQ(end["unknown"], 0);
}

TEST_F(MaioSmallTest, PackagesAloneAreATemplateToo) {
  Setup setup;
  RecordAll(setup, /*with_model=*/false);
  auto sim = Ready(setup);
  EXPECT_EQ(Start(sim.get(), setup)["mode"], "use");
  sim->RunFor(1000);
  const uint64_t demanded = sim->demand_bytes;
  AddImporter(sim.get());
  ASSERT_TRUE(sim->Run(60000));
  EXPECT_EQ(sim->demand_bytes, demanded);
  End(sim.get(), "service_ready");
  sim.reset();
  sim = Ready(setup);
  EXPECT_EQ(Start(sim.get(), setup)["mode"], "use") << "it fitted";
}

// What a fault maps beside its page is not told, and was there because the kernel had read it.
TEST_F(MaioSmallTest, OfAMappedLibraryWhatTheKernelReadsAroundAFaultIsRecorded) {
  Setup setup;
  auto sim = std::make_unique<Simulator>(PolicyPath("maio"), setup.options);
  sim->template_dir = store_.path();
  model_ = AddModel(sim.get(), setup.shape);
  const uint64_t library = sim->AddFile("lib/libx.so.1", 200 * kPage);
  EXPECT_EQ(sim->Init(), 0);
  Start(sim.get(), setup);
  AddReaders(sim.get(), setup);
  auto& accesses = sim->readers[0].accesses;
  accesses.insert(accesses.begin(), {{library, 40 * kPage, kPage, PPC_F_MMAP, 0},
                                     {library, 199 * kPage, kPage, PPC_F_MMAP, 0}});
  ASSERT_TRUE(sim->Run(60000));
  ASSERT_EQ(End(sim.get(), "service_ready")["reason"], "template stored");
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
  Setup setup;
  RecordAll(setup, /*with_model=*/false);
  maio::Template t = Stored();
  for (maio::TemplateFile& file : t.files) {
    file.mtime_ns += 1;
    file.fingerprint = {};
  }
  std::string error;
  ASSERT_EQ(maio::Store(store_.path(), t, &error), 0) << error;
  auto sim = Ready(setup);
  EXPECT_EQ(Start(sim.get(), setup)["mode"], "use");
  sim->RunFor(1000);
  EXPECT_EQ(sim->Control({{"op", "status"}})["services"][0]["stale_files"], 0);
  EXPECT_GE(sim->resident(), kFiles * kFileBytes);
}

TEST_F(MaioSmallTest, PhasesAreToldOnceAndShown) {
  Setup setup;
  auto sim = Ready(setup);
  Start(sim.get(), setup);
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
  EXPECT_EQ(sim->Control({{"op", "status"}})["services"][0]["mode"], "serving");
}

// What compiles needs the room that read pages have, and nobody reads them again.
TEST_F(MaioSmallTest, WhatHasBeenReadIsNotHeldOnceItCompiles) {
  Setup setup;
  setup.options.limit = 80 * kMiB;
  Record(setup);
  auto sim = Make(setup);
  EXPECT_EQ(Start(sim.get(), setup)["mode"], "use");
  AddReaders(sim.get(), setup);
  ASSERT_TRUE(sim->Run(120000));
  EXPECT_GT(sim->Control({{"op", "status"}})["services"][0]["distance"], 0);
  Phase(sim.get(), "compile");
  EXPECT_EQ(sim->Control({{"op", "status"}})["services"][0]["distance"], 0);
}

}  // namespace
}  // namespace ppc::test
