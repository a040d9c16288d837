// SPDX-License-Identifier: Apache-2.0
// Which model a service follows at its first start: the one that it was told of or that was missed,
// never all that lies beside it.

#include "policies/maio/template/template.h"
#include "tests/policy/maio_fixture.h"
#include "tests/unit/policies/synth_source_memory.h"

namespace ppc::test {
namespace {

using maio::Field;

constexpr uint64_t kTensorBytes = 24 << 20;

std::string Header() {
  std::string json = R"({"w":{"dtype":"U8","shape":[24576,1024],"data_offsets":[0,25165824]}})";
  json.resize(4096 - 8, ' ');
  return maio::SafetensorsHead(json);
}

class MaioModelTest : public MaioTest {
 protected:
  void Prepare(const Setup& setup = {}) {
    sim_ = Empty(setup);
    numbers_.clear();
  }
  uint64_t AddShard(const std::string& path) {
    return numbers_[path] = sim_->AddFile(path, 4096 + kTensorBytes, Header());
  }
  nlohmann::json StartWith(nlohmann::json params) {
    EXPECT_EQ(sim_->Init(), 0);
    return Settle(sim_.get(), {{"op", "service_start"},
                               {"service_id", kId},
                               {"service", 1},
                               {"workers", 1},
                               {"params", std::move(params)}});
  }
  // Reads these from start to end.
  std::string Read(const std::vector<uint64_t>& files, uint64_t after_ms = 3000) {
    Reader r;
    r.bytes_per_ms = 100 << 10;
    r.start_ms = sim_->ms();
    for (const uint64_t file : files)
      r.accesses.push_back({file, 0, sim_->files[file].size, 0, sim_->ms() + after_ms});
    sim_->readers.push_back(r);
    return Finish(sim_.get())["reason"];
  }
  bool IsLoaded(const std::string& path) { return sim_->IsResident(numbers_[path], 8 << 20); }

