// SPDX-License-Identifier: Apache-2.0
// Which bytes of a tensor one tensor-parallel worker takes, as serving frameworks split them.
//
// Rule: q, k, v, gate and up projections (weight, bias and scales; of latent attention q_b and
// kv_b), the embedding and heads are split on their first dimension; o and down projections on
// their second; norms, routers, the first half of latent attention and other one-dimensional
// tensors are replicated.  A name this file does not know is split on its first dimension when it
// has two or more and the first divides evenly; else it is replicated.  So is a known one whose
// dimension does not divide evenly.
// Threads: plain values.
#ifndef PPC_TOOLS_MODEL_COMMON_SLICE_H_
#define PPC_TOOLS_MODEL_COMMON_SLICE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "tools/model/common/safetensors.h"

namespace ppc::bench {

// `rows` runs of run_bytes each, the first at `begin` (bytes from the start of the data section),
// one every stride_bytes.
struct Slice {
  uint64_t begin = 0;
  uint64_t run_bytes = 0;
  uint64_t stride_bytes = 0;
  uint64_t rows = 0;
  bool is_replicated = false;

  uint64_t bytes() const { return run_bytes * rows; }
};

Slice SliceTensor(const Tensor& tensor, uint32_t rank, uint32_t tp);

// The reader of each page of a shard: 0 none, rank + 1 that rank alone, kSharedPage several.
inline constexpr uint16_t kSharedPage = 0xffff;
std::vector<uint16_t> PageOwners(const ShardHeader& header, uint32_t tp, uint64_t page_bytes);

}  // namespace ppc::bench

#endif  // PPC_TOOLS_MODEL_COMMON_SLICE_H_
