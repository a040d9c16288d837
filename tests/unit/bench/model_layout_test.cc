// SPDX-License-Identifier: Apache-2.0
// Generated headers give the published file sizes, byte for byte; scaling keeps the structure.
#include "tools/model/common/model_layout.h"

#include <gtest/gtest.h>

#include "daemon/base/json.h"
#include "tests/unit/has.h"
#include "tools/model/mkmodel/writer.h"

namespace ppc::bench {
namespace {

std::vector<uint64_t> FileSizes(const std::string& name, uint64_t scale) {
  std::vector<uint64_t> sizes;
  for (const Shard& shard : ShardModel(*FindModel(name), scale))
    sizes.push_back(shard.Header().size() + shard.data_bytes());
  return sizes;
}

// Published sizes of the 72B model's 37 files: after the first seven they repeat with period four.
TEST(ModelLayout, Qwen72bHasThePublishedSizes) {
  std::vector<uint64_t> published{3762345336, 3995200440, 3812769392, 3995183944,
                                  3995183944, 3995200456, 3812769424};
  for (int i = 0; i < 7; ++i)
    published.insert(published.end(), {3995183968, 3995183968, 3995200464, 3812769424});
  published.insert(published.end(), {3995183968, 3460317640});
  EXPECT_EQ(FileSizes("qwen2.5-72b", 1), published);
}

TEST(ModelLayout, Qwen7bHasThePublishedSizes) {
  EXPECT_EQ(FileSizes("qwen2.5-7b", 1),
            (std::vector<uint64_t>{3945441440, 3864726352, 3864726424, 3556377672}));
}

TEST(ModelLayout, Llama70bHasThePublishedSizes) {
  EXPECT_EQ(FileSizes("llama-2-70b", 1),
            (std::vector<uint64_t>{9852591960, 9798099016, 9965870512, 9798066064, 9798099064,
                                   9798099056, 9965870512, 9798066064, 9798099064, 9798099056,
                                   9965870512, 9798066064, 9798099064, 9496124816, 524288128}));
}

TEST(ModelLayout, Llama7bHasTheSizesOfItsShardLimit) {
  EXPECT_EQ(FileSizes("llama-2-7b", 1), (std::vector<uint64_t>{9976570304, 3500294472}));
}

// The 163 files of the repository, whose headers are not padded.
TEST(ModelLayout, DeepSeekR1HasThePublishedSizes) {
  const std::vector<uint64_t> published{
      5234139343, 4302383966, 4302384375, 4302349996, 4302384154, 4372073602, 4306080097,
      4302384356, 4302350190, 4302383960, 4302384375, 1321583941, 4302317244, 4302384328,
      4302350218, 4302383932, 4302384377, 4302350026, 4302384124, 4302384377, 4302350413,
      4302384900, 4302350808, 4302384504, 4302384961, 4302350620, 4302384692, 4302384963,
      4302350448, 4302384884, 4302350824, 4302384488, 4302384963, 1747417474, 4302317817,
      4302384914, 4302350794, 4302384518, 4302384963, 4302350602, 4302384710, 4302384963,
      4302350432, 4302384900, 4302350808, 4302384504, 4302384961, 4302350620, 4302384692,
      4302384963, 4302350448, 4302384884, 4302350824, 4302384488, 4302384963, 1747417474,
      4302317817, 4302384914, 4302350794, 4302384518, 4302384963, 4302350602, 4302384710,
      4302384963, 4302350432, 4302384900, 4302350808, 4302384504, 4302384961, 4302350620,
      4302384692, 4302384963, 4302350448, 4302384884, 4302350824, 4302384488, 4302384963,
      1747417474, 4302317817, 4302384914, 4302350794, 4302384518, 4302384963, 4302350602,
      4302384710, 4302384963, 4302350432, 4302384900, 4302350808, 4302384504, 4302384961,
      4302350620, 4302384692, 4302384963, 4302350448, 4302384884, 4302350824, 4302384488,
      4302384963, 1747417474, 4302317817, 4302384914, 4302350794, 4302384518, 4302384963,
      4302350602, 4302384710, 4302384963, 4302350432, 4302384900, 4302350808, 4302384504,
      4302384961, 4302350620, 4302384692, 4302384963, 4302350448, 4302384884, 4302350824,
      4302384488, 4302384963, 1747417474, 4302317817, 4302384914, 4302350794, 4302384518,
      4302384963, 4302350602, 4302384710, 4302384963, 4302350432, 4302384900, 4302350808,
      4302384504, 4302384961, 4302350620, 4302384692, 4302384963, 4302350448, 4302384884,
      3142388798, 4302317817, 4302384914, 4302350794, 4302384518, 4302384963, 4302350602,
      4302384710, 4302384963, 4302350432, 4302384900, 4302350808, 4302384504, 4302384961,
      4302350620, 4302384692, 4302384963, 4302350448, 4302384884, 5230637362, 4302384321,
      4302384948, 6584784447};
  EXPECT_EQ(FileSizes("deepseek-r1", 1), published);
}

TEST(ModelLayout, DeepSeekR1ScalesWithItsExpertsAndShards) {
  size_t tensors = 0;
  uint64_t bytes = 0;
  const std::vector<Shard> shards = ShardModel(*FindModel("deepseek-r1"), 4096);
  for (const Shard& shard : shards) {
    tensors += shard.tensors.size();
    bytes += shard.data_bytes();
  }
  EXPECT_EQ(shards.size(), 163u);
  EXPECT_EQ(shards[162].file, "model-00163-of-000163.safetensors");
  EXPECT_EQ(tensors, 91991u);
  EXPECT_NEAR(static_cast<double>(bytes), 688574839360.0 / 4096, 688574839360.0 / 4096 * 0.05);
}

struct Totals {
  const char* name;
  size_t tensors, shards;
  uint64_t tensor_bytes;
};

TEST(ModelLayout, CountsAndTotalsAreThePublishedOnes) {
  for (const Totals& want :
       {Totals{"qwen2.5-7b", 339, 4, 15231233024}, Totals{"qwen2.5-32b", 771, 17, 65527752704},
        Totals{"qwen2.5-72b", 963, 37, 145412407296}, Totals{"llama-2-7b", 291, 2, 13476831232},
        Totals{"llama-2-70b", 803, 15, 137953316864},
        Totals{"llama-3.1-405b", 1137, 191, 811706777600},
        Totals{"deepseek-r1", 91991, 163, 688574839360}}) {
    size_t tensors = 0;
    uint64_t bytes = 0;
    const std::vector<Shard> shards = ShardModel(*FindModel(want.name), 1);
    for (const Shard& shard : shards) {
      tensors += shard.tensors.size();
      bytes += shard.data_bytes();
    }
    EXPECT_EQ(tensors, want.tensors) << want.name;
    EXPECT_EQ(shards.size(), want.shards) << want.name;
    EXPECT_EQ(bytes, want.tensor_bytes) << want.name;
  }
}

// Facts of the published index: one layer's tensors lie in two files.
TEST(ModelLayout, Qwen72bSplitsLayersAsPublished) {
  const std::vector<Shard> shards = ShardModel(*FindModel("qwen2.5-72b"), 64);
  const auto has = [&](size_t shard, const std::string& name) {
    for (const Tensor& tensor : shards[shard].tensors)
      if (tensor.name == name) return true;
    return false;
  };
  EXPECT_TRUE(has(0, "model.layers.0.mlp.gate_proj.weight"));
  EXPECT_TRUE(has(1, "model.layers.0.mlp.down_proj.weight"));
  EXPECT_TRUE(has(3, "model.layers.7.mlp.up_proj.weight"));
  EXPECT_TRUE(has(4, "model.layers.7.mlp.gate_proj.weight"));
  EXPECT_TRUE(has(36, "lm_head.weight"));
  EXPECT_EQ(shards[36].tensors.size(), 4u);
  EXPECT_EQ(shards[6].file, "model-00007-of-00037.safetensors");
}

// The first layers' tensors as they are, embeddings too, in about as many shards.
TEST(ModelLayout, KeepsTheFirstLayersWhole) {
  const ModelSpec whole = *FindModel("qwen2.5-7b");
  const ModelSpec kept = Value(KeepLayers(whole, 4));
  const std::vector<Shard> shards = ShardModel(kept, 1);
  EXPECT_EQ(shards.size(), ShardModel(whole, 1).size());
  uint64_t tensors = 0;
  for (const Shard& shard : shards) tensors += shard.tensors.size();
  EXPECT_EQ(tensors, 4 * 12u + 3u);
  const auto bytes = [](const ModelSpec& model, const std::string& name) {
    for (const Shard& shard : ShardModel(model, 1))
      for (const Tensor& tensor : shard.tensors)
        if (tensor.name == name) return tensor.end - tensor.begin;
    return uint64_t{0};
  };
  for (const char* name : {"model.layers.3.mlp.up_proj.weight", "lm_head.weight"})
    EXPECT_EQ(bytes(kept, name), bytes(whole, name)) << name;
  EXPECT_EQ(bytes(kept, "model.layers.4.mlp.up_proj.weight"), 0u);
  EXPECT_EQ(KeepLayers(whole, 28)->left_out, 0u);
}

TEST(ModelLayout, RefusesLayersThatAreNotThere) {
  const ModelSpec whole = *FindModel("qwen2.5-7b");
  for (const uint64_t layers : {0u, 29u}) {
    const Result<ModelSpec> kept = KeepLayers(whole, layers);
    ASSERT_FALSE(kept.ok());
    EXPECT_EQ(kept.error().message, "qwen2.5-7b has 1 to 28 layers, not " + std::to_string(layers));
  }
  EXPECT_FALSE(KeepLayers(*FindModel("deepseek-r1"), 8).ok());
}

TEST(ModelLayout, ScaleDividesBytesAndKeepsStructure) {
  for (const uint64_t scale : {16u, 64u, 256u}) {
    const std::vector<uint64_t> sizes = FileSizes("qwen2.5-72b", scale);
    uint64_t total = 0;
    for (const uint64_t size : sizes) total += size;
    EXPECT_EQ(sizes.size(), 37u);
    EXPECT_NEAR(static_cast<double>(total), 145412407296.0 / static_cast<double>(scale),
                145412407296.0 / static_cast<double>(scale) * 0.01)
        << scale;
  }
}

TEST(ModelLayout, ScaledDimensionsSplitOverEightWorkers) {
  for (const ModelSpec& full : Models()) {
    const ModelSpec model = ScaleModel(full, 64);
    EXPECT_EQ(model.ffn % 8, 0u) << full.name;
    EXPECT_EQ(model.vocab % 8, 0u) << full.name;
    EXPECT_EQ(model.hidden % 8, 0u) << full.name;
  }
}

TEST(ModelLayout, UnknownModelNamesTheKnownOnes) {
  EXPECT_TRUE(Has(FindModel("gpt-9").error().message, "qwen2.5-32b"));
}

TEST(ModelLayout, IndexNamesEveryTensorAndTheTotal) {
  const Json index =
      Value(ParseJsonObject(IndexJson(ShardModel(*FindModel("qwen2.5-72b"), 1)), "index"));
  EXPECT_EQ(index["weight_map"].size(), 963u);
  EXPECT_EQ(index["metadata"]["total_size"], 145412407296u);
}

TEST(ModelLayout, TokenizerIsJsonOfTheAskedLength) {
  const std::string text = TokenizerJson(1, 100000);
  EXPECT_TRUE(ParseJsonObject(text, "tokenizer").ok());
  EXPECT_NEAR(static_cast<double>(text.size()), 100000, 1000);
}

}  // namespace
}  // namespace ppc::bench
