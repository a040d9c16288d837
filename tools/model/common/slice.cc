// SPDX-License-Identifier: Apache-2.0
// Which bytes of a tensor one tensor-parallel worker takes, as serving frameworks split them.
// Threads: free functions without state.
#include "tools/model/common/slice.h"

#include <algorithm>
#include <string>

namespace ppc::bench {
namespace {

enum class Split { kNone, kFirst, kSecond, kUnknown };

bool EndsWith(std::string_view name, std::string_view suffix) {
  return name.size() >= suffix.size() && name.substr(name.size() - suffix.size()) == suffix;
}

Split SplitOf(std::string_view name) {
  for (std::string_view module :
       {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj", "q_b_proj", "kv_b_proj"})
    for (std::string_view part : {".weight", ".bias", ".weight_scale_inv"})
      if (EndsWith(name, std::string(module) + std::string(part))) return Split::kFirst;
  for (std::string_view module : {"embed_tokens.weight", "lm_head.weight", "head.head.weight"})
    if (EndsWith(name, module)) return Split::kFirst;
  for (std::string_view module : {"o_proj", "down_proj"})
    for (std::string_view part : {".weight", ".weight_scale_inv"})
      if (EndsWith(name, std::string(module) + std::string(part))) return Split::kSecond;
  for (std::string_view module : {"norm.weight", "mlp.gate.weight", "eh_proj.weight"})
    if (EndsWith(name, module)) return Split::kNone;
  if (name.find("_a_proj") != std::string_view::npos) return Split::kNone;
  return Split::kUnknown;
}

void MarkPages(uint64_t begin, uint64_t bytes, uint16_t owner, uint64_t page_bytes,
               std::vector<uint16_t>* owners) {
  if (bytes == 0) return;
  for (uint64_t page = begin / page_bytes; page <= (begin + bytes - 1) / page_bytes; ++page) {
    uint16_t& slot = (*owners)[page];
    if (slot != owner) slot = slot == 0 ? owner : kSharedPage;
  }
}

}  // namespace

Slice SliceTensor(const Tensor& tensor, uint32_t rank, uint32_t tp) {
  Slice whole{tensor.begin, tensor.bytes(), tensor.bytes(), 1, true};
  if (tp <= 1 || tensor.bytes() == 0 || tensor.shape.empty()) return whole;
  Split split = SplitOf(tensor.name);
  if (split == Split::kUnknown && tensor.shape.size() >= 2) split = Split::kFirst;
  if (split == Split::kFirst && tensor.shape[0] % tp == 0) {
    const uint64_t part = tensor.bytes() / tp;
    return Slice{tensor.begin + rank * part, part, part, 1, false};
  }
  if (split == Split::kSecond && tensor.shape.size() == 2 && tensor.shape[1] % tp == 0) {
    const uint64_t row = tensor.bytes() / tensor.shape[0];
    if (row % tp == 0)
      return Slice{tensor.begin + rank * (row / tp), row / tp, row, tensor.shape[0], false};
  }
  return whole;
}

std::vector<uint16_t> PageOwners(const ShardHeader& header, uint32_t tp, uint64_t page_bytes) {
  std::vector<uint16_t> owners((header.file_bytes + page_bytes - 1) / page_bytes, 0);
  MarkPages(0, header.data_offset, kSharedPage, page_bytes, &owners);
  for (const Tensor& tensor : header.tensors)
    for (uint32_t rank = 0; rank < tp; ++rank) {
      const Slice slice = SliceTensor(tensor, rank, tp);
      for (uint64_t row = 0; row < slice.rows; ++row)
        MarkPages(header.data_offset + slice.begin + row * slice.stride_bytes, slice.run_bytes,
                  static_cast<uint16_t>(rank + 1), page_bytes, &owners);
    }
  return owners;
}

}  // namespace ppc::bench
