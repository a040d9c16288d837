// SPDX-License-Identifier: Apache-2.0
#include "sim/replay.h"

#include <gtest/gtest.h>

#include "sim/experiment.h"
#include "tests/unit/temp_tree.h"
#include "tests/unit/units.h"

namespace ppc::sim {
namespace {

// Two workers that map a file each, as a tracing ppc-runner writes it down.
void WriteLog(const std::string& path, uint64_t gap_ns) {
  Result<EventLogWriter> writer = EventLogWriter::Create(path);
  ASSERT_TRUE(writer.ok());
  std::vector<Event> events;
  for (const int worker : {0, 1}) {
    const uint64_t file = 10 + static_cast<uint64_t>(worker);
    writer->AddFile({file, 64 * kMiB, "m/model-" + std::to_string(worker) + ".safetensors"});
    for (uint64_t i = 0; i < 64; ++i) {
      events.push_back(Event{.file = file,
                             .offset = i * kMiB,
                             .length = kMiB,
                             .time_ns = 1'000'000'000 + i * gap_ns,
                             .tgid = 100 + worker,
                             .tid = 100 + worker,
                             .kind = EventKind::kAccess,
                             .flags = kEventMmap | kEventHit});
    }
  }
  writer->AddEvents(events);
  ASSERT_TRUE(writer->Finish().ok());
}

class ReplayTest : public ::testing::Test {
 protected:
  Outcome Run(const System& system) {
    Scenario scenario;
    scenario.log = tree_.Path("/log");
    scenario.system = system;
    const Result<Outcome> outcome = RunScenario(scenario, 1);
    EXPECT_TRUE(outcome.ok());
    return outcome.ok() ? *outcome : Outcome{};
  }
  TempTree tree_;
};

TEST_F(ReplayTest, ALogIsAService) {
  WriteLog(tree_.Path("/log"), 5'000'000);
  const Outcome native = Run(System{});
  EXPECT_NEAR(native.metrics.at("disk_share"), 1, 0.02);
  // The consumer's own time is kept.
  EXPECT_GE(native.metrics.at("startup_s"), 63 * 0.005);
  const Outcome maio = Run(System{.policy = "maio", .records_first = true});
  EXPECT_LT(maio.metrics.at("startup_s"), 0.6 * native.metrics.at("startup_s"));
  EXPECT_NEAR(maio.metrics.at("redundant_share"), 0, 0.001);
}

TEST_F(ReplayTest, AMissingLogIsAnError) {
  Scenario scenario;
  scenario.log = tree_.Path("/absent");
  EXPECT_FALSE(RunScenario(scenario, 1).ok());
}

}  // namespace
}  // namespace ppc::sim
