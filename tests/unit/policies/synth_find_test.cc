// SPDX-License-Identifier: Apache-2.0
// Which files of a directory are followed, and which are not: by layouts that engines read.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <set>

#include "policies/maio/base/tuning.h"
#include "policies/maio/synth/synth.h"
#include "policies/maio/template/template_compare.h"
#include "tests/unit/has.h"
#include "tests/unit/policies/synth_source_memory.h"

namespace ppc::maio {
namespace {

constexpr uint64_t kBytes = 1 << 20;

std::string Gguf() {
  std::string head = "GGUF";
  head += std::string("\3\0\0\0", 4) + std::string(16, '\0');  // no tensors, no keys
  return head;
}

// One tensor.
std::string Shard(const std::string& tensor = "lm_head.weight") {
  return SafetensorsHead("{\"" + tensor + R"(":{"dtype":"U8","shape":[1024,1024],)" +
                         R"("data_offsets":[0,1048576]}})");
}

class SynthFind : public testing::Test {
 protected:
  void AddShard(const std::string& path, const std::string& tensor = "lm_head.weight") {
    source_.Add(path, Shard(tensor), kBytes);
  }
  void AddGguf(const std::string& path) { source_.Add(path, Gguf(), kBytes); }
  void AddPlain(const std::string& path, uint64_t bytes = kBytes) {
    source_.Add(path, "PK", bytes);
  }
  void AddIndex(const std::string& path, const std::vector<std::string>& names) {
    std::string map;
    for (const std::string& name : names)
      map += (map.empty() ? "\"" : ",\"") + name + "\":\"" + name + "\"";
    source_.Add(path, "{\"weight_map\":{" + map + "}}");
  }
  // The weights that a service with this parameter follows, in their order; "-": it follows none.
  std::string Follows(const std::string& model) {
    options_.service_id = "svc-find";
    const std::optional<ModelPlace> place = FindModel(&source_, "/m", model);
    if (!place) return "-";
    options_.only = place->file;
    error_.clear();
    const std::optional<Template> t = Synthesize(&source_, place->dir, options_, &error_);
    if (!t) return "-";
    std::string names;
    for (const TemplateFile& file : t->files) {
      if (file.kind != FileKind::kSmall) names += (names.empty() ? "" : " ") + file.path;
    }
    return names;
  }
  // Bytes that a worker lists of a file.
  uint64_t Listed(uint32_t worker, const std::string& file) {
    const std::optional<ModelPlace> place = FindModel(&source_, "/m", "m");
    const std::optional<Template> t =
        place ? Synthesize(&source_, place->dir, options_, &error_) : std::nullopt;
    if (!t) return ~0ull;
    uint64_t pages = 0;
    for (const TemplateGroup& group : t->groups) {
      for (const Extent& e : group.extents)
        pages += group.id == worker && t->files[e.file].path == "m/" + file ? e.pages : 0;
    }
    return pages * kPage;
  }

