// SPDX-License-Identifier: Apache-2.0
// Real checkpoints' tensors and shards, at full size or scaled down: Qwen2.5 in three sizes,
// Llama-2 in two, Llama-3.1-405B, DeepSeek-R1.
//
// The rules that reproduce the published files, byte for byte in size (163 of 163 of DeepSeek-R1,
// 37 of 37 of Qwen2.5-72B, 15 of 15 of Llama-2-70B):
//  - Qwen2.5: input norm, q, k, v, o, post-attention norm, up, gate, down, layer by layer; a new
//    shard begins when the next tensor would push the running one past 4 * 10^9 bytes.
//  - Llama-2: q, k, v, o, (rotary frequencies,) gate, up, down, norms; the same with 10 * 10^9.
//  - Llama-3.1-405B: as Llama-2 with 5 * 10^9, which gives its 191 shards.
//  - DeepSeek-R1: written stage by stage of a pipeline (7, 5 x 8, 7 and 7 layers), a shard ends
//    with the tensor that takes it to 2^32 elements, and a file keeps the order of the state dict
//    and does not pad its header.
// The others sort a file's tensors as the reference writer does (see AssignOffsets).
//
// Scaling by N divides vocabulary, hidden and ffn size by sqrt(N) and keeps layers, heads, experts,
// tensors and which shard holds what, so that a file's bytes shrink by N and nothing else changes.
// Threads: plain values.
#ifndef PPC_TOOLS_MODEL_COMMON_MODEL_LAYOUT_H_
#define PPC_TOOLS_MODEL_COMMON_MODEL_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "tools/model/common/safetensors.h"

namespace ppc::bench {

enum class Family { kQwen2, kLlama, kDeepSeek };

// Mixture of experts and latent attention.
struct DeepSeekDims {
  uint64_t dense_layers = 0;  // the first ones, without experts
  uint64_t experts = 0;
  uint64_t expert_ffn = 0;
  uint64_t q_lora = 0;
  uint64_t kv_lora = 0;
  uint64_t nope_dim = 0;
  uint64_t rope_dim = 0;
};

struct ModelSpec {
  std::string name;  // "qwen2.5-72b"
  std::string repo;  // "Qwen/Qwen2.5-72B", for Hugging Face cache trees
  Family family = Family::kQwen2;
  uint64_t shard_bytes = 0;  // 0: as the family's
  uint64_t layers = 0;
  uint64_t left_out = 0;  // layers, by KeepLayers()
  uint64_t heads = 0;
  uint64_t kv_heads = 0;
  uint64_t head_dim = 0;  // of values
  uint64_t hidden = 0;
  uint64_t ffn = 0;
  uint64_t vocab = 0;
  uint64_t tokenizer_bytes = 0;
  bool has_rotary = false;  // Llama-2 checkpoints that keep the rotary frequencies
  DeepSeekDims deepseek;

  uint64_t kv() const { return kv_heads * head_dim; }
};

// All models, smallest family first, and one by name; EINVAL with the list of names otherwise.
const std::vector<ModelSpec>& Models();
Result<ModelSpec> FindModel(const std::string& name);

// The model's first layers alone, in about as many shards: a small one whose tensors are as large
// as the whole one's.  EINVAL: not 1 to its layers, or DeepSeek's, whose shards go by pipeline
// stages.
Result<ModelSpec> KeepLayers(const ModelSpec& model, uint64_t layers);

// The same model with its bytes divided by about scale.
ModelSpec ScaleModel(const ModelSpec& model, uint64_t scale);

// Tensors in state-dict order, offsets not assigned.
std::vector<Tensor> StateDict(const ModelSpec& model);

struct Shard {
  std::string file;             // "model-00001-of-00037.safetensors"
  std::vector<Tensor> tensors;  // in file order, offsets assigned
  bool is_padded = true;        // see EncodeHeader

  std::string Header() const { return EncodeHeader(tensors, is_padded); }
  uint64_t data_bytes() const { return tensors.back().end; }
};

// Shards of the model scaled down; membership is that of the full-size model.
std::vector<Shard> ShardModel(const ModelSpec& model, uint64_t scale);

}  // namespace ppc::bench

#endif  // PPC_TOOLS_MODEL_COMMON_MODEL_LAYOUT_H_
