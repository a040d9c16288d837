// SPDX-License-Identifier: Apache-2.0
// Real checkpoints' tensors and shards: scaling, and which shard holds what.
// Threads: free functions without state.
#include "tools/model/common/model_layout.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <utility>

namespace ppc::bench {
namespace {

// max_shard_size that the published checkpoints were saved with.
constexpr uint64_t kQwenShardBytes = 4'000'000'000;
constexpr uint64_t kLlamaShardBytes = 10'000'000'000;
constexpr uint64_t kDeepSeekShardElements = 1ULL << 32;
// First layers of the pipeline stages that DeepSeek-R1 was written by.
constexpr std::array<uint64_t, 7> kDeepSeekStages{7, 15, 23, 31, 39, 47, 54};

// dim / divisor to the nearest multiple of 8 (so that 2, 4 and 8 workers split it evenly).
uint64_t ScaleDim(uint64_t dim, double divisor) {
  const double multiples = std::round(static_cast<double>(dim) / divisor / 8.0);
  return 8 * std::max<uint64_t>(1, static_cast<uint64_t>(multiples));
}

uint64_t ScaleEven(uint64_t dim, double divisor) {
  const double pairs = std::round(static_cast<double>(dim) / divisor / 2.0);
  return 2 * std::max<uint64_t>(1, static_cast<uint64_t>(pairs));
}

uint64_t BytesOf(const Tensor& tensor) { return TensorBytes(tensor.dtype, tensor.shape).value(); }

double SumOf(const std::vector<Tensor>& tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) bytes += static_cast<double>(BytesOf(tensor));
  return bytes;
}

// A shard ends before the tensor that would take it past the limit.
std::vector<size_t> AssignByBytes(const std::vector<Tensor>& tensors, uint64_t limit) {
  std::vector<size_t> shard_of;
  uint64_t used = 0;
  size_t shard = 0;
  for (const Tensor& tensor : tensors) {
    const uint64_t bytes = BytesOf(tensor);
    if (used > 0 && used + bytes > limit) {
      ++shard;
      used = 0;
    }
    used += bytes;
    shard_of.push_back(shard);
  }
  return shard_of;
}

// A shard ends with the tensor that takes it to the limit, and with its stage.
std::vector<size_t> AssignByStage(const std::vector<Tensor>& tensors) {
  std::vector<size_t> shard_of;
  uint64_t elements = 0;
  size_t shard = 0, stage = 0;
  for (const Tensor& tensor : tensors) {
    const bool is_next_stage =
        stage < kDeepSeekStages.size() &&
        tensor.name.starts_with("model.layers." + std::to_string(kDeepSeekStages[stage]) + ".");
    stage += is_next_stage;
    if (elements >= kDeepSeekShardElements || (is_next_stage && elements > 0)) {
      ++shard;
      elements = 0;
    }
    elements += BytesOf(tensor) * 8 / DtypeBits(tensor.dtype);
    shard_of.push_back(shard);
  }
  return shard_of;
}

// For each tensor of the state dict, the number of its shard (from 0).
std::vector<size_t> AssignShards(const ModelSpec& model) {
  const std::vector<Tensor> tensors = StateDict(model);
  if (model.family == Family::kDeepSeek) return AssignByStage(tensors);
  uint64_t limit = model.family == Family::kLlama ? kLlamaShardBytes : kQwenShardBytes;
  if (model.shard_bytes > 0) limit = model.shard_bytes;
  if (model.left_out > 0) {
    ModelSpec whole = model;
    whole.layers += model.left_out;
    limit = static_cast<uint64_t>(static_cast<double>(limit) * SumOf(tensors) /
                                  SumOf(StateDict(whole)));
  }
  return AssignByBytes(tensors, limit);
}

}  // namespace

Result<ModelSpec> FindModel(const std::string& name) {
  std::string known;
  for (const ModelSpec& model : Models()) {
    if (model.name == name) return model;
    known += (known.empty() ? "" : ", ") + model.name;
  }
  return Error{EINVAL, "unknown model '" + name + "'; known: " + known};
}

Result<ModelSpec> KeepLayers(const ModelSpec& model, uint64_t layers) {
  if (layers == model.layers) return model;
  if (model.family == Family::kDeepSeek)
    return Error{EINVAL, "layers of " + model.name + " cannot be left out; scale it"};
  if (layers == 0 || layers > model.layers)
    return Error{EINVAL, model.name + " has 1 to " + std::to_string(model.layers) +
                             " layers, not " + std::to_string(layers)};
  ModelSpec kept = model;
  kept.left_out = model.layers - layers;
  kept.layers = layers;
  return kept;
}

ModelSpec ScaleModel(const ModelSpec& model, uint64_t scale) {
  if (scale == 1) return model;
  const double divisor = std::sqrt(static_cast<double>(scale));
  ModelSpec scaled = model;
  scaled.head_dim = ScaleEven(model.head_dim, divisor);
  scaled.ffn = ScaleDim(model.ffn, divisor);
  scaled.vocab = ScaleDim(model.vocab, divisor);
  if (model.family != Family::kDeepSeek) {
    scaled.hidden = model.heads * scaled.head_dim;
    return scaled;
  }
  scaled.hidden = ScaleDim(model.hidden, divisor);
  scaled.deepseek.expert_ffn = ScaleDim(model.deepseek.expert_ffn, divisor);
  scaled.deepseek.q_lora = ScaleDim(model.deepseek.q_lora, divisor);
  scaled.deepseek.kv_lora = ScaleDim(model.deepseek.kv_lora, divisor);
  scaled.deepseek.nope_dim = ScaleEven(model.deepseek.nope_dim, divisor);
  scaled.deepseek.rope_dim = ScaleEven(model.deepseek.rope_dim, divisor);
  return scaled;
}

std::vector<Shard> ShardModel(const ModelSpec& model, uint64_t scale) {
  const std::vector<size_t> shard_of = AssignShards(model);
  std::vector<Tensor> tensors = StateDict(ScaleModel(model, scale));
  std::vector<Shard> shards(shard_of.back() + 1);
  const bool is_deepseek = model.family == Family::kDeepSeek;
  for (size_t i = 0; i < shards.size(); ++i) {
    char name[64];
    std::snprintf(
        name, sizeof name,
        is_deepseek ? "model-%05zu-of-%06zu.safetensors" : "model-%05zu-of-%05zu.safetensors",
        i + 1, shards.size());
    shards[i].file = name;
    shards[i].is_padded = !is_deepseek;
  }
  for (size_t i = 0; i < tensors.size(); ++i)
    shards[shard_of[i]].tensors.push_back(std::move(tensors[i]));
  for (Shard& shard : shards) {
    if (!is_deepseek) SortTensors(&shard.tensors);
    AssignOffsets(&shard.tensors);
  }
  return shards;
}

}  // namespace ppc::bench