  MemorySource source_;
  SynthOptions options_;
  std::string error_;
};

TEST_F(SynthFind, AFlatFolderOfThreeModels) {
  for (const char* name : {"a.safetensors", "b.safetensors", "c.safetensors"}) AddShard(name);
  EXPECT_EQ(Follows(""), "-");
  EXPECT_EQ(Follows("b.safetensors"), "b.safetensors");
  EXPECT_EQ(Follows("/m/b.safetensors"), "b.safetensors");
  EXPECT_EQ(Follows("gone.safetensors"), "-");
}

TEST_F(SynthFind, AFlatFolderOfGgufs) {
  for (const char* name :
       {"big-00001-of-00002.gguf", "big-00002-of-00002.gguf", "small.gguf", "mmproj-small.gguf"})
    AddGguf(name);
  EXPECT_EQ(Follows(""), "-");
  EXPECT_EQ(Follows("small.gguf"), "small.gguf");
  EXPECT_EQ(Follows("big-00001-of-00002.gguf"), "big-00001-of-00002.gguf big-00002-of-00002.gguf");
  EXPECT_EQ(Follows("mmproj-small.gguf"), "mmproj-small.gguf");
  source_.files.erase("big-00001-of-00002.gguf");
  source_.files.erase("big-00002-of-00002.gguf");
  EXPECT_EQ(Follows(""), "small.gguf") << "the projector is no model";
}

TEST_F(SynthFind, OneSetOrAnIndexNeedsNoName) {
  AddShard("m/x-00001-of-00002.safetensors");
  AddShard("m/x-00002-of-00002.safetensors");
  const std::string set = "m/x-00001-of-00002.safetensors m/x-00002-of-00002.safetensors";
  EXPECT_EQ(Follows(""), set);
  EXPECT_EQ(Follows("m"), set);
  AddShard("m/y.safetensors");
  EXPECT_EQ(Follows("m"), "-");
  EXPECT_TRUE(Has(error_, "name the model's file"));
  AddIndex("m/model.safetensors.index.json",
           {"x-00001-of-00002.safetensors", "x-00002-of-00002.safetensors"});
  EXPECT_EQ(Follows("m"), set);
  // What is read first of a model may be its configuration.
  source_.Add("m/config.json", "{}");
  EXPECT_EQ(Follows("m/config.json"), set);
  AddShard("n/x.safetensors");
  EXPECT_EQ(Follows(""), "-") << "two models";
}

TEST_F(SynthFind, DiffusersComponentsInTheirOrder) {
  source_.Add("model_index.json",
              R"({"_class_name":"P","vae":["diffusers","A"],"text_encoder":["transformers","C"],)"
              R"("scheduler":["diffusers","S"],"feature_extractor":[null,null],)"
              R"("transformer":["diffusers","T"]})");
  AddShard("flux1-dev.safetensors");  // nobody reads it
  AddShard("vae/diffusion_pytorch_model.safetensors");
  AddShard("vae/diffusion_pytorch_model.fp16.safetensors");
  AddShard("text_encoder/model.safetensors");
  AddPlain("text_encoder/pytorch_model.bin");
  AddShard("transformer/diffusion_pytorch_model-00001-of-00002.safetensors");
  AddShard("transformer/diffusion_pytorch_model-00002-of-00002.safetensors");
  AddShard("unused/model.safetensors");
  source_.Add("scheduler/scheduler_config.json", "{}");
  const std::string components =
      "vae/diffusion_pytorch_model.safetensors text_encoder/model.safetensors "
      "transformer/diffusion_pytorch_model-00001-of-00002.safetensors "
      "transformer/diffusion_pytorch_model-00002-of-00002.safetensors";
  EXPECT_EQ(Follows(""), components);
  EXPECT_EQ(Follows("model_index.json"), components);
  EXPECT_EQ(Follows("text_encoder/model.safetensors"), components);
  EXPECT_EQ(Follows("flux1-dev.safetensors"), "flux1-dev.safetensors");
  const std::string half = Follows("vae/diffusion_pytorch_model.fp16.safetensors");
  EXPECT_TRUE(half.starts_with("vae/diffusion_pytorch_model.fp16.safetensors text")) << half;
}

std::string Onnx(const std::vector<std::string>& locations) {
  std::string graph = Field(2, "graph");
  for (const std::string& location : locations) {
    const std::string external = Field(13, Field(1, "location") + Field(2, location)) +
                                 Field(13, Field(1, "offset") + Field(2, "0"));
    graph += Field(5, Field(8, "weight") + external);
  }
  graph += Field(5, Field(9, std::string(100'000, 'w')));  // one that it holds itself
  return Field(2, "producer") + Field(7, graph);
}

// Without the pipeline's list only a name tells which of them is meant.
TEST_F(SynthFind, ACheckpointBesideComponentsWithoutAListIsNotGuessed) {
  AddShard("m/flux-dev.safetensors");
  AddShard("m/vae/diffusion_pytorch_model.safetensors");
  EXPECT_EQ(Follows("m"), "-");
  EXPECT_TRUE(Has(error_, "name the model's file"));
  EXPECT_EQ(Follows("m/flux-dev.safetensors"), "m/flux-dev.safetensors");
  source_.Add("m/config.json", "{}");  // it is the model, and what lies below belongs to it
  EXPECT_EQ(Follows("m"), "m/flux-dev.safetensors");
}

TEST_F(SynthFind, OnnxWithExternalDataInOneAndInManyFiles) {
  source_.Add("one.onnx", Onnx({"one.onnx_data", "one.onnx_data"}));
  AddPlain("one.onnx_data", 36 * kBytes);
  source_.Add("many.onnx", Onnx({"w2", "w0", "w1"}));
  for (const char* name : {"w0", "w1", "w2", "w3"}) AddPlain(name);
  EXPECT_EQ(Follows(""), "-");
  EXPECT_EQ(Follows("one.onnx"), "one.onnx one.onnx_data");
  EXPECT_EQ(Follows("one.onnx_data"), "one.onnx one.onnx_data");
  EXPECT_EQ(Follows("many.onnx"), "many.onnx w2 w0 w1");
  source_.Add("away.onnx", Onnx({"../../etc/passwd", "/etc/passwd"}));
  EXPECT_EQ(Follows("away.onnx"), "away.onnx");
  source_.Add("cut.onnx", Onnx({"w0"}).substr(0, 40));
  EXPECT_EQ(Follows("cut.onnx"), "cut.onnx");
}

TEST_F(SynthFind, PicklesByIndexOrByName) {
  AddPlain("m/pytorch_model-00001-of-00002.bin");
  AddPlain("m/pytorch_model-00002-of-00002.bin");
  AddPlain("m/training_args.bin");
  AddIndex("m/pytorch_model.bin.index.json",
           {"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"});
  const std::string set = "m/pytorch_model-00001-of-00002.bin m/pytorch_model-00002-of-00002.bin";
  EXPECT_EQ(Follows("m"), set);
  EXPECT_EQ(Follows("m/pytorch_model-00002-of-00002.bin"), set);
  AddPlain("p/consolidated.00.pth");
  EXPECT_EQ(Follows("p"), "p/consolidated.00.pth");
  AddShard("m/model.safetensors");
  EXPECT_EQ(Follows("m/pytorch_model-00002-of-00002.bin"), set);
  options_.format = WeightFormat::kTorch;
  EXPECT_EQ(Follows("m"), set);
}

// Which is read decides.
TEST_F(SynthFind, MistralsConsolidatedBesideAnIndex) {
  AddShard("m/model-00001-of-00002.safetensors");
  AddShard("m/model-00002-of-00002.safetensors");
  AddShard("m/consolidated.safetensors");
  AddIndex("m/model.safetensors.index.json",
           {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"});
  const std::string indexed =
      "m/model-00001-of-00002.safetensors m/model-00002-of-00002.safetensors";
  EXPECT_EQ(Follows("m/consolidated.safetensors"), "m/consolidated.safetensors");
  EXPECT_EQ(Follows("m/model-00001-of-00002.safetensors"), indexed);
  EXPECT_EQ(Follows("m"), indexed);
  options_.format = WeightFormat::kConsolidated;
  EXPECT_EQ(Follows("m"), "m/consolidated.safetensors");
}

TEST_F(SynthFind, OllamasBlobsByTheirContent) {
  AddGguf("blobs/sha256-aa");
  AddGguf("blobs/sha256-bb");
  source_.Add("blobs/sha256-cc", "{\"license\": \"...\"}", 100);
  EXPECT_EQ(Follows("blobs/sha256-bb"), "blobs/sha256-bb");
  EXPECT_EQ(Follows("blobs/sha256-cc"), "-");
  EXPECT_EQ(Follows(""), "-");
}

TEST_F(SynthFind, OfTwoSnapshotsTheOneOfTheBranch) {
  const std::string top = "models--org--x/";
  for (const char* revision : {"old", "new"}) {
    AddShard(top + "blobs/" + revision);
    source_.links[top + "snapshots/" + revision + "/model.safetensors"] = top + "blobs/" + revision;
  }
  EXPECT_EQ(Follows("org/x"), "-");
  source_.Add(top + "refs/main", "new\n");
  EXPECT_EQ(Follows("org/x"), top + "blobs/new");
  // Of a blob that was missed, the snapshot that has it.
  AddShard(top + "blobs/more");
  source_.links[top + "snapshots/old/model-00001-of-00002.safetensors"] = top + "blobs/more";
  source_.links[top + "snapshots/old/model-00002-of-00002.safetensors"] = top + "blobs/old";
  EXPECT_EQ(Follows(top + "blobs/more"), top + "blobs/more " + top + "blobs/old");
}

TEST_F(SynthFind, ShardedStateIsEachWorkersOwn) {
  options_.service_id = "svc-find";
  options_.tp = 2;
  AddShard("m/model-rank-0-part-0.safetensors");
  AddShard("m/model-rank-1-part-0.safetensors");
  // Copied along from the model that it was made of.
  AddIndex("m/model.safetensors.index.json", {"model-00001-of-00001.safetensors"});
  for (const WeightFormat format : {WeightFormat::kRanks, WeightFormat::kUsual}) {
    options_.format = format;
    EXPECT_EQ(Listed(0, "model-rank-0-part-0.safetensors"), kBytes + kPage) << error_;
    EXPECT_EQ(Listed(0, "model-rank-1-part-0.safetensors"), 0u);
    EXPECT_EQ(Listed(1, "model-rank-1-part-0.safetensors"), kBytes + kPage);
  }
}

TEST_F(SynthFind, StagesHoldConsecutiveLayersAndExpertsAreWhole) {
  options_.service_id = "svc-find";
  source_.Add("m/config.json", R"({"num_hidden_layers":4,"num_experts":8})");
  const std::vector<std::string> tensors = {
      "model.embed_tokens.weight", "model.layers.1.q_proj.weight", "model.layers.2.q_proj.weight",
      "model.layers.3.mlp.experts.5.up_proj.weight"};
  for (size_t i = 0; i < tensors.size(); i++)
    AddShard("m/x-0000" + std::to_string(i + 1) + "-of-00004.safetensors", tensors[i]);
  const auto workers = [&](int file) {
    std::string of;
    for (uint32_t worker = 0; worker < options_.workers(); worker++) {
      const uint64_t bytes =
          Listed(worker, "x-0000" + std::to_string(file) + "-of-00004.safetensors");
      of += bytes >= kBytes ? "W" : bytes >= kBytes / 2 ? "h" : "-";
    }
    return of;
  };
  options_.pp = 2;
  options_.tp = 1;
  EXPECT_EQ(workers(1), "W-");
  EXPECT_EQ(workers(2), "W-");
  EXPECT_EQ(workers(3), "-W");
  EXPECT_EQ(workers(4), "-W");
  options_.pp = 1;
  options_.tp = 2;
  EXPECT_EQ(workers(4), "hh");
  options_.ep = 4;
  EXPECT_EQ(workers(2), "hhhh");
  EXPECT_EQ(workers(4), "--W-");
}

// Lets the first reads go on only when so many are under way.
class SlowSource : public MemorySource {
 public:
  int64_t Read(const std::string& path, uint64_t offset, void* out, size_t bytes) override {
    std::unique_lock lock(mutex_);
    at_once_++;
    most_ = std::max(most_, at_once_);
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return most_ >= kWanted; });
    at_once_--;
    lock.unlock();
    return MemorySource::Read(path, offset, out, bytes);
  }
  static constexpr int kWanted = 8;
  int most() const { return most_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int at_once_ = 0;
  int most_ = 0;
};

Template Made(MemorySource* source) {
  SynthOptions options;
  options.service_id = "svc-find";
  std::string error;
  const std::optional<Template> made = Synthesize(source, "", options, &error);
  EXPECT_TRUE(made.has_value()) << error;
  return made.value_or(Template{});
}

TEST(SynthReads, HeadersOfManyShardsSideBySide) {
  SlowSource source;
  for (int i = 1; i <= 64; i++) {
    char name[64];
    std::snprintf(name, sizeof(name), "x-%05d-of-00064.safetensors", i);
    source.Add(name, Shard(), kBytes);
  }
  (void)Made(&source);
  EXPECT_GE(source.most(), SlowSource::kWanted);
}

// A single shard, whose index is asked for in many pieces.
TEST(SynthReads, ALargeIndexSideBySide) {
  SlowSource source;
  source.Add("model.safetensors", Shard(), kBytes);
  source.Add("model.safetensors.index.json", R"({"weight_map":{"a":"model.safetensors"},"more":")" +
                                                 std::string(8 << 20, 'x') + "\"}");
  (void)Made(&source);
  EXPECT_GE(source.most(), SlowSource::kWanted);
}

// Counts what a page cache that was empty has to wait for: each file's first question, and each
// 64 KiB that are read for the first time.
class ColdSource : public MemorySource {
 public:
  int Stat(const std::string& path, Info* out) override {
    Touch(path, ~0ull);
    return MemorySource::Stat(path, out);
  }
  int64_t Read(const std::string& path, uint64_t offset, void* out, size_t bytes) override {
    for (uint64_t at = offset >> 16; at <= (offset + bytes - 1) >> 16; at++) Touch(path, at);
    return MemorySource::Read(path, offset, out, bytes);
  }
  size_t late() const { return seen_.size(); }

 private:
  void Touch(const std::string& path, uint64_t block) {
    const std::lock_guard lock(mutex_);
    seen_.emplace(path, block);
  }
  std::mutex mutex_;
  std::set<std::pair<std::string, uint64_t>> seen_;
};

// DeepSeek-R1: an index of 8.9 MB, 163 shards with tables of 70 kB.  100 ms an answer, 5 s in all.
TEST(SynthReads, TheLargestModelOnALateDisk) {
  constexpr int kShards = 163;
  constexpr size_t kAnswersInARow = 50;
  ColdSource source;
  std::string index = R"({"weight_map":{)";
  for (int i = 1; i <= kShards; i++) {
    char name[64];
    std::snprintf(name, sizeof(name), "x-%05d-of-00163.safetensors", i);
    std::string head = R"({"a":{"dtype":"U8","shape":[65536],"data_offsets":[0,65536]})";
    head.append(70000, ' ');
    source.Add(name, SafetensorsHead(head + "}"), 65536);
    for (int tensor = 0; tensor < 560; tensor++) {
      index += '"' + std::to_string(i) + "." + std::to_string(tensor) + std::string(40, 'w') +
               "\":\"" + name + "\",";
    }
  }
  index.back() = '}';
  source.Add("model.safetensors.index.json", index + "}");
  EXPECT_EQ(Made(&source).files.size(), kShards + 1u);
  EXPECT_LE(source.late() / kLookUpsAtOnce, kAnswersInARow);
}

}  // namespace
}  // namespace ppc::maio
