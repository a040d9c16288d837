// SPDX-License-Identifier: Apache-2.0
// MAIO with templates from headers: the first start of a service follows them
// while it is recorded, and files that changed are taken from theirs.
#include "policies/maio/synth/synth.h"
#include "policies/maio/template/template.h"
#include "policies/maio/template/template_compare.h"
#include "tests/policy/maio_fixture.h"
#include "tests/unit/policies/page_set.h"
#include "tests/unit/policies/synth_source_memory.h"

namespace ppc::test {
namespace {

class MaioSynthTest : public MaioTest {
 protected:
  static constexpr uint32_t kShards = 12;
  static constexpr uint32_t kTensors = 4;            // of a shard: two split, two read by all
  static constexpr uint64_t kTensorBytes = 2 << 20;  // 1024 rows of 1024 bytes

  static std::string Header(uint32_t tensors) {
    std::string json = "{";
    for (uint32_t i = 0; i < tensors; i++) {
      const char* name = i % 2 ? "mlp.up_proj.weight" : "self_attn.q_a_proj.weight";
      json += (i == 0 ? "\"" : ",\"") + ("model.layers." + std::to_string(i) + "." + name) +
              R"(":{"dtype":"BF16","shape":[1024,1024],"data_offsets":[)" +
              std::to_string(i * kTensorBytes) + "," + std::to_string((i + 1) * kTensorBytes) +
              "]}";
    }
    json += "}";
    json.resize(4096 - 8, ' ');
    return maio::SafetensorsHead(json);
  }

  static std::string ShardName(uint32_t shard) {
    const std::string number = std::to_string(shard + 1);
    return "m/model-" + std::string(5 - number.size(), '0') + number + "-of-00012.safetensors";
  }
  // The policy has not begun.
  std::unique_ptr<Simulator> MakeReal(const Setup& setup) {
    auto sim = Empty(setup);
    config_ = sim->AddFile("m/config.json", 8 << 10);
    shards_.clear();
    for (uint32_t i = 0; i < kShards; i++)
      shards_.push_back(
          sim->AddFile(ShardName(i), 4096 + kTensors * kTensorBytes, Header(kTensors)));
    return sim;
  }
  nlohmann::json StartReal(Simulator* sim, const Setup& setup) {
    EXPECT_EQ(sim->Init(), 0);
    return Start(sim, setup);
  }
  // A template that lists the beginning of the first shard.
  void StoreOfOneShard(uint32_t flags, uint64_t pages) {
    maio::Template t;
    t.service_id = kId;
    t.flags = flags;
    t.files.push_back(
        {ShardName(0), 4096 + kTensors * kTensorBytes, 1, maio::FileKind::kSafetensors, {}});
    t.groups.emplace_back().extents = {{0, 0, pages}};
    Store(t);
  }
  // A shard with more tensors.
  void Grow(Simulator* sim, uint32_t shard) {
    FakeFile& file = sim->files[shards_[shard]];
    file.head = Header(kTensors + 2);
    file.size = 4096 + (kTensors + 2) * kTensorBytes;
    file.mtime_ns++;
  }

  // Two workers, who hold parts `first` and the next of so many of each tensor that is split.
  void AddRealReaders(Simulator* sim, const Setup& setup, uint32_t first = 0, uint32_t parts = 2) {
    for (uint32_t w = 0; w < 2; w++) {
      Reader r;
      r.pid = 100 + static_cast<int>(w);
      r.xpu = static_cast<int>(w);
      r.bytes_per_ms = setup.rate;
      r.start_ms = sim->ms();
      r.accesses.push_back({config_, 0, 8 << 10, 0, 0});
      for (uint64_t shard : shards_) {
        const uint64_t tensors = (sim->files[shard].size - 4096) / kTensorBytes;
        r.accesses.push_back({shard, 0, 4096, 0, sim->ms() + setup.init_ms});
        for (uint64_t i = 0; i < tensors; i++) {
          const uint64_t at = 4096 + i * kTensorBytes;
          const uint64_t part = kTensorBytes / parts;
          r.accesses.push_back(i % 2 ? Access{shard, at + (first + w) * part, part, 0, 0}
                                     : Access{shard, at, kTensorBytes, 0, 0});
        }
      }
      sim->readers.push_back(r);
    }
  }

  nlohmann::json RunToReady(Simulator* sim, const Setup& setup, uint32_t first = 0,
                            uint32_t parts = 2) {
    AddRealReaders(sim, setup, first, parts);
    return Finish(sim);
  }

  uint64_t config_ = 0;
  std::vector<uint64_t> shards_;
};

TEST_F(MaioSynthTest, TheFirstStartFollowsTheHeadersAndIsRecorded) {
  auto sim = MakeReal(setup_);
  const nlohmann::json reply = StartReal(sim.get(), setup_);
  EXPECT_EQ(reply["mode"], "record") << reply;
  EXPECT_TRUE(Has(reply["reason"].get<std::string>(), "headers")) << reply;
  nlohmann::json status = RunToReady(sim.get(), setup_);
  EXPECT_EQ(status["reason"], "template stored") << status;
  // Read once, and ahead of the workers.
  EXPECT_EQ(sim->reread_bytes, 0u);
  EXPECT_LE(sim->demand_bytes, 2 * kMiB);
  EXPECT_EQ(status["unknown"], 0) << status;
  // The configuration is listed for the service itself; here the workers read it.
  EXPECT_LE(status["over_prefetch"], 8192) << status;
  // What was recorded is what the headers had said.
  const maio::Template recorded = Stored();
  EXPECT_EQ(recorded.flags, maio::kComplete | maio::kTraced);
  maio::PageSet pages;
  pages.Add(recorded);
  EXPECT_EQ(pages.bytes(), kShards * (4096 + kTensors * kTensorBytes) + 8192);
  auto second = MakeReal(setup_);
  EXPECT_EQ(StartReal(second.get(), setup_)["reason"], "template found");
}

// The observer does not see what is mapped by huge pages; what is loaded ahead is no sign of them.
TEST_F(MaioSynthTest, ARecordingIsSuspectWhereAMappedModelWasInMemoryBefore) {
  for (const bool is_warm : {true, false}) {
    Setup setup;
    TempTree store;
    auto sim = MakeReal(setup);
    sim->template_dir = store.Root();
    sim->caps |= PPC_MISSES_HUGE;
    if (is_warm) {
      for (const uint64_t shard : shards_)
        sim->residency[shard].resident = kTensors * kTensorBytes * 3 / 4;
    }
    EXPECT_EQ(StartReal(sim.get(), setup)["mode"], "record");
    EXPECT_EQ(RunToReady(sim.get(), setup)["reason"], "template stored");
    const maio::Template recorded = Stored(maio::TemplatePath(store.Root(), kId));
    EXPECT_EQ((recorded.flags & maio::kWarmSuspect) != 0, is_warm);
  }
}

TEST_F(MaioSynthTest, RecordingWithoutPrefetchReadsByItself) {
  setup_.config = {{"prefetch", false}};
  auto sim = MakeReal(setup_);
  EXPECT_EQ(StartReal(sim.get(), setup_)["reason"], "no template yet");
  EXPECT_EQ(RunToReady(sim.get(), setup_)["reason"], "template stored");
  EXPECT_GT(sim->demand_bytes, 40 * kMiB);
}

TEST_F(MaioSynthTest, NeverRecordingUsesTheHeadersAlone) {
  setup_.config = {{"record", "never"}};
  auto sim = MakeReal(setup_);
  EXPECT_EQ(StartReal(sim.get(), setup_)["mode"], "use");
  RunToReady(sim.get(), setup_);
  EXPECT_LE(sim->demand_bytes, 2 * kMiB);
  EXPECT_FALSE(IsStored());
}

TEST_F(MaioSynthTest, AChangedFileIsTakenFromItsHeader) {
  auto first = MakeReal(setup_);
  StartReal(first.get(), setup_);
  RunToReady(first.get(), setup_);
  auto sim = MakeReal(setup_);
  Grow(sim.get(), 3);
  const nlohmann::json reply = StartReal(sim.get(), setup_);
  EXPECT_EQ(reply["mode"], "use") << reply;
  EXPECT_EQ(reply["stale_files"], 1);
  EXPECT_EQ(reply["synthesized_files"], 1);
  nlohmann::json status = RunToReady(sim.get(), setup_);
  EXPECT_EQ(sim->native[shards_[3]], 0);
  EXPECT_LE(sim->demand_bytes, 2 * kMiB);
  EXPECT_EQ(status["unknown"], 0) << status;
  EXPECT_EQ(status["over_prefetch"], 0) << status;
}

TEST_F(MaioSynthTest, AStoredSyntheticTemplateIsFollowedAndReplaced) {
  auto sim = MakeReal(setup_);
  StoreOfOneShard(maio::kComplete | maio::kSynthetic, 1 + kTensors * kTensorBytes / 4096);
  const nlohmann::json reply = StartReal(sim.get(), setup_);
  EXPECT_EQ(reply["mode"], "record");
  EXPECT_EQ(reply["template_bytes"], 4096 + kTensors * kTensorBytes) << reply;
  EXPECT_EQ(RunToReady(sim.get(), setup_)["reason"], "template stored");
  const maio::Template t = Stored();
  EXPECT_EQ(t.flags & maio::kSynthetic, 0u);
  EXPECT_EQ(t.files.size(), kShards + 1);
}

// It is what a recording can be: used, not repeated; the headers tell the rest.
TEST_F(MaioSynthTest, ATemplateThatOverflowedIsUsedAndCompleted) {
  auto sim = MakeReal(setup_);
  StoreOfOneShard(maio::kComplete | maio::kTraced | maio::kOverflow, 1);
  const nlohmann::json reply = StartReal(sim.get(), setup_);
  EXPECT_EQ(reply["mode"], "use") << reply;
  EXPECT_TRUE(Has(reply["reason"].get<std::string>(), "completed from the model's headers"))
      << reply;
  RunToReady(sim.get(), setup_);
  EXPECT_LE(sim->demand_bytes, 2 * kMiB);
  EXPECT_EQ(sim->reread_bytes, 0u);
  const maio::Template t = Stored();
  EXPECT_EQ(t.flags, maio::kComplete | maio::kTraced | maio::kOverflow);
  EXPECT_EQ(t.files.size(), 1u);
}

// Two nodes with two of four workers each; what has to be known of one is made from the headers.
TEST_F(MaioSynthTest, ADraftModelIsLoadedAfterItsModel) {
  setup_.config = {{"record", "never"}};
  auto sim = MakeReal(setup_);
  const uint64_t draft =
      sim->AddFile("d/model.safetensors", 4096 + kTensors * kTensorBytes, Header(kTensors));
  ASSERT_EQ(sim->Init(), 0);
  const auto bytes = [&](const nlohmann::json& params) {
    nlohmann::json message = StartMessage(setup_);
    message["params"] = params;
    const nlohmann::json started = Settle(sim.get(), message);
    End(sim.get(), "service_stop");
    return started.value("template_bytes", uint64_t{0});
  };
  const uint64_t alone = bytes({{"model", "m"}});
  EXPECT_EQ(alone, kShards * (4096 + kTensors * kTensorBytes) + 8192);
  const std::string path = "/mnt/fake/d";
  EXPECT_EQ(bytes({{"model", "m"}, {"draft", path}}), alone + sim->files[draft].size);
  EXPECT_EQ(bytes({{"model", "m"}, {"draft", "/elsewhere"}}), alone);
}

class MaioSynthNodesTest : public MaioSynthTest {
 protected:
  static constexpr uint32_t kWorkers = 4;
  // Of this model, all that workers of one node read: half of what is split.
  static constexpr uint64_t kNodeBytes = kShards * (4096 + kTensors * kTensorBytes * 3 / 4) + 8192;

