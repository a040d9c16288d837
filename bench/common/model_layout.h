// SPDX-License-Identifier: Apache-2.0
// Real checkpoints' tensors and shards: Qwen2.5 in three sizes, at full size or scaled down.
//
// The rule that reproduces the published files: state-dict order is input norm, q, k, v, o,
// post-attention norm, up, gate, down, layer by layer, and a new shard begins when the next tensor
// would push the running one past 4 * 10^9 bytes.  Checked against the published index of the 72B
// model: 963 of 963 tensors in the right shard, 37 of 37 files of the right size.
//
// Scaling by N divides vocabulary, hidden and ffn size by sqrt(N) and keeps layers, heads, tensors
// and which shard holds what, so that a file's bytes shrink by N and nothing else changes.
// Threads: plain values.
#ifndef PPC_BENCH_COMMON_MODEL_LAYOUT_H_
#define PPC_BENCH_COMMON_MODEL_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bench/common/safetensors.h"
#include "daemon/base/result.h"

namespace ppc::bench {

struct ModelSpec {
  std::string name;  // "qwen2.5-72b"
  std::string repo;  // "Qwen/Qwen2.5-72B", for Hugging Face cache trees
  uint64_t layers = 0;
  uint64_t heads = 0;
  uint64_t kv_heads = 0;
  uint64_t head_dim = 0;
  uint64_t ffn = 0;
  uint64_t vocab = 0;

  uint64_t hidden() const { return heads * head_dim; }
  uint64_t kv() const { return kv_heads * head_dim; }
};

// The model as published; EINVAL with the list of known names otherwise.
Result<ModelSpec> FindModel(const std::string& name);

// The same model with its bytes divided by about scale.
ModelSpec ScaleModel(const ModelSpec& model, uint64_t scale);

// Tensors in state-dict order, offsets not assigned.
std::vector<Tensor> StateDict(const ModelSpec& model);

struct Shard {
  std::string file;             // "model-00001-of-00037.safetensors"
  std::vector<Tensor> tensors;  // in file order, offsets assigned
};

// Shards of the model scaled down; membership is that of the full-size model.
std::vector<Shard> ShardModel(const ModelSpec& model, uint64_t scale);

}  // namespace ppc::bench

#endif  // PPC_BENCH_COMMON_MODEL_LAYOUT_H_
