// SPDX-License-Identifier: Apache-2.0
//
// Which bytes of a tensor one tensor-parallel worker takes, by the tensor's
// name, as vLLM, SGLang and Megatron split: projections that produce heads or
// ffn columns by their outputs, those that consume them by their inputs.
#ifndef POLICIES_MAIO_SYNTH_SYNTH_SLICE_H_
#define POLICIES_MAIO_SYNTH_SYNTH_SLICE_H_

#include <cstdint>
#include <vector>

#include "policies/maio/synth/synth_header.h"

namespace ppc::maio {

// What the model's config.json says; 0: unknown.
struct ModelShape {
  uint64_t heads = 0;
  uint64_t kv_heads = 0;
  uint64_t layers = 0;
  uint64_t experts = 0;  // of a layer
};

// `rows` runs of `run` bytes, one every `stride` bytes.
struct SynthRange {
  uint64_t begin = 0;  // in the file
  uint64_t run = 0;
  uint64_t stride = 0;
  uint64_t rows = 1;

  uint64_t end() const { return begin + (rows - 1) * stride + run; }
};

std::vector<SynthRange> SliceOf(const SynthTensor& tensor, uint32_t rank, uint32_t tp,
                                const ModelShape& shape);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_SYNTH_SYNTH_SLICE_H_
