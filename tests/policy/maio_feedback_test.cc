// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a template after a start that followed it: a good one stays, and each way of
// being wrong is found out.
#include <cerrno>

#include "policies/maio/template/template.h"
#include "policies/maio/template/template_compare.h"
#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

class MaioFeedbackTest : public MaioTest {
 protected:
  Setup Large() {
    Setup setup;
    setup.shape.shards = 16;
    setup.init_ms = 0;
    return setup;
  }
  // -ENOENT: there is none.
  int Stored(maio::Template* t) {
    std::string error;
    return maio::Load(maio::TemplatePath(store_.path(), kId), t, &error);
  }
  uint64_t ListedBytes() {
    maio::Template t;
    return Stored(&t) == 0 ? maio::DistinctBytes(t) : 0;
  }
  std::string ReasonAfter(Simulator* sim, const char* op = "service_ready") {
    EXPECT_TRUE(sim->Run(120000));
    sim->RunFor(300);
    return End(sim, op)["reason"];
  }
  std::string ModeOfNextStart(const Setup& setup) {
    auto sim = Make(setup);
    return Start(sim.get(), setup)["mode"];
  }
};

TEST_F(MaioFeedbackTest, AGoodTemplateStays) {
  const Setup setup = Large();
  Record(setup);
  maio::Template before;
  ASSERT_EQ(Stored(&before), 0);
  auto sim = Make(setup);
  ASSERT_EQ(Start(sim.get(), setup)["mode"], "use");
  AddReaders(sim.get(), setup);
  EXPECT_EQ(ReasonAfter(sim.get()), "template found");
  maio::Template after;
  ASSERT_EQ(Stored(&after), 0);
  EXPECT_EQ(maio::Encode(after), maio::Encode(before));
}

// Slices were recorded, and now each worker reads all.
TEST_F(MaioFeedbackTest, ReadsOfOthersPagesAreFoundOut) {
  Setup setup = Large();
  setup.shape.shared = false;
  Record(setup);
  auto sim = Make(setup);
  ASSERT_EQ(Start(sim.get(), setup)["mode"], "use");
  AddReaders(sim.get(), setup);
  for (Reader& r : sim->readers) {
    r.accesses.clear();
    for (const uint64_t file : model_.shards)
      r.accesses.push_back({file, 0, setup.shape.shard_bytes, 0, 0});
  }
  const std::string reason = ReasonAfter(sim.get());
  EXPECT_NE(reason.find("for other workers"), std::string::npos) << reason;
  EXPECT_EQ(ModeOfNextStart(setup), "record");
}

// A checksum was computed when it was recorded.
TEST_F(MaioFeedbackTest, WhatIsListedAndNotReadIsTakenOut) {
  const Setup setup = Large();
  Record(setup);
  const uint64_t all = ListedBytes();
  const auto read_half = [&](Simulator* sim) {
    AddReaders(sim, setup);
    for (Reader& r : sim->readers) r.accesses.resize(r.accesses.size() / 2);
    return ReasonAfter(sim);
  };
  auto sim = Make(setup);
  ASSERT_EQ(Start(sim.get(), setup)["mode"], "use");
  const std::string reason = read_half(sim.get());
  EXPECT_NE(reason.find("was repaired"), std::string::npos) << reason;
  EXPECT_LT(ListedBytes(), all * 55 / 100);
  // The next start loads that alone, from its template, which stays.
  sim.reset();
  sim = Make(setup);
  ASSERT_EQ(Start(sim.get(), setup)["mode"], "use");
  EXPECT_EQ(read_half(sim.get()), "template found");
  EXPECT_LE(sim->demand_bytes, 8 * kMiB);
  EXPECT_LT(sim->disk_bytes, all * 55 / 100);
}

// No access of a process is told after it has populated its mapping.
TEST_F(MaioFeedbackTest, WhatAPopulateMappedHasBeenRead) {
  const Setup setup = Large();
  Record(setup);
  const uint64_t all = ListedBytes();
  auto sim = Make(setup);
  ASSERT_EQ(Start(sim.get(), setup)["mode"], "use");
  AddReaders(sim.get(), setup);
  for (Reader& r : sim->readers) {
    for (Access& a : r.accesses) a.flags = PPC_F_NOT_USER;
  }
  EXPECT_EQ(ReasonAfter(sim.get()), "template found");
  EXPECT_EQ(ListedBytes(), all);
}

