// SPDX-License-Identifier: Apache-2.0
//
// Tensor-parallel slices by name, see synth_slice.h.
#include "policies/maio/synth/synth_slice.h"

#include <string_view>

namespace ppc::maio {
namespace {

enum class Split { kNone, kOutput, kInput, kUnknown };

// "model.layers.3.mlp.up_proj.weight" -> module "up_proj", parent "mlp", part "weight".
struct Parts {
  std::string_view parent, module, part;
};

Parts PartsOf(std::string_view name) {
  Parts parts;
  auto take = [&] {
    size_t dot = name.rfind('.');
    std::string_view last = dot == std::string_view::npos ? name : name.substr(dot + 1);
    name = dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
    return last;
  };
  parts.part = take();
  parts.module = take();
  parts.parent = take();
  return parts;
}

bool In(std::string_view name, std::initializer_list<std::string_view> names) {
  for (std::string_view other : names) {
    if (name == other) return true;
  }
  return false;
}

bool IsFused(const Parts& p) {
  return In(p.module, {"qkv_proj", "query_key_value", "W_pack", "c_attn", "Wqkv", "attn_qkv"});
}

Split SplitOf(const Parts& p) {
  if (p.module.find("norm") != std::string_view::npos || p.module.find("rotary") == 0 ||
      p.module.find("_a_proj") != std::string_view::npos)
    return Split::kNone;
  // A router; of a gated ffn the module is "gate_proj".
  if (In(p.module, {"gate", "router", "eh_proj", "ffn_gate_inp", "wpe", "position_embeddings"}))
    return Split::kNone;
  if (IsFused(p) || In(p.module, {"gate_up_proj",
                                  "q_proj",
                                  "k_proj",
                                  "v_proj",
                                  "q_b_proj",
                                  "kv_b_proj",
                                  "gate_proj",
                                  "up_proj",
                                  "w1",
                                  "w3",
                                  "wq",
                                  "wk",
                                  "wv",
                                  "fc1",
                                  "dense_h_to_4h",
                                  "embed_tokens",
                                  "embed_in",
                                  "embed_out",
                                  "wte",
                                  "tok_embeddings",
                                  "word_embeddings",
                                  "lm_head",
                                  "output",
                                  "attn_q",
                                  "attn_k",
                                  "attn_v",
                                  "ffn_gate",
                                  "ffn_up",
                                  "token_embd"}))
    return Split::kOutput;
  if (p.parent == "shared_head" && p.module == "head") return Split::kOutput;
  if (In(p.module, {"o_proj", "down_proj", "w2", "wo", "out_proj", "fc2", "dense_4h_to_h", "c_proj",
                    "attn_output", "ffn_down"}) ||
      (p.module == "dense" && p.parent.find("attention") != std::string_view::npos))
    return Split::kInput;
  return Split::kUnknown;
}

// Stored as [inputs, outputs] by GPTQ and AWQ.
bool IsTransposed(const Parts& p) { return In(p.part, {"qweight", "qzeros", "scales"}); }

// The worker's part of `count` equal units; several workers share one when there are fewer units.
bool PartOf(uint64_t count, uint32_t rank, uint32_t tp, uint64_t* first, uint64_t* n) {
  if (count % tp == 0) {
    *n = count / tp;
    *first = rank * *n;
    return true;
  }
  return false;
}

// Rows [first, first + n) of the outermost dimension.
SynthRange Rows(const SynthTensor& tensor, uint64_t first, uint64_t n) {
  uint64_t row = (tensor.end - tensor.begin) / tensor.shape[0];
  return {tensor.begin + first * row, n * row, n * row, 1};
}

// q, k and v one after the other, each split.
std::vector<SynthRange> SliceFused(const SynthTensor& tensor, uint32_t rank, uint32_t tp,
                                   const ModelShape& shape) {
  uint64_t heads = shape.heads != 0 ? shape.heads : 1;
  uint64_t kv = shape.kv_heads != 0 ? shape.kv_heads : heads;
  uint64_t rows = tensor.shape[0];
  if (heads > rows || kv > rows || rows % (heads + 2 * kv) != 0) return {};
  uint64_t unit = rows / (heads + 2 * kv);
  std::vector<SynthRange> out;
  uint64_t at = 0;
  for (uint64_t part : {heads * unit, kv * unit, kv * unit}) {
    uint64_t first = 0;
    uint64_t n = 0;
    if (!PartOf(part, rank, tp, &first, &n)) return {};
    out.push_back(Rows(tensor, at + first, n));
    at += part;
  }
  return out;
}

}  // namespace

std::vector<SynthRange> SliceOf(const SynthTensor& tensor, uint32_t rank, uint32_t tp,
                                const ModelShape& shape) {
  uint64_t bytes = tensor.end - tensor.begin;
  std::vector<SynthRange> whole;
  if (bytes != 0) whole.push_back({tensor.begin, bytes, bytes, 1});
  size_t dims = tensor.shape.size();
  if (tp <= 1 || bytes == 0 || dims == 0 || dims > 2) return whole;
  if (tensor.shape[0] == 0 || bytes % tensor.shape[0] != 0) return whole;
  Parts parts = PartsOf(tensor.name);
  Split split = SplitOf(parts);
  if (split == Split::kUnknown) split = dims == 2 ? Split::kOutput : Split::kNone;
  if (dims == 2 && IsTransposed(parts) && split != Split::kNone)
    split = split == Split::kOutput ? Split::kInput : Split::kOutput;
  if (split == Split::kOutput) {
    if (IsFused(parts)) {
      std::vector<SynthRange> ranges = SliceFused(tensor, rank, tp, shape);
      return ranges.empty() ? whole : ranges;
    }
    uint64_t pieces = parts.module == "gate_up_proj" ? 2 : 1;
    uint64_t rows = tensor.shape[0] / pieces;
    uint64_t first = 0;
    uint64_t n = 0;
    if (tensor.shape[0] % pieces != 0) return whole;
    // Fewer key-value heads than workers: some workers have the same ones.
    bool few = In(parts.module, {"k_proj", "v_proj", "attn_k", "attn_v", "wk", "wv"}) &&
               shape.kv_heads != 0 && shape.kv_heads < tp && tp % shape.kv_heads == 0 &&
               rows % shape.kv_heads == 0;
    if (few) {
      n = rows / shape.kv_heads;
      first = rank / (tp / shape.kv_heads) * n;
    } else if (!PartOf(rows, rank, tp, &first, &n)) {
      return whole;
    }
    std::vector<SynthRange> out;
    for (uint64_t piece = 0; piece < pieces; piece++)
      out.push_back(Rows(tensor, piece * rows + first, n));
    return out;
  }
  if (split == Split::kInput && dims == 2) {
    uint64_t row = bytes / tensor.shape[0];
    if (tensor.shape[1] % tp == 0 && row % tp == 0)
      return {{tensor.begin + rank * (row / tp), row / tp, row, tensor.shape[0]}};
  }
  return whole;
}

}  // namespace ppc::maio