  std::unique_ptr<Simulator> sim_;
  std::map<std::string, uint64_t> numbers_;
};

// An automatic service's parameter is the file that was missed.
TEST_F(MaioModelTest, OfAFlatFolderOnlyTheMissedModelIsFollowed) {
  Prepare();
  for (const char* name : {"a.safetensors", "b.safetensors", "c.safetensors"}) AddShard(name);
  const auto status = StartWith({{"model", "b.safetensors"}});
  EXPECT_EQ(status["template_bytes"], 4096 + kTensorBytes) << status;
  sim_->RunFor(2000);
  EXPECT_TRUE(IsLoaded("b.safetensors"));
  EXPECT_FALSE(IsLoaded("a.safetensors"));
  EXPECT_FALSE(IsLoaded("c.safetensors"));
}

TEST_F(MaioModelTest, WithoutANameOrAnIndexNothingIsGuessed) {
  Prepare();
  for (const char* name : {"a.safetensors", "b.safetensors"}) AddShard(name);
  const auto status = StartWith({});
  EXPECT_EQ(status["mode"], "record") << status;
  EXPECT_FALSE(status.contains("template_bytes")) << status;
  sim_->RunFor(2000);
  EXPECT_EQ(sim_->disk_bytes, 0u);
  EXPECT_EQ(Read({numbers_["a.safetensors"]}), "template stored");
}

TEST_F(MaioModelTest, APipelinesComponentsAndNotTheCheckpointBesideThem) {
  Prepare();
  const std::string index = R"({"vae":["diffusers","A"],"transformer":["diffusers","T"]})";
  sim_->AddFile("model_index.json", index.size(), index);
  for (const char* name : {"flux1.safetensors", "vae/diffusion_pytorch_model.safetensors",
                           "transformer/diffusion_pytorch_model.safetensors"})
    AddShard(name);
  (void)StartWith({{"model", "model_index.json"}});
  sim_->RunFor(2000);
  EXPECT_FALSE(IsLoaded("flux1.safetensors"));
  EXPECT_TRUE(IsLoaded("vae/diffusion_pytorch_model.safetensors"));
  EXPECT_TRUE(IsLoaded("transformer/diffusion_pytorch_model.safetensors"));
}

// 36 files of 4 MiB each: weights, though each is small, and followed with a limit like any.
TEST_F(MaioModelTest, ExternalDataInManyFilesAreWeights) {
  constexpr uint32_t kFiles = 36;
  constexpr uint64_t kFileBytes = 4 << 20;
  std::vector<uint64_t> files;
  const auto begin = [&](uint64_t limit) {
    Setup setup;
    setup.options.limit = limit;
    Prepare(setup);
    std::string graph;
    files.clear();
    for (uint32_t i = 0; i < kFiles; i++) {
      const std::string name = "w" + std::to_string(i);
      files.push_back(sim_->AddFile("m/" + name, kFileBytes));
      graph += Field(5, Field(13, Field(1, "location") + Field(2, name)));
    }
    const std::string head = Field(7, graph);
    files.insert(files.begin(), sim_->AddFile("m/model.onnx", head.size(), head));
    return StartWith({{"model", "m/model.onnx"}});
  };
  EXPECT_EQ(begin(0)["mode"], "record");
  EXPECT_EQ(Read(files), "template stored");
  EXPECT_LE(sim_->demand_bytes, 4 * kMiB) << "the first start follows the list";
  const maio::Template t = Stored();
  for (const maio::TemplateFile& file : t.files)
    EXPECT_EQ(file.kind, maio::FileKind::kOther) << file.path;
  EXPECT_EQ(begin(0)["mode"], "use");
  (void)Read(files);
  EXPECT_LE(sim_->demand_bytes, 1 * kMiB);
  const uint64_t limit = kFiles * kFileBytes / 2;
  EXPECT_EQ(begin(limit)["mode"], "use");
  (void)Read(files);
  EXPECT_EQ(sim_->reclaimed_bytes, 0u) << "what was read has been dropped";
  EXPECT_GT(sim_->evicted_bytes, limit / 2);
  EXPECT_EQ(sim_->reread_bytes, 0u);
}

// Nobody says what they are; still they are not nothing.
TEST_F(MaioModelTest, SmallFilesWithoutATellingNameAreWorthATemplate) {
  std::vector<uint64_t> files;
  const auto begin = [&] {
    Prepare();
    files.clear();
    for (uint32_t i = 0; i < 8; i++)
      files.push_back(sim_->AddFile("m/w" + std::to_string(i), 4 << 20));
    return StartWith({});
  };
  EXPECT_EQ(begin()["mode"], "record");
  EXPECT_EQ(Read(files), "template stored");
  EXPECT_EQ(begin()["mode"], "use");
}

// A snapshot's links and its blobs.
TEST_F(MaioModelTest, OfAHubCacheEachFileIsListedOnce) {
  const std::string top = "models--org--x/";
  const auto begin = [&] {
    Prepare();
    for (const int i : {1, 2}) {
      const std::string number = std::to_string(i);
      const uint64_t blob = AddShard(top + "blobs/" + number);
      sim_->links[top + "snapshots/r/model-0000" + number + "-of-00002.safetensors"] = blob;
    }
    const std::string main = "r\n";
    sim_->AddFile(top + "refs/main", main.size(), main);
    return StartWith({{"model", "org/x"}});
  };
  maio::Template t;  // cut short when half of the first blob had been read
  t.service_id = kId;
  t.flags = maio::kPartial | maio::kTraced;
  t.files.push_back({top + "blobs/1", 4096 + kTensorBytes, 1, maio::FileKind::kSafetensors, {}});
  t.groups.emplace_back().extents.push_back({0, 0, 3073});
  Store(t);
  const auto status = begin();
  EXPECT_EQ(status["mode"], "record") << status;
  EXPECT_EQ(status["template_bytes"], 2 * (4096 + kTensorBytes)) << status;
  // One that lists both names, of before: the second one is left out.
  t.flags = maio::kComplete | maio::kTraced;
  t.files.push_back(t.files[0]);
  t.files[1].path = top + "snapshots/r/model-00001-of-00002.safetensors";
  t.groups[0].extents.push_back({1, 0, 3073});
  Store(t);
  const auto doubled = begin();
  EXPECT_EQ(doubled["mode"], "use") << doubled;
  EXPECT_EQ(doubled["template_bytes"], 3073 * 4096) << doubled;
}

TEST_F(MaioModelTest, WhatReadsPastThePageCacheOrNotAtAllIsNotLoadedAhead) {
  for (const char* format : {"dummy", "fastsafetensors"}) {
    Prepare();
    AddShard("m/model.safetensors");
    const auto status = StartWith({{"model", "m"}, {"load_format", format}});
    EXPECT_EQ(status["mode"], "record") << status;
    sim_->RunFor(2000);
    EXPECT_EQ(sim_->disk_bytes, 0u) << format;
  }
  Prepare();
  AddShard("m/model.safetensors");
  (void)StartWith({{"model", "m"}, {"load_format", "auto"}});
  sim_->RunFor(2000);
  EXPECT_TRUE(IsLoaded("m/model.safetensors"));
}

// Told of by nobody: the headers were followed, and nothing of the model was read.
TEST_F(MaioModelTest, AModelThatNobodyReadIsNotLoadedTheNextTime) {
  const auto begin = [&] {
    Prepare();
    AddShard("m/model.safetensors");
    numbers_["config"] = sim_->AddFile("m/config.json", 4096);
    return StartWith({{"model", "m"}});
  };
  EXPECT_EQ(begin()["mode"], "record");
  EXPECT_EQ(Read({numbers_["config"]}), "template stored");
  EXPECT_GT(sim_->disk_bytes, kTensorBytes);
  EXPECT_EQ(begin()["mode"], "use");
  sim_->RunFor(2000);
  EXPECT_LE(sim_->disk_bytes, 8192u);
}

}  // namespace
}  // namespace ppc::test
