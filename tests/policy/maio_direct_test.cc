// SPDX-License-Identifier: Apache-2.0
//
// Loaders that read with O_DIRECT, past the page cache: nothing is loaded ahead for them, at their
// first start either.
#include "policies/maio/template/template.h"
#include "tests/policy/maio_fixture.h"
#include "tests/unit/policies/synth_source_memory.h"

namespace ppc::test {
namespace {

constexpr uint64_t kDirectHeaderBytes = 4096;
constexpr uint64_t kDirectShardBytes = kDirectHeaderBytes + (24 << 20);

class MaioDirectTest : public MaioTest {
 protected:
  static constexpr uint32_t kShards = 8;

  // A service of one worker has started.
  void Begin(const nlohmann::json& params, bool waits = true) {
    Setup setup;
    setup.more_caps = PPC_MISSES_DIRECT | PPC_MISSES_HUGE;
    setup.config = {{"wait_for_reader", waits}};
    sim_ = Empty(setup);
    shards_.clear();
    for (uint32_t i = 0; i < kShards; i++)
      shards_.push_back(
          sim_->AddFile("m/" + std::to_string(i) + ".safetensors", kDirectShardBytes, Header()));
    const std::string index = Index();
    sim_->AddFile("m/model.safetensors.index.json", index.size(), index);
    ASSERT_EQ(sim_->Init(), 0);
    nlohmann::json message = StartMessage(setup);
    message["workers"] = 1;
    message["xpus"] = {0};
    message["params"] = {{"model", "m"}};
    if (params.is_object()) message["params"].update(params);
    mode_ = Settle(sim_.get(), message)["mode"];
  }
  // Headers are read through the page cache by any loader.  What the service says at its end.
  std::string Load(uint32_t flags) {
    Reader r;
    r.xpu = 0;
    r.mapped = false;
    r.bytes_per_ms = 100 << 10;
    r.start_ms = sim_->ms();
    for (const uint64_t shard : shards_) r.accesses.push_back({shard, 0, kDirectHeaderBytes, 0, 0});
    for (const uint64_t shard : shards_)
      r.accesses.push_back(
          {shard, kDirectHeaderBytes, kDirectShardBytes - kDirectHeaderBytes, flags, 0});
    sim_->readers.push_back(r);
    return Finish(sim_.get())["reason"];
  }
  uint64_t LoadedBytes() const { return sim_->disk_bytes - sim_->demand_bytes; }

  std::unique_ptr<Simulator> sim_;
  std::vector<uint64_t> shards_;
  std::string mode_;

 private:
  static std::string Header() {
    std::string json = R"({"w":{"dtype":"U8","shape":[24576,1024],"data_offsets":[0,25165824]}})";
    json.resize(kDirectHeaderBytes - 8, ' ');
    return maio::SafetensorsHead(json);
  }
  static std::string Index() {
    nlohmann::json map;
    for (uint32_t i = 0; i < kShards; i++)
      map["w" + std::to_string(i)] = std::to_string(i) + ".safetensors";
    return nlohmann::json{{"weight_map", map}}.dump();
  }
};

TEST_F(MaioDirectTest, NothingIsLoadedAheadOfAReaderWithODirect) {
  for (const char* mode : {"record", "use"}) {
    Begin({});
    EXPECT_EQ(mode_, mode);
    sim_->RunFor(3000);
    (void)Load(PPC_F_DIRECT);
    // Headers, of which the first was told as the window that was missed.
    EXPECT_LE(LoadedBytes(), 2 * kMiB) << mode;
  }
}

TEST_F(MaioDirectTest, AReaderThatIsSeenIsServed) {
  Begin({});
  sim_->RunFor(3000);
  EXPECT_LE(LoadedBytes(), kMiB);
  EXPECT_EQ(StatusOf(sim_.get())["waiting_workers"], 1);
  EXPECT_EQ(Load(0), "template stored");
  EXPECT_EQ(sim_->reread_bytes, 0u);
  EXPECT_LE(sim_->demand_bytes, 32 * kMiB);
  // What was recorded says that it reads through the page cache.
  Begin({});
  EXPECT_EQ(mode_, "use");
  sim_->RunFor(3000);
  EXPECT_GE(LoadedBytes(), kShards * (kDirectShardBytes - kDirectHeaderBytes));
}

TEST_F(MaioDirectTest, AKnownLoaderIsNotWaitedFor) {
  const std::pair<nlohmann::json, bool> told[] = {
      {{{"load_format", "auto"}}, true}, {{{"program", "vllm"}}, true}, {{}, false}};
  for (const auto& [params, waits] : told) {
    Begin(params, waits);
    sim_->RunFor(3000);
    EXPECT_GE(LoadedBytes(), kShards * (kDirectShardBytes - kDirectHeaderBytes)) << params << waits;
  }
}

// It was recorded when its loader read otherwise.
TEST_F(MaioDirectTest, ATemplateThatItsReaderPassesIsFollowedOnce) {
  Begin({});
  EXPECT_EQ(Load(0), "template stored");
  Begin({});
  EXPECT_EQ(mode_, "use");
  sim_->set_disk(20 << 10);
  (void)Load(PPC_F_DIRECT);
  EXPECT_LE(LoadedBytes(), 2 * kDirectShardBytes) << "what came before it was seen";
  Begin({});
  sim_->RunFor(3000);
  (void)Load(PPC_F_DIRECT);
  EXPECT_LE(LoadedBytes(), kShards * kStepBytes) << "a step that has begun is loaded";
}

// One worker of two: the other one's pages, and those of both, are still loaded.
TEST_F(MaioDirectTest, OneOfTwoWorkersReadsPastThePageCache) {
  Setup setup;
  setup.options.disk_bytes_per_ms = 40 << 10;
  setup.rate = 10 << 10;
  Record(setup);
  auto sim = Use(setup, [](Simulator* made) {
    for (Access& a : made->readers[1].accesses) a.flags = PPC_F_DIRECT;
  });
  const uint64_t own = model_.bytes() / 3;  // of each worker; a third is of both
  EXPECT_LE(sim->disk_bytes, 2 * own + own / 2) << model_.bytes();
  EXPECT_GE(sim->disk_bytes, 2 * own);
  EXPECT_LE(sim->demand_bytes, 2 * kMiB);
}

TEST_F(MaioDirectTest, AStrangerWhoReadsPastThePageCacheStopsNothing) {
  Setup setup;
  Record(setup);
  auto sim = Use(setup, [this](Simulator* made) {
    Reader stranger;
    stranger.pid = 300;
    stranger.service = -1;
    stranger.bytes_per_ms = 100 << 10;
    for (const uint64_t shard : model_.shards)
      stranger.accesses.push_back({shard, 0, model_.shape.shard_bytes, PPC_F_DIRECT, 0});
    made->readers.push_back(stranger);
  });
  EXPECT_LE(sim->demand_bytes, 2 * kMiB);
  EXPECT_EQ(status_["waiting_workers"], 0) << status_;
}

}  // namespace
}  // namespace ppc::test