TEST_F(MaioFeedbackTest, AStartThatIsStoppedInItsMiddleSaysNothingOfTheRest) {
  const Setup setup = Large();
  Record(setup);
  const uint64_t all = ListedBytes();
  auto sim = Make(setup);
  ASSERT_EQ(Start(sim.get(), setup)["mode"], "use");
  AddReaders(sim.get(), setup);
  sim->RunFor(500);
  EXPECT_EQ(End(sim.get(), "service_stop")["reason"], "template found");
  EXPECT_EQ(ListedBytes(), all);
}

// Where hits may not be seen only a file that nobody opened is known to be unread.
TEST_F(MaioFeedbackTest, UnseenReadsAreNotTakenForNone) {
  Setup setup = Large();
  Record(setup);
  const uint64_t all = ListedBytes();
  setup.more_caps = PPC_MISSES_HUGE;
  auto sim = Make(setup);
  ASSERT_EQ(Start(sim.get(), setup)["mode"], "use");
  sim->RunFor(10000);  // all is there, and mapped by huge pages
  EXPECT_EQ(End(sim.get(), "service_ready")["reason"], "template found");
  EXPECT_EQ(ListedBytes(), all);
}

// A process that is no worker comes for what has been dropped behind them.
TEST_F(MaioFeedbackTest, WhatIsReadAgainAfterItWasDroppedIsFoundOut) {
  Setup setup = Large();
  Record(setup);
  setup.options.limit = model_.bytes() / 4;
  auto sim = Make(setup);
  ASSERT_EQ(Start(sim.get(), setup)["mode"], "use");
  AddReaders(sim.get(), setup);
  Reader late;
  late.pid = 300;
  late.bytes_per_ms = setup.rate;
  late.start_ms = sim->ms() + 3000;
  for (const uint64_t file : model_.shards)
    late.accesses.push_back({file, 0, setup.shape.shard_bytes, 0, 0});
  sim->readers.push_back(late);
  const std::string reason = ReasonAfter(sim.get());
  EXPECT_NE(reason.find("were read again"), std::string::npos) << reason;
  EXPECT_EQ(ModeOfNextStart(setup), "record");
}

// The first start compiles weights into a cache, the next ones map that and nothing else.
TEST_F(MaioFeedbackTest, AWeightCacheIsRightByTheThirdStart) {
  const Setup setup = Large();
  Record(setup);
  const auto start = [&](const char* mode) {
    auto sim = std::make_unique<Simulator>(PolicyPath("maio"), setup.options);
    sim->template_dir = store_.path();
    model_ = AddModel(sim.get(), setup.shape);
    const uint64_t cache = sim->AddFile("cache/weights.blob", 300 * kMiB);
    sim->residency[cache].resident = 300 * kMiB;
    EXPECT_EQ(sim->Init(), 0);
    EXPECT_EQ(Start(sim.get(), setup)["mode"], mode);
    AddReaders(sim.get(), setup);
    for (Reader& r : sim->readers) r.accesses = {{cache, 0, 300 * kMiB, 0, sim->ms() + 3000}};
    (void)ReasonAfter(sim.get());
    return sim;
  };
  EXPECT_GT(start("use")->demand_bytes, 100 * kMiB);
  auto third = start("record");
  EXPECT_LE(third->demand_bytes, 16 * kMiB);
  EXPECT_LE(third->disk_bytes, 320 * kMiB);
  auto fourth = start("use");
  EXPECT_LE(fourth->demand_bytes, 16 * kMiB);
  EXPECT_LE(fourth->disk_bytes, 320 * kMiB);
}

// Nothing of the model is read, whatever an earlier start of that name has read.
TEST_F(MaioFeedbackTest, DummyWeightsAreNotLoaded) {
  const Setup setup = Large();
  Record(setup);
  auto sim = Make(setup);
  nlohmann::json message = StartMessage(setup);
  message["params"] = {{"load_format", "dummy"}};
  const auto status = Settle(sim.get(), message);
  EXPECT_EQ(status["mode"], "native") << status;
  sim->RunFor(2000);
  EXPECT_EQ(sim->disk_bytes, 0u);
  (void)End(sim.get(), "service_ready");
  EXPECT_EQ(ModeOfNextStart(setup), "use");
}

}  // namespace
}  // namespace ppc::test
