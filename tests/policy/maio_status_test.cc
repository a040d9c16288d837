// SPDX-License-Identifier: Apache-2.0
//
// What MAIO tells of a service that it follows.
#include <algorithm>

#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

// Before anybody reads, with room for a part: what the model's pages themselves say.
TEST_F(MaioTest, TellsHowFarLoadsAreAheadOfEachReader) {
  Setup setup;
  setup.shape.shards = 8;  // 192 MiB
  Record(setup);
  setup.options.limit = 96 * kMiB;
  const auto groups_after = [&](Simulator* sim, uint64_t ms) {
    Start(sim, setup);
    sim->RunFor(ms);
    return sim->Control({{"op", "status"}})["services"][0]["groups"];
  };
  auto sim = Make(setup);
  const nlohmann::json some = groups_after(sim.get(), 3000);
  for (uint32_t w = 0; w < 2; w++) {
    uint64_t there = 0;
    for (const Access& a : WorkerAccesses(model_, w)) {
      uint64_t at = 0;
      while (at < a.size && sim->IsResident(a.file, a.offset + at)) at += 4096;
      there += std::min(at, a.size);
      if (at < a.size) break;
    }
    EXPECT_GT(there, 8 * kMiB);
    EXPECT_EQ(some[w]["ahead"], there) << some;
  }
  setup.options.limit = 0;
  sim = Make(setup);
  for (const auto& group : groups_after(sim.get(), 3000))
    EXPECT_EQ(group["ahead"], nullptr) << "all is there: " << group;
}

// A start that leaves out the second half of what each worker reads.
TEST_F(MaioTest, TellsWhatIsListedAndNotRead) {
  Setup setup;
  Record(setup);
  auto sim = Make(setup);
  Start(sim.get(), setup);
  AddReaders(sim.get(), setup);
  uint64_t left_out = 0;
  for (Reader& r : sim->readers) {
    const size_t half = r.accesses.size() / 2;
    for (size_t i = half; i < r.accesses.size(); i++) left_out += r.accesses[i].size;
    r.accesses.resize(half);
  }
  ASSERT_TRUE(sim->Run(60000));
  sim->RunFor(300);
  const auto status = sim->Control({{"op", "status"}})["services"][0];
  EXPECT_GT(status["unread"], left_out / 3) << "pages that both workers share count once";
  EXPECT_LT(status["unread"], left_out + 8 * kMiB);
  EXPECT_EQ(status["foreign"], 0);
}

}  // namespace
}  // namespace ppc::test
