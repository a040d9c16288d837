// SPDX-License-Identifier: Apache-2.0
//
// Templates from headers against what loadmodel reads of the same model, by
// loadmodel's own rule for slices.
#include "policies/maio/synth/synth.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "policies/maio/template/template_compare.h"
#include "tests/unit/policies/synth_source_memory.h"
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
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("ppc_synth_test." + std::to_string(getpid()));
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  // Makes a model; its directory below root_.
  std::string Make(const std::string& name, uint64_t scale, bool is_hf_cache = false) {
    bench::WriteOptions options;
    options.out = root_ / name;
    options.scale = scale;
    options.is_sparse = true;
    options.is_hf_cache = is_hf_cache;
    const Result<bench::WrittenModel> made = WriteModel(*bench::FindModel(name), options);
    EXPECT_TRUE(made.ok()) << made.error().message;
    return fs::relative(made->model_dir, root_);
  }

  std::optional<Template> Synth(const std::string& dir, uint32_t tp, const char* loader,
                                std::string* error) {
    DirectorySource source(root_);
    SynthOptions options;
    options.service_id = kId;
    options.tp = tp;
    options.loader = ParseLoaderKind(loader);
    return Synthesize(&source, dir, options, error);
  }

  void Compare(const std::string& name, uint64_t scale, uint32_t tp, const char* loader) {
    SCOPED_TRACE(name + " tp " + std::to_string(tp) + " " + loader);
    const std::string dir = Make(name, scale);
    std::string error;
    const std::optional<Template> t = Synth(dir, tp, loader, &error);
    ASSERT_TRUE(t.has_value()) << error;
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

  fs::path root_;
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
  std::string error;
  const std::optional<Template> by_file = Synth(dir, 2, "mmap", &error);
  const std::optional<Template> by_layer = Synth(dir, 2, "mmap-layers", &error);
  ASSERT_TRUE(by_file && by_layer) << error;
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
  std::string error;
  const std::optional<Template> whole = Synth(dir, 2, "whole", &error);
  ASSERT_TRUE(whole.has_value()) << error;
  PageSet one;
  one.Add(*whole, 1);
  PageSet all;
  all.Add(*whole);
  const std::optional<Template> ranks = Synth(dir, 2, "ranks", &error);
  ASSERT_TRUE(ranks.has_value()) << error;
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
  std::string error;
  const std::optional<Template> t = Synthesize(&source, place->dir, options, &error);
  ASSERT_TRUE(t.has_value()) << error;
  for (const TemplateFile& file : t->files)
    EXPECT_NE(file.path.find("/blobs/"), std::string::npos) << file.path;
  EXPECT_EQ(t->files.back().kind, FileKind::kSafetensors);
}

TEST_F(SynthModel, LinksOutOfTheMountAreRefused) {
  const std::string dir = Make("llama-2-7b", 4096);
  const std::string shard = root_ / dir / "model-00002-of-00002.safetensors";
  fs::remove(shard);
  fs::create_symlink("/etc/passwd", shard);
  std::string error;
  EXPECT_FALSE(Synth(dir, 2, "mmap", &error).has_value());
  EXPECT_NE(error.find("model-00002-of-00002.safetensors: leads out of the mount"),
            std::string::npos)
      << error;
  fs::remove(shard);
  EXPECT_FALSE(Synth(dir, 2, "mmap", &error).has_value());
  EXPECT_NE(error.find("download it again"), std::string::npos) << error;
  EXPECT_FALSE(Synth("nothing", 2, "mmap", &error).has_value());
  EXPECT_FALSE(Synth(dir, 0, "mmap", &error).has_value());
  EXPECT_FALSE(Synth(dir, 64, "mmap", &error).has_value());
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
    std::string error;
    const std::optional<Template> t = Synthesize(&source, dir, options, &error);
    EXPECT_TRUE(t.has_value()) << error;
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

}  // namespace
}  // namespace ppc::maio
