// SPDX-License-Identifier: Apache-2.0
// Templates from headers against what loadmodel reads of the same model, by
// loadmodel's own rule for slices.
#include "policies/maio/synth/synth.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "policies/maio/synth/synth_slice.h"
#include "policies/maio/template/template_compare.h"
#include "tests/unit/has.h"
#include "tests/unit/policies/page_set.h"
#include "tests/unit/policies/synth_source_memory.h"
#include "tests/unit/temp_tree.h"
#include "tools/model/common/slice.h"
#include "tools/model/loadmodel/config.h"
#include "tools/model/mkmodel/writer.h"

namespace ppc::maio {
namespace {

namespace fs = std::filesystem;

constexpr char kId[] = "0123456789abcdef";

void AddRange(PageSet* out, const std::string& path, uint64_t offset, uint64_t bytes) {
  if (bytes != 0) out->Add(path, offset / kPage, (offset + bytes + kPage - 1) / kPage);
}

// What a worker of loadmodel touches of a shard, see Worker::TakeRows.
void AddShard(PageSet* out, const std::string& path, const bench::Shard& shard, uint32_t rank,
              uint32_t tp, bool is_mmap) {
  const uint64_t data = shard.Header().size();
  AddRange(out, path, 0, data);
  for (const bench::Tensor& tensor : shard.tensors) {
    const bench::Slice slice = bench::SliceTensor(tensor, rank, tp);
    // Of rows shorter than a page no page is left out.
    const bool joined =
        slice.rows > 1 &&
        (slice.stride_bytes <= kPage || (!is_mmap && slice.stride_bytes <= bench::kPieceBytes / 2));
    if (joined) {
      AddRange(out, path, data + slice.begin,
               (slice.rows - 1) * slice.stride_bytes + slice.run_bytes);
      continue;
    }
    for (uint64_t row = 0; row < slice.rows; row++)
      AddRange(out, path, data + slice.begin + row * slice.stride_bytes, slice.run_bytes);
  }
}

class SynthModel : public testing::Test {
 protected:
  // Makes a model; its directory below root_.
  std::string Make(const std::string& name, uint64_t scale, bool is_hf_cache = false) {
    bench::WriteOptions options;
    options.out = root_ / name;
    options.scale = scale;
    options.is_sparse = true;
    options.is_hf_cache = is_hf_cache;
    return fs::relative(Value(WriteModel(*bench::FindModel(name), options)).model_dir, root_);
  }

  std::optional<Template> Synth(const std::string& dir, uint32_t tp, const char* loader) {
    DirectorySource source(root_);
    SynthOptions options;
    options.service_id = kId;
    options.tp = tp;
    options.loader = ParseLoaderKind(loader);
    return Synthesize(&source, dir, options, &error_);
  }

  void Compare(const std::string& name, uint64_t scale, uint32_t tp, const char* loader) {
    SCOPED_TRACE(name + " tp " + std::to_string(tp) + " " + loader);
    const std::string dir = Make(name, scale);
    const std::optional<Template> t = Synth(dir, tp, loader);
    ASSERT_TRUE(t.has_value()) << error_;
    EXPECT_EQ(t->flags & kSynthetic, kSynthetic);
    ASSERT_EQ(t->groups.size(), tp + 1);
    PageSet read;
    PageSet listed;
    listed.Add(*t);
    const auto small = [&](PageSet* pages) {
      for (const char* file : {"config.json", "generation_config.json", "tokenizer.json",
                               "tokenizer_config.json", "model.safetensors.index.json"})
        AddRange(pages, dir + "/" + file, 0, fs::file_size(root_ / dir / file));
    };
    small(&read);
    const std::vector<bench::Shard> shards = ShardModel(*bench::FindModel(name), scale);
    for (uint32_t rank = 0; rank < tp; rank++) {
      PageSet worker;
      PageSet worker_listed;
      worker_listed.Add(*t, rank);
      for (const bench::Shard& shard : shards) {
        AddShard(&worker, dir + "/" + shard.file, shard, rank, tp, loader[0] == 'm');
        AddShard(&read, dir + "/" + shard.file, shard, rank, tp, loader[0] == 'm');
      }
      EXPECT_GE(worker.CommonBytes(worker_listed) * 100, worker.bytes() * 98) << rank;
    }
    const uint64_t common = read.CommonBytes(listed);
    EXPECT_GE(common * 100, read.bytes() * 98);
    EXPECT_LE((listed.bytes() - common) * 100, listed.bytes() * 2);
    fs::remove_all(root_ / name);
  }

