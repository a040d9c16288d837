// SPDX-License-Identifier: Apache-2.0
//
// A memory image that a program maps and touches here and there, in an order that it repeats.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "policies/maio/template/template.h"
#include "tests/policy/maio_fixture.h"

namespace ppc::test {
namespace {

constexpr uint64_t kImageBytes = 256 * kMiB;

class MaioScatteredTest : public MaioTest {
 protected:
  std::unique_ptr<Simulator> Ready() {
    auto sim = std::make_unique<Simulator>(PolicyPath("maio"), Options{});
    sim->template_dir = store_.path();
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
    const nlohmann::json service = sim->Control({{"op", "status"}})["services"][0];
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

  Setup setup_;
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
  maio::Template t;
  std::string error;
  const std::string path = maio::TemplatePath(store_.path(), kId);
  ASSERT_EQ(maio::Load(path, &t, &error), 0) << error;
  EXPECT_NE(t.flags & maio::kWarmSuspect, 0u);
  sim.reset();
  sim = Ready();
  EXPECT_EQ(Start(sim.get(), setup_)["mode"], "record");
  AddGuest(sim.get(), 16 * kPage, 1);
  Took(sim.get());
  EXPECT_EQ(End(sim.get(), "service_ready")["reason"], "template stored");
  ASSERT_EQ(maio::Load(path, &t, &error), 0) << error;
  EXPECT_EQ(t.flags & maio::kWarmSuspect, 0u);
}

}  // namespace
}  // namespace ppc::test
