// SPDX-License-Identifier: Apache-2.0
//
// A mixture of experts that is computed from its mapping, in less memory than the model takes.
#include <gtest/gtest.h>

#include <random>

#include "tests/policy/maio_fixture.h"
#include "tests/unit/policies/synth_source_memory.h"

namespace ppc::test {
namespace {

class MaioExpertsTest : public MaioTest {
 protected:
  static constexpr uint64_t kLayers = 4, kExperts = 8, kParts = 3;
  static constexpr uint64_t kPiece = 1536 << 10;
  static constexpr uint64_t kHead = 16 << 10;
  static constexpr uint64_t kModel = kLayers * kExperts * kParts * kPiece;  // 144 MiB

  static Setup OneReader() {
    Setup setup;
    setup.options.limit = 72 * kMiB;
    setup.xpus = setup.reader_xpus = {0};
    setup.order = {0};
    setup.rate = 2 << 20;
    setup.options.disk_bytes_per_ms = 2 << 20;  // a window of the kernel's takes its latency
    return setup;
  }
  // Where a part of an expert lies.
  static uint64_t PlaceOf(uint64_t layer, uint64_t expert, uint64_t part) {
    return kHead + ((layer * kParts + part) * kExperts + expert) * kPiece;
  }
  static std::string Header() {
    static constexpr const char* kNames[kParts] = {"gate", "up", "down"};
    nlohmann::json json;
    for (uint64_t layer = 0; layer < kLayers; layer++) {
      for (uint64_t expert = 0; expert < kExperts; expert++) {
        for (uint64_t part = 0; part < kParts; part++) {
          const uint64_t at = PlaceOf(layer, expert, part) - kHead;
          json["model.layers." + std::to_string(layer) + ".mlp.experts." + std::to_string(expert) +
               "." + kNames[part] + "_proj.weight"] = {
              {"dtype", "BF16"}, {"shape", {768, 1024}}, {"data_offsets", {at, at + kPiece}}};
        }
      }
    }
    std::string text = json.dump();
    text.resize(kHead - 8, ' ');
    return maio::SafetensorsHead(text);
  }
  void Read(Simulator* sim, const Setup& setup, std::vector<Access> accesses) {
    Reader r;
    r.pid = pid_;
    r.mapped = true;
    r.bytes_per_ms = setup.rate;
    r.start_ms = sim->ms();
    r.accesses = std::move(accesses);
    sim->readers = {r};
    EXPECT_TRUE(sim->Run(600000));
  }
  // Two experts of each layer, for so many tokens; milliseconds that the reader waited.
  uint64_t Compute(Simulator* sim, const Setup& setup, int tokens) {
    std::minstd_rand random(1);
    std::vector<Access> accesses;
    for (int token = 0; token < tokens; token++) {
      for (uint64_t layer = 0; layer < kLayers; layer++) {
        const uint64_t first = random() % kExperts;
        const uint64_t second = (first + 1 + random() % (kExperts - 1)) % kExperts;
        for (uint64_t part = 0; part < kParts; part++) {
          for (const uint64_t expert : {first, second})
            accesses.push_back({file_, PlaceOf(layer, expert, part), kPiece, 0, 0});
        }
      }
    }
    Read(sim, setup, std::move(accesses));
    return sim->readers[0].stall_ms;
  }
  // After a load of the whole model, as it serves.
  std::unique_ptr<Simulator> Serving(const Setup& setup) {
    auto sim = Loaded(setup);
    sim->RunFor(15000);
    sim->RunBackground();
    return sim;
  }
  // Right after it.
  std::unique_ptr<Simulator> Loaded(const Setup& setup) {
    auto sim = Empty(setup);
    file_ = sim->AddFile("m/model.safetensors", kHead + kModel, Header());
    EXPECT_EQ(sim->Init(), 0);
    Start(sim.get(), setup);
    Read(sim.get(), setup, {{file_, 0, kHead + kModel, 0, 0}});
    return sim;
  }

