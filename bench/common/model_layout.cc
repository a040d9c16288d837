// SPDX-License-Identifier: Apache-2.0
// Real checkpoints' tensors and shards: Qwen2.5 in three sizes, at full size or scaled down.
// Threads: free functions without state.
#include "bench/common/model_layout.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <utility>

namespace ppc::bench {
namespace {

// The limit the published checkpoints were saved with (max_shard_size "4GB").
constexpr uint64_t kShardLimitBytes = 4'000'000'000;

const std::vector<ModelSpec>& Models() {
  static const std::vector<ModelSpec> models{
      {"qwen2.5-7b", "Qwen/Qwen2.5-7B", 28, 28, 4, 128, 18944, 152064},
      {"qwen2.5-32b", "Qwen/Qwen2.5-32B", 64, 40, 8, 128, 27648, 152064},
      {"qwen2.5-72b", "Qwen/Qwen2.5-72B", 80, 64, 8, 128, 29568, 152064}};
  return models;
}

// dim / divisor to the nearest multiple of 8 (so that 2, 4 and 8 workers split it evenly).
uint64_t ScaleDim(uint64_t dim, double divisor) {
  const double multiples = std::round(static_cast<double>(dim) / divisor / 8.0);
  return 8 * std::max<uint64_t>(1, static_cast<uint64_t>(multiples));
}

Tensor Bf16(std::string name, std::vector<uint64_t> shape) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = "BF16";
  tensor.shape = std::move(shape);
  return tensor;
}

void AddProjection(std::vector<Tensor>* out, const std::string& prefix, uint64_t rows,
                   uint64_t columns) {
  out->push_back(Bf16(prefix + ".weight", {rows, columns}));
  out->push_back(Bf16(prefix + ".bias", {rows}));
}

// For each tensor of the state dict, the number of its shard (from 0).
std::vector<size_t> AssignShards(const std::vector<Tensor>& tensors) {
  std::vector<size_t> shard_of;
  uint64_t used = 0;
  size_t shard = 0;
  for (const Tensor& tensor : tensors) {
    const uint64_t bytes = TensorBytes(tensor.dtype, tensor.shape).value();
    if (used > 0 && used + bytes > kShardLimitBytes) {
      ++shard;
      used = 0;
    }
    used += bytes;
    shard_of.push_back(shard);
  }
  return shard_of;
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

ModelSpec ScaleModel(const ModelSpec& model, uint64_t scale) {
  const double divisor = std::sqrt(static_cast<double>(scale));
  ModelSpec scaled = model;
  const double head_dim = std::round(static_cast<double>(model.head_dim) / divisor / 2.0);
  scaled.head_dim = 2 * std::max<uint64_t>(1, static_cast<uint64_t>(head_dim));
  scaled.ffn = ScaleDim(model.ffn, divisor);
  scaled.vocab = ScaleDim(model.vocab, divisor);
  return scaled;
}

std::vector<Tensor> StateDict(const ModelSpec& model) {
  const uint64_t hidden = model.hidden();
  std::vector<Tensor> out;
  out.push_back(Bf16("model.embed_tokens.weight", {model.vocab, hidden}));
  for (uint64_t layer = 0; layer < model.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    out.push_back(Bf16(prefix + "input_layernorm.weight", {hidden}));
    AddProjection(&out, prefix + "self_attn.q_proj", hidden, hidden);
    AddProjection(&out, prefix + "self_attn.k_proj", model.kv(), hidden);
    AddProjection(&out, prefix + "self_attn.v_proj", model.kv(), hidden);
    out.push_back(Bf16(prefix + "self_attn.o_proj.weight", {hidden, hidden}));
    out.push_back(Bf16(prefix + "post_attention_layernorm.weight", {hidden}));
    out.push_back(Bf16(prefix + "mlp.up_proj.weight", {model.ffn, hidden}));
    out.push_back(Bf16(prefix + "mlp.gate_proj.weight", {model.ffn, hidden}));
    out.push_back(Bf16(prefix + "mlp.down_proj.weight", {hidden, model.ffn}));
  }
  out.push_back(Bf16("model.norm.weight", {hidden}));
  out.push_back(Bf16("lm_head.weight", {model.vocab, hidden}));
  return out;
}

std::vector<Shard> ShardModel(const ModelSpec& model, uint64_t scale) {
  const std::vector<size_t> shard_of = AssignShards(StateDict(model));
  std::vector<Tensor> tensors = StateDict(ScaleModel(model, scale));
  std::vector<Shard> shards(shard_of.back() + 1);
  for (size_t i = 0; i < shards.size(); ++i) {
    char name[64];
    std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, shards.size());
    shards[i].file = name;
  }
  for (size_t i = 0; i < tensors.size(); ++i)
    shards[shard_of[i]].tensors.push_back(std::move(tensors[i]));
  for (Shard& shard : shards) AssignOffsets(&shard.tensors);
  return shards;
}

}  // namespace ppc::bench