  const TempTree tree_;
  const fs::path root_ = tree_.Root();
  std::string error_;
};

TEST_F(SynthModel, CoversWhatLoadmodelReadsAndHardlyMore) {
  for (const char* loader : {"mmap", "read", "mmap-layers"})
    for (const uint32_t tp : {1u, 2u, 4u, 8u}) Compare("qwen2.5-7b", 64, tp, loader);
  Compare("llama-2-70b", 64, 4, "mmap");
  Compare("deepseek-r1", 4096, 4, "mmap");
}

TEST_F(SynthModel, CoversFullSizeLayouts) {
  Compare("qwen2.5-72b", 1, 4, "mmap");
  Compare("llama-2-7b", 1, 8, "read");
}

TEST_F(SynthModel, LayerOrderGoesThroughLayersByNumber) {
  const std::string dir = Make("qwen2.5-7b", 64);
  const std::optional<Template> by_file = Synth(dir, 2, "mmap");
  const std::optional<Template> by_layer = Synth(dir, 2, "mmap-layers");
  ASSERT_TRUE(by_file && by_layer) << error_;
  // The same pages in another order, but for what joining neighbours adds.
  PageSet file_pages;
  PageSet layer_pages;
  file_pages.Add(*by_file);
  layer_pages.Add(*by_layer);
  const uint64_t common = file_pages.CommonBytes(layer_pages);
  EXPECT_GE(common * 100, file_pages.bytes() * 99);
  EXPECT_GE(common * 100, layer_pages.bytes() * 99);
  const auto shard_order = [](const Template& t) {
    std::vector<std::string> paths;
    for (const Extent& e : t.groups[0].extents)
      if (paths.empty() || paths.back() != t.files[e.file].path)
        paths.push_back(t.files[e.file].path);
    return paths;
  };
  // File by file each shard once; by layers, back to the second for lm_head.
  EXPECT_LE(shard_order(*by_file).size(), 6u);
  EXPECT_GT(shard_order(*by_layer).size(), shard_order(*by_file).size());
}

TEST_F(SynthModel, WholeAndRanksReadFilesFrontToBack) {
  const std::string dir = Make("qwen2.5-7b", 256);
  const std::optional<Template> whole = Synth(dir, 2, "whole");
  ASSERT_TRUE(whole.has_value()) << error_;
  PageSet one;
  one.Add(*whole, 1);
  PageSet all;
  all.Add(*whole);
  const std::optional<Template> ranks = Synth(dir, 2, "ranks");
  ASSERT_TRUE(ranks.has_value()) << error_;
  PageSet first;
  PageSet second;
  first.Add(*ranks, 0);
  second.Add(*ranks, 1);
  EXPECT_GT(one.bytes() * 100, all.bytes() * 95);
  EXPECT_LT(first.CommonBytes(second), 1u << 20);  // the index
  EXPECT_NEAR(static_cast<double>(first.bytes()), static_cast<double>(second.bytes()),
              static_cast<double>(first.bytes()) / 5);
}

TEST_F(SynthModel, HubCacheListsBlobsBelowTheRoot) {
  Make("qwen2.5-7b", 1024, /*is_hf_cache=*/true);
  DirectorySource source(root_ / "qwen2.5-7b");
  const std::optional<ModelPlace> place = FindModel(&source, "/m", "Qwen/Qwen2.5-7B");
  ASSERT_TRUE(place.has_value());
  SynthOptions options;
  options.service_id = kId;
  const std::optional<Template> t = Synthesize(&source, place->dir, options, &error_);
  ASSERT_TRUE(t.has_value()) << error_;
  for (const TemplateFile& file : t->files) EXPECT_TRUE(Has(file.path, "/blobs/"));
  EXPECT_EQ(t->files.back().kind, FileKind::kSafetensors);
}

TEST_F(SynthModel, LinksOutOfTheMountAreRefused) {
  const std::string dir = Make("llama-2-7b", 4096);
  const std::string shard = root_ / dir / "model-00002-of-00002.safetensors";
  fs::remove(shard);
  fs::create_symlink("/etc/passwd", shard);
  EXPECT_FALSE(Synth(dir, 2, "mmap").has_value());
  EXPECT_TRUE(Has(error_, "model-00002-of-00002.safetensors: leads out of the mount"));
  fs::remove(shard);
  EXPECT_FALSE(Synth(dir, 2, "mmap").has_value());
  EXPECT_TRUE(Has(error_, "download it again"));
  EXPECT_FALSE(Synth("nothing", 2, "mmap").has_value());
  EXPECT_FALSE(Synth(dir, 0, "mmap").has_value());
  EXPECT_FALSE(Synth(dir, 64, "mmap").has_value());
}

TEST_F(SynthModel, FindsTheDirectoryOfAModel) {
  Make("llama-2-7b", 4096);
  DirectorySource source(root_);
  EXPECT_EQ(FindModel(&source, "/models", "llama-2-7b"), (ModelPlace{"llama-2-7b", ""}));
  EXPECT_EQ(FindModel(&source, "/models", "/models/llama-2-7b/"), (ModelPlace{"llama-2-7b", ""}));
  EXPECT_EQ(FindModel(&source, "/models", "org/llama-2-7b"), (ModelPlace{"llama-2-7b", ""}));
  EXPECT_EQ(FindModel(&source, "/models", ""), (ModelPlace{"llama-2-7b", ""}));  // the only one
  DirectorySource inner(root_ / "llama-2-7b");
  EXPECT_EQ(FindModel(&inner, "/models", "whatever"), (ModelPlace{"", ""}));
  Make("qwen2.5-7b", 4096);
  EXPECT_EQ(FindModel(&source, "/models", ""), std::nullopt);
  EXPECT_EQ(FindModel(&source, "/models", "../../etc"), std::nullopt);
}

TEST_F(SynthModel, AFileThatIsNamedIsTheModelWithItsSet) {
  const std::string dir = Make("llama-2-7b", 4096);
  fs::copy_file(root_ / dir / "model-00001-of-00002.safetensors",
                root_ / dir / "other.safetensors");
  DirectorySource source(root_);
  auto weights = [&](const std::string& only) {
    SynthOptions options;
    options.service_id = kId;
    options.only = only;
    const std::optional<Template> t = Synthesize(&source, dir, options, &error_);
    EXPECT_TRUE(t.has_value()) << error_;
    std::string names;
    for (const TemplateFile& file : t->files) {
      if (file.kind == FileKind::kSafetensors) names += file.path.substr(dir.size()) + " ";
    }
    return names;
  };
  const std::string set = "/model-00001-of-00002.safetensors /model-00002-of-00002.safetensors ";
  EXPECT_EQ(weights("other.safetensors"), "/other.safetensors ");
  EXPECT_EQ(weights("model-00002-of-00002.safetensors"), set);
  EXPECT_EQ(weights("absent.safetensors"), set) << "as without";
}

TEST_F(SynthModel, FingerprintSeesTheWholeTableOfContents) {
  MemorySource source;
  std::string json = "{\"__metadata__\":{\"x\":\"" + std::string(200000, 'x') + "\"}}";
  source.Add("a.safetensors", SafetensorsHead(json), 1000);
  const uint64_t size = source.files["a.safetensors"].size;
  const Fingerprint before = FileFingerprint(&source, "a.safetensors", size, nullptr);
  source.files["a.safetensors"].head[150000] = 'y';
  EXPECT_NE(FileFingerprint(&source, "a.safetensors", size, nullptr), before);
  source.files["a.safetensors"].head[150000] = 'x';
  EXPECT_EQ(FileFingerprint(&source, "a.safetensors", size, nullptr), before);
  // Weights are not part of it; of other files the end is.
  source.files["a.safetensors"].head.resize(size, '\1');
  EXPECT_EQ(FileFingerprint(&source, "a.safetensors", size, nullptr), before);
  source.Add("b.bin", std::string(300000, 'b'));
  const Fingerprint other = FileFingerprint(&source, "b.bin", 300000, nullptr);
  source.files["b.bin"].head[299999] = 'c';
  EXPECT_NE(FileFingerprint(&source, "b.bin", 300000, nullptr), other);
  EXPECT_EQ(FileFingerprint(&source, "none", 1, nullptr), Fingerprint{});
}

SynthTensor Make(const std::string& name, std::vector<uint64_t> shape) {
  uint64_t elements = 1;
  for (uint64_t dim : shape) elements *= dim;
  return {name, std::move(shape), 1000, 1000 + 2 * elements};
}

TEST(SynthSlice, OutputsAreRowsAndInputsAreColumns) {
  for (const char* name :
       {"model.layers.1.mlp.gate_proj.weight", "m.self_attn.q_proj.bias", "lm_head.weight",
        "blk.3.ffn_up.weight", "output.weight", "m.experts.3.w1.weight", "something.new.weight"}) {
    auto ranges = SliceOf(Make(name, {8, 4}), 1, 2, {});
    ASSERT_EQ(ranges.size(), 1u) << name;
    EXPECT_EQ(ranges[0].begin, 1032u) << name;
    EXPECT_EQ(ranges[0].end(), 1064u) << name;
  }
  for (const char* name : {"m.mlp.down_proj.weight", "x.attention.dense.weight", "l.fc2.weight",
                           "m.experts.9.down_proj.weight_scale_inv", "blk.0.attn_output.weight"}) {
    auto ranges = SliceOf(Make(name, {8, 4}), 1, 2, {});
    ASSERT_EQ(ranges.size(), 1u) << name;
    EXPECT_EQ(ranges[0].rows, 8u) << name;
    EXPECT_EQ(ranges[0].begin, 1004u) << name;
    EXPECT_EQ(ranges[0].run, 4u) << name;
    EXPECT_EQ(ranges[0].stride, 8u) << name;
  }
}

TEST(SynthSlice, WhatIsNotSplitIsReadByAll) {
  for (const char* name :
       {"m.input_layernorm.weight", "m.mlp.gate.weight", "m.self_attn.q_a_proj.weight",
        "m.self_attn.kv_a_proj_with_mqa.weight_scale_inv", "m.self_attn.o_proj.bias"}) {
    bool is_bias = std::string(name).ends_with("bias");
    SynthTensor tensor = is_bias ? Make(name, {8}) : Make(name, {8, 4});
    auto ranges = SliceOf(tensor, 1, 2, {});
    ASSERT_EQ(ranges.size(), 1u) << name;
    EXPECT_EQ(ranges[0].begin, tensor.begin) << name;
    EXPECT_EQ(ranges[0].end(), tensor.end) << name;
  }
  // What does not divide, and what has no bytes.
  EXPECT_EQ(SliceOf(Make("m.q_proj.weight", {3, 4}), 1, 2, {})[0].run, 24u);
  EXPECT_TRUE(SliceOf(Make("m.q_proj.weight", {0, 4}), 1, 2, {}).empty());
  EXPECT_EQ(SliceOf(Make("scalar", {}), 1, 2, {})[0].run, 2u);
}

TEST(SynthSlice, FewKeyValueHeadsAreShared) {
  ModelShape shape{16, 2};
  EXPECT_EQ(SliceOf(Make("m.k_proj.weight", {8, 4}), 1, 4, shape)[0].begin, 1000u);
  EXPECT_EQ(SliceOf(Make("m.k_proj.weight", {8, 4}), 2, 4, shape)[0].begin, 1032u);
  EXPECT_EQ(SliceOf(Make("m.k_proj.weight", {8, 4}), 3, 4, shape)[0].run, 32u);
}

TEST(SynthSlice, FusedProjectionsAreSplitPartByPart) {
  auto both = SliceOf(Make("m.gate_up_proj.weight", {8, 4}), 1, 2, {});
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(both[0].begin, 1016u);
  EXPECT_EQ(both[1].begin, 1048u);
  auto fused = SliceOf(Make("m.qkv_proj.weight", {16, 4}), 1, 2, {4, 2});
  ASSERT_EQ(fused.size(), 3u);
  EXPECT_EQ(fused[0].begin, 1000u + 4 * 8);
  EXPECT_EQ(fused[0].run, 4 * 8u);
  EXPECT_EQ(fused[2].begin, 1000u + 14 * 8);
}

TEST(SynthSlice, QuantisedWeightsAreStoredTheOtherWayRound) {
  EXPECT_EQ(SliceOf(Make("m.q_proj.qweight", {8, 4}), 1, 2, {})[0].rows, 8u);
  EXPECT_EQ(SliceOf(Make("m.down_proj.qweight", {8, 4}), 1, 2, {})[0].begin, 1032u);
}

}  // namespace
}  // namespace ppc::maio
