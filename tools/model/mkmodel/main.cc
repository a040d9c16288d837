// SPDX-License-Identifier: Apache-2.0
// mkmodel: makes a checkpoint directory with the true layout of a published model.
// Threads: one.
#include <cstdio>
#include <string>

#include "tools/model/common/model_layout.h"
#include "tools/model/common/options.h"
#include "tools/model/mkmodel/writer.h"

namespace {

using ppc::Error;
using ppc::Result;
using namespace ppc::bench;

constexpr char kUsage[] =
    "usage: mkmodel --model NAME [--scale N] [--layers N] --out DIR [--seed S] [--hf-cache] "
    "[--sparse] [--quiet]\n"
    "       mkmodel --model NAME [--scale N] [--layers N] --headers-only\n"
    "Writes a safetensors checkpoint with the published tensors and shards of NAME (qwen2.5-7b,\n"
    "qwen2.5-32b, qwen2.5-72b, llama-2-7b, llama-2-70b, llama-3.1-405b, deepseek-r1), its bytes\n"
    "divided by about N (default 64), contents pseudo-random.\n"
    "  --layers N      the first N layers alone, before scaling: a small model of large tensors\n"
    "  --hf-cache      lay DIR out as the Hugging Face hub cache (blobs, refs, snapshots)\n"
    "  --sparse        headers and small files only; tensors are holes (full-size layouts)\n"
    "  --headers-only  write nothing; print the size and name of each shard\n"
    "Prints the directory to give to a loader.\n";

int PrintSizes(const ModelSpec& model, uint64_t scale) {
  for (const Shard& shard : ShardModel(model, scale)) {
    const uint64_t bytes = shard.Header().size() + shard.data_bytes();
    std::printf("%s %s\n", std::to_string(bytes).c_str(), shard.file.c_str());
  }
  return 0;
}

void ShowProgress(const std::string& file, uint64_t done, uint64_t total) {
  std::fprintf(stderr, "mkmodel: %s, %llu of %llu MB\n", file.c_str(),
               static_cast<unsigned long long>(done / 1000000),
               static_cast<unsigned long long>(total / 1000000));
}

int Run(const Options& options) {
  Result<ModelSpec> model = FindModel(options.Text("model", ""));
  if (!model.ok()) return Fail("mkmodel", model.error());
  Result<uint64_t> scale = options.Number("scale", 64);
  if (!scale.ok()) return Fail("mkmodel", scale.error());
  if (scale.value() == 0) return Fail("mkmodel", Error{22, "--scale must be at least 1"});
  Result<uint64_t> layers = options.Number("layers", model.value().layers);
  if (!layers.ok()) return Fail("mkmodel", layers.error());
  model = KeepLayers(model.value(), layers.value());
  if (!model.ok()) return Fail("mkmodel", model.error());
  if (options.Has("headers-only")) return PrintSizes(model.value(), scale.value());
  Result<uint64_t> seed = options.Number("seed", 1);
  if (!seed.ok()) return Fail("mkmodel", seed.error());
  if (!options.Has("out")) return Fail("mkmodel", Error{22, "--out DIR is missing; see --help"});
  WriteOptions write;
  write.out = options.Text("out", "");
  write.scale = scale.value();
  write.seed = seed.value();
  write.is_hf_cache = options.Has("hf-cache");
  write.is_sparse = options.Has("sparse");
  if (!options.Has("quiet")) write.progress = ShowProgress;
  Result<WrittenModel> written = WriteModel(model.value(), write);
  if (!written.ok()) return Fail("mkmodel", written.error());
  std::printf("%s\n", written.value().model_dir.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Result<Options> options = Options::Parse(argc, argv, {"model", "scale", "layers", "out", "seed"},
                                           {"hf-cache", "headers-only", "sparse", "quiet", "help"});
  if (!options.ok()) return Fail("mkmodel", options.error());
  if (options.value().Has("help")) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  return Run(options.value());
}