  nlohmann::json StartOn(Simulator* sim, uint32_t node, nlohmann::json params = {},
                         uint32_t nodes = 2) {
    EXPECT_EQ(sim->Init(), 0);
    nlohmann::json message = StartMessage({});
    message.update({{"node", node}, {"nodes", nodes}});
    if (!params.is_null()) message["params"] = std::move(params);
    return Settle(sim, message);
  }
  // What the node's two workers, of so many, do once the service follows what is listed.
  nlohmann::json Follow(Simulator* sim, uint32_t node, uint32_t workers = kWorkers) {
    const nlohmann::json status = RunToReady(sim, {}, node * 2, workers);
    EXPECT_LE(sim->demand_bytes, 2 * kMiB);
    EXPECT_EQ(status["unknown"], 0) << status;
    return status;
  }
  // The same where nothing was ever recorded.
  nlohmann::json FollowHeaders(uint32_t node, uint64_t bytes, const nlohmann::json& params = {},
                               uint32_t nodes = 2, uint32_t workers = kWorkers) {
    Setup setup;
    setup.config = {{"record", "never"}};
    auto sim = MakeReal(setup);
    const nlohmann::json started = StartOn(sim.get(), node, params, nodes);
    EXPECT_EQ(started["mode"], "use") << started;
    EXPECT_EQ(started["template_bytes"], bytes) << started;
    return Follow(sim.get(), node, workers);
  }
  // The node's workers alone read, and next to nothing without having been read for.
  void RecordNode(uint32_t node) {
    Setup setup;
    auto sim = MakeReal(setup);
    const nlohmann::json started = StartOn(sim.get(), node);
    EXPECT_EQ(started["mode"], "record") << started;
    EXPECT_TRUE(Has(started["reason"].get<std::string>(), "headers")) << started;
    EXPECT_EQ(started["template_bytes"], kNodeBytes) << started;
    const nlohmann::json status = Follow(sim.get(), node);
    EXPECT_EQ(status["reason"], "template stored") << status;
    EXPECT_LE(sim->disk_bytes, kNodeBytes * 101 / 100);
    EXPECT_EQ(sim->reread_bytes, 0u);
  }
};

TEST_F(MaioSynthNodesTest, AMissingPartIsMadeFromHeaders) {
  RecordNode(0);  // neither has a part
  RecordNode(1);  // the other's part is of no use to it
  ExpectTwoOfEachNode(Stored());
}

TEST_F(MaioSynthNodesTest, NeverRecordingANodeUsesTheHeadersAlone) {
  for (const uint32_t node : {0u, 1u}) FollowHeaders(node, kNodeBytes);
}

// 256 workers hold the model together; each node follows its own two.
TEST_F(MaioSynthNodesTest, ManyNodes) {
  constexpr uint64_t kOwnBytes = kShards * (4096 + 2 * kTensorBytes + 2 * kTensorBytes * 2 / 256);
  for (const uint32_t node : {0u, 127u}) FollowHeaders(node, kOwnBytes + 8192, {}, 128, 256);
}

// Each node has the whole model: its workers 2 and 3 read what 0 and 1 of the other one do.
TEST_F(MaioSynthNodesTest, DataParallelNodesReadTheSame) {
  for (const uint32_t node : {0u, 1u}) {
    Setup setup;
    setup.config = {{"record", "never"}};
    auto sim = MakeReal(setup);
    EXPECT_EQ(StartOn(sim.get(), node, {{"tp", 2}})["mode"], "use");
    const nlohmann::json status = RunToReady(sim.get(), setup);
    EXPECT_LE(sim->demand_bytes, 2 * kMiB);
    EXPECT_EQ(status["unknown"], 0) << status;
    EXPECT_LE(status["over_prefetch"], 8192) << status;
  }
}

TEST_F(MaioSynthNodesTest, AFileThatChangedIsTakenFromItsHeader) {
  RecordNode(0);
  RecordNode(1);
  for (const uint32_t node : {0u, 1u}) {
    auto sim = MakeReal({});
    Grow(sim.get(), 3);
    const nlohmann::json started = StartOn(sim.get(), node);
    EXPECT_EQ(started["mode"], "use") << started;
    EXPECT_EQ(started["synthesized_files"], 1) << started;
    EXPECT_EQ(Follow(sim.get(), node)["over_prefetch"], 0);
  }
}

// The workers of a stage that share experts are those of all replicas already.
TEST_F(MaioSynthTest, DataParallelWorkersAreCountedOnceBesideExperts) {
  auto sim = MakeReal({});
  ASSERT_EQ(sim->Init(), 0);
  nlohmann::json start = {{"op", "service_start"}, {"service_id", kId}, {"service", 1}};
  start["params"] = {{"tp", 2}, {"dp", 2}, {"ep", true}};
  const nlohmann::json started = Settle(sim.get(), start);
  int workers = 0;
  for (const auto& group : started["groups"]) workers += group["group"] >= 0 ? 1 : 0;
  EXPECT_EQ(workers, 4) << started;
}

// What is there is loaded ahead, by the headers first and then by what was recorded of it.
TEST_F(MaioSynthTest, ShardsThatTheIndexListsAndThatAreMissingAreLeftOut) {
  std::string map;
  for (uint32_t i = 0; i < kShards; i++)
    map += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":\"" + ShardName(i).substr(2) + "\"";
  map = "{\"weight_map\":{" + map + "}}";
  const std::vector<std::pair<uint32_t, std::string>> starts = {
      {1, "no template yet; follows the model's headers; " + ShardName(11) + " is missing"},
      {1, "template found"},
      {2, "template found; " + ShardName(10) + " is missing"},
      {5, "the model changed: 4 of 12 files; follows the model's headers; " + ShardName(7) +
              " and 4 more files are missing"}};
  for (const auto& [missing, reason] : starts) {
    auto sim = MakeReal(setup_);
    sim->AddFile("m/model.safetensors.index.json", map.size(), map);
    for (uint32_t i = 0; i < missing; i++) {
      sim->files.erase(shards_.back());
      shards_.pop_back();
    }
    EXPECT_EQ(StartReal(sim.get(), setup_)["reason"], reason);
    RunToReady(sim.get(), setup_);
    EXPECT_LE(sim->demand_bytes, 2 * kMiB) << reason;
  }
}

// It passes over its model in less time than accesses are told late.
TEST_F(MaioSynthTest, AFirstStartServesSoonAfterItsFirstPass) {
  setup_.rate = 600 << 10;
  setup_.init_ms = 0;
  setup_.options.disk_bytes_per_ms = 4 << 20;
  auto sim = MakeReal(setup_);
  StartReal(sim.get(), setup_);
  AddRealReaders(sim.get(), setup_);
  ASSERT_TRUE(sim->Run(5000));
  const uint64_t ended_ms = sim->ms();
  while (sim->ms() < ended_ms + 20000 && StatusOf(sim.get())["mode"] != "serving") {
    sim->readers.clear();
    AddRealReaders(sim.get(), setup_);
    ASSERT_TRUE(sim->Run(5000));
  }
  // 10 s, a tick and a pass.
  EXPECT_LE(sim->ms() - ended_ms, 10'000u + 200 + 300);
}

TEST_F(MaioSynthTest, DamagedHeadersMeanAnOrdinaryRecording) {
  auto sim = MakeReal(setup_);
  sim->files[shards_[5]].head[7] = 1;
  const nlohmann::json reply = StartReal(sim.get(), setup_);
  EXPECT_EQ(reply["mode"], "record");
  EXPECT_EQ(reply["reason"], "no template yet");
  bool told = false;
  for (const std::string& line : sim->log) told |= line.find(ShardName(5)) != std::string::npos;
  EXPECT_TRUE(told);
  EXPECT_EQ(RunToReady(sim.get(), setup_)["reason"], "template stored");
}

}  // namespace
}  // namespace ppc::test
