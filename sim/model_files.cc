// SPDX-License-Identifier: Apache-2.0
// The files of simulated models, see service.h.
#include <algorithm>
#include <cstdio>
#include <random>
#include <utility>

#include "sim/service.h"
#include "tools/model/mkmodel/writer.h"

namespace ppc::sim {
namespace {

constexpr uint64_t kTokenizerBytes = 7 << 20;  // a typical tokenizer.json

}  // namespace

ModelFiles AddModel(PageCache* cache, const bench::ModelSpec& model, uint64_t scale,
                    const std::string& directory, const PackageOptions& packages) {
  ModelFiles files;
  const auto add_small = [&](const std::string& name, const std::string& text, uint64_t bytes) {
    files.small.push_back(directory + "/" + name);
    cache->AddFile(files.small.back(), std::max<uint64_t>(bytes, text.size()), text);
  };
  // Sizes up to twice the mean, like modules of packages.
  std::mt19937_64 random(1);
  for (uint32_t i = 0; i < packages.files; ++i) {
    const std::string package = "lib/p" + std::to_string(i / 64);
    add_small(package + "/m" + std::to_string(i) + ".py", "", 1 + random() % (2 * packages.bytes));
  }
  std::vector<bench::Shard> shards = bench::ShardModel(model, scale);
  add_small("config.json", bench::ConfigJson(bench::ScaleModel(model, scale)), 0);
  add_small("model.safetensors.index.json", bench::IndexJson(shards), 0);
  add_small("tokenizer.json", "{}", kTokenizerBytes / std::max<uint64_t>(scale, 1));
  for (bench::Shard& shard : shards) {
    bench::ShardHeader header;
    const std::string head = bench::EncodeHeader(shard.tensors);
    header.data_offset = head.size();
    header.file_bytes = head.size() + shard.tensors.back().end;
    header.tensors = std::move(shard.tensors);
    files.shards.push_back(directory + "/" + shard.file);
    files.bytes += header.file_bytes;
    cache->AddFile(files.shards.back(), header.file_bytes, head);
    files.headers.push_back(std::move(header));
  }
  return files;
}

ModelFiles AddFolder(PageCache* cache, const FolderOptions& folder, const std::string& directory) {
  constexpr uint64_t kRowBytes = 2048;  // 1024 numbers of 16 bits
  ModelFiles files;
  files.experts = folder.experts;
  uint64_t layer = 0;
  for (uint32_t model = 0; model < folder.models; ++model) {
    const std::string name(1, static_cast<char>('a' + model));
    const bool is_apart = !folder.is_flat && folder.models > 1;
    const std::string prefix =
        directory + "/" + (folder.is_flat ? name : (is_apart ? name + "/" : "") + "model");
    std::vector<bench::Shard> shards(folder.shards);
    for (uint32_t i = 0; i < folder.shards; ++i) {
      char number[32] = "";
      if (folder.shards > 1)
        std::snprintf(number, sizeof(number), "-%05u-of-%05u", i + 1, folder.shards);
      shards[i].file = (prefix + number + ".safetensors").substr(prefix.rfind('/') + 1);
      for (uint64_t at = 0; at < folder.shard_bytes; at += folder.tensor_bytes) {
        const uint64_t bytes = std::min(folder.tensor_bytes, folder.shard_bytes - at);
        if (folder.experts > 0) {
          static constexpr const char* kParts[kPartsOfExpert] = {"gate", "up", "down"};
          const uint64_t nth = layer++;
          shards[i].tensors.push_back(
              {.name = "blk." + std::to_string(nth / kPartsOfExpert) + ".ffn_" +
                       kParts[nth % kPartsOfExpert] + "_exps.weight",
               .dtype = "BF16",
               .shape = {folder.experts, bytes / folder.experts / kRowBytes, kRowBytes / 2},
               .begin = at,
               .end = at + bytes});
          continue;
        }
        shards[i].tensors.push_back(
            {.name = "model.layers." + std::to_string(layer++) + ".mlp.up_proj.weight",
             .dtype = "BF16",
             .shape = {bytes / kRowBytes, kRowBytes / 2},
             .begin = at,
             .end = at + bytes});
      }
    }
    const std::string place = prefix.substr(0, prefix.rfind('/') + 1);
    if (!folder.is_flat) {
      for (const auto& [file, text] :
           {std::pair{"config.json", std::string("{}")},
            {"model.safetensors.index.json", bench::IndexJson(shards)}}) {
        files.small.push_back(place + file);
        cache->AddFile(files.small.back(), text.size(), text);
      }
    }
    files.models.emplace_back(files.shards.size(), shards.size());
    for (bench::Shard& shard : shards) {
      const std::string head = shard.Header();
      bench::ShardHeader header{.data_offset = head.size(),
                                .file_bytes = head.size() + shard.data_bytes()};
      header.tensors = std::move(shard.tensors);
      files.shards.push_back(place + shard.file);
      cache->AddFile(files.shards.back(), header.file_bytes, head);
      if (model == 0) files.bytes += header.file_bytes;
      files.headers.push_back(std::move(header));
    }
  }
  return files;
}

size_t ModelFiles::LayersOfExperts() const {
  size_t tensors = 0;
  for (const bench::ShardHeader& header : headers) tensors += header.tensors.size();
  return tensors / kPartsOfExpert;
}

}  // namespace ppc::sim
