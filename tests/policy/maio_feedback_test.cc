// SPDX-License-Identifier: Apache-2.0
// What becomes of a template after a start that followed it: a good one stays, and each way of
// being wrong is found out.
#include "policies/maio/template/template.h"
#include "policies/maio/template/template_compare.h"
#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

class MaioFeedbackTest : public MaioTest {
 protected:
  MaioFeedbackTest() {
    setup_.shape.shards = 16;
    setup_.init_ms = 0;
  }
  uint64_t ListedBytes() { return maio::DistinctBytes(Stored()); }
  std::string ReasonAfter(Simulator* sim) { return Finish(sim)["reason"]; }
  std::string ModeOfNextStart(const Setup& setup) {
    auto sim = Make(setup);
    return Start(sim.get(), setup)["mode"];
  }
};

// Slices were recorded, and now each worker reads all.
TEST_F(MaioFeedbackTest, ReadsOfOthersPagesAreFoundOut) {
  setup_.shape.shared = false;
  Record(setup_);
  auto sim = Begin(setup_, "use");
  for (Reader& r : sim->readers) {
    r.accesses.clear();
    for (const uint64_t file : model_.shards)
      r.accesses.push_back({file, 0, setup_.shape.shard_bytes, 0, 0});
  }
  const std::string reason = ReasonAfter(sim.get());
  EXPECT_TRUE(Has(reason, "for other workers"));
  EXPECT_EQ(ModeOfNextStart(setup_), "record");
}

// A checksum was computed when it was recorded.
TEST_F(MaioFeedbackTest, WhatIsListedAndNotReadIsTakenOut) {
  Record(setup_);
  const uint64_t all = ListedBytes();
  const auto read_half = [&](Simulator* sim) {
    AddReaders(sim, setup_);
    EndHalfWay(sim);
    return ReasonAfter(sim);
  };
  auto sim = Make(setup_);
  ASSERT_EQ(Start(sim.get(), setup_)["mode"], "use");
  const std::string reason = read_half(sim.get());
  EXPECT_TRUE(Has(reason, "was repaired"));
  EXPECT_LT(ListedBytes(), all * 55 / 100);
  // The next start loads that alone, from its template, which stays.
  sim.reset();
  sim = Make(setup_);
  ASSERT_EQ(Start(sim.get(), setup_)["mode"], "use");
  EXPECT_EQ(read_half(sim.get()), "template found");
  EXPECT_LE(sim->demand_bytes, 8 * kMiB);
  EXPECT_LT(sim->disk_bytes, all * 55 / 100);
}

// No access of a process is told after it has populated its mapping.
TEST_F(MaioFeedbackTest, WhatAPopulateMappedHasBeenRead) {
  Record(setup_);
  const uint64_t all = ListedBytes();
  auto sim = Begin(setup_, "use");
  Populate(sim.get());
  EXPECT_EQ(ReasonAfter(sim.get()), "template found");
  EXPECT_EQ(ListedBytes(), all);
}

TEST_F(MaioFeedbackTest, AStartThatIsStoppedInItsMiddleSaysNothingOfTheRest) {
  Record(setup_);
  const uint64_t all = ListedBytes();
  auto sim = Begin(setup_, "use");
  sim->RunFor(500);
  EXPECT_EQ(End(sim.get(), "service_stop")["reason"], "template found");
  EXPECT_EQ(ListedBytes(), all);
}

// Where hits may not be seen only a file that nobody opened is known to be unread.
TEST_F(MaioFeedbackTest, UnseenReadsAreNotTakenForNone) {
  Record(setup_);
  const uint64_t all = ListedBytes();
  setup_.more_caps = PPC_MISSES_HUGE;
  auto sim = Make(setup_);
  ASSERT_EQ(Start(sim.get(), setup_)["mode"], "use");
  sim->RunFor(10000);  // all is there, and mapped by huge pages
  EXPECT_EQ(End(sim.get(), "service_ready")["reason"], "template found");
  EXPECT_EQ(ListedBytes(), all);
}

// A process that is no worker comes for what has been dropped behind them.
TEST_F(MaioFeedbackTest, WhatIsReadAgainAfterItWasDroppedIsFoundOut) {
  Record(setup_);
  setup_.options.limit = model_.bytes() / 4;
  auto sim = Begin(setup_, "use");
  Reader late;
  late.pid = 300;
  late.bytes_per_ms = setup_.rate;
  late.start_ms = sim->ms() + 3000;
  for (const uint64_t file : model_.shards)
    late.accesses.push_back({file, 0, setup_.shape.shard_bytes, 0, 0});
  sim->readers.push_back(late);
  const std::string reason = ReasonAfter(sim.get());
  EXPECT_TRUE(Has(reason, "were read again"));
  EXPECT_EQ(ModeOfNextStart(setup_), "record");
}

// The first start compiles weights into a cache, the next ones map that and nothing else.
TEST_F(MaioFeedbackTest, AWeightCacheIsRightByTheThirdStart) {
  Record(setup_);
  const auto start = [&](const char* mode) {
    uint64_t cache = 0;
    auto sim = Begin(setup_, mode, [&](Simulator* made) {
      cache = made->AddFile("cache/weights.blob", 300 * kMiB);
      made->residency[cache].resident = 300 * kMiB;
    });
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
  Record(setup_);
  auto sim = Make(setup_);
  nlohmann::json message = StartMessage(setup_);
  message["params"] = {{"load_format", "dummy"}};
  const auto status = Settle(sim.get(), message);
  EXPECT_EQ(status["mode"], "native") << status;
  sim->RunFor(2000);
  EXPECT_EQ(sim->disk_bytes, 0u);
  (void)End(sim.get(), "service_ready");
  EXPECT_EQ(ModeOfNextStart(setup_), "use");
}

}  // namespace
}  // namespace ppc::test