  uint64_t file_ = 0;
  int pid_ = 100;
};

TEST_F(MaioExpertsTest, AMissLoadsTheRestOfTheExpert) {
  Setup setup = OneReader();
  uint64_t waited[2] = {}, read[2] = {};
  for (const bool prefetches : {false, true}) {
    setup.config = {{"prefetch", prefetches}};
    auto sim = Serving(setup);
    const uint64_t before = sim->disk_bytes;
    waited[prefetches] = Compute(sim.get(), setup, 40);
    read[prefetches] = sim->disk_bytes - before;
    EXPECT_EQ(StatusOf(sim.get()).contains("experts"), prefetches);
    EXPECT_EQ(sim->load_flags.count(PPC_IO_WAITED), prefetches ? 1u : 0u);
    EXPECT_LE(sim->peak, setup.options.limit) << "the kernel makes room";
  }
  EXPECT_LE(2 * waited[true], waited[false]);
  EXPECT_LE(read[true], read[false] + read[false] / 20);
}

// No order says what is next: what is loaded ahead of a jump is loaded for nothing.
TEST_F(MaioExpertsTest, TokensRightAfterTheLoadReadNoMore) {
  Setup setup = OneReader();
  uint64_t read[2] = {};
  for (const bool prefetches : {false, true}) {
    setup.config = {{"prefetch", prefetches}};
    auto sim = Loaded(setup);
    const uint64_t before = sim->disk_bytes;
    Compute(sim.get(), setup, 20);
    read[prefetches] = sim->disk_bytes - before;
  }
  EXPECT_LE(read[true], read[false] + read[false] / 20);
}

// A server that rested misses experts with the next request: it does not load its model again.
TEST_F(MaioExpertsTest, MissesAfterARestAreNoLoad) {
  const Setup setup = OneReader();
  auto sim = Serving(setup);
  Compute(sim.get(), setup, 40);
  sim->RunFor(30000);
  ASSERT_EQ(StatusOf(sim.get())["mode"], "serving");
  sim->load_flags.clear();
  Compute(sim.get(), setup, 40);
  EXPECT_EQ(sim->load_flags, (decltype(sim->load_flags){PPC_IO_WAITED}));
  EXPECT_EQ(StatusOf(sim.get())["mode"], "serving");
}

// Sleep mode, new weights: a load in little memory misses much, and each later one is a load too.
TEST_F(MaioExpertsTest, AModelThatIsReadAnewIsNotComputedFrom) {
  const Setup setup = OneReader();
  auto sim = Serving(setup);
  for (int load = 0; load < 2; load++) {
    sim->DropAll();
    Read(sim.get(), setup, {{file_, 0, kHead + kModel, 0, 0}});
    EXPECT_EQ(StatusOf(sim.get())["mode"], "use") << load;
    EXPECT_FALSE(StatusOf(sim.get()).contains("experts"));
    sim->RunFor(15000);
    EXPECT_EQ(StatusOf(sim.get())["mode"], "serving");
  }
}

// Each may need slices of experts.
TEST_F(MaioExpertsTest, OfSeveralProcessesNoExpertsAreLookedFor) {
  const Setup setup = OneReader();
  auto sim = Serving(setup);
  for (int token = 0; token < 40; token++) {
    pid_ = 100 + token % 2;
    Compute(sim.get(), setup, 1);
  }
  EXPECT_FALSE(StatusOf(sim.get()).contains("experts"));
  pid_ = 100;
  Compute(sim.get(), setup, 40);
  EXPECT_TRUE(StatusOf(sim.get()).contains("experts")) << "one is left";
}

TEST_F(MaioExpertsTest, AStopWhileHeadersAreReadIsTheEnd) {
  const Setup setup = OneReader();
  auto sim = Serving(setup);
  sim->is_background_held = true;
  Compute(sim.get(), setup, 40);
  ASSERT_FALSE(sim->background.empty()) << "headers are to be read";
  sim->Control({{"op", "service_stop"}, {"service_id", kId}});
  sim->is_background_held = false;
  sim->RunBackground();
  sim->Control({{"op", "service_start"}, {"service_id", "abcd"}, {"service", 2}});
  EXPECT_EQ(sim->Control({{"op", "status"}})["services"].size(), 1u) << "its place is free again";
}

TEST_F(MaioExpertsTest, WhereAllFitsNothingIsAskedFor) {
  Setup setup = OneReader();
  setup.options.limit = 288 * kMiB;
  auto sim = Serving(setup);
  EXPECT_EQ(Compute(sim.get(), setup, 10), 0u);
  EXPECT_EQ(sim->load_flags.count(PPC_IO_WAITED), 0u);
}

}  // namespace
}  // namespace ppc::test
