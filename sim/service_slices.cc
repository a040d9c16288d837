// SPDX-License-Identifier: Apache-2.0
// Maps parts of tensors to workers of the modelled service.
#include <algorithm>
#include <string>
#include <string_view>

#include "sim/service.h"

namespace ppc::sim {
namespace {

constexpr std::string_view kLayers = ".layers.";
constexpr std::string_view kExperts = ".experts.";
constexpr std::string_view kBlocks = "blk.";

// The 3 of "model.layers.3.mlp"; -1: none.
int64_t NumberAfter(const std::string& tensor, std::string_view word) {
  const size_t at = tensor.find(word);
  return at == std::string::npos ? -1 : std::stol(tensor.substr(at + word.size()));
}

}  // namespace

void Service::Measure() {
  if (options_.serve_experts.used > 0) {
    tokens_ = ChooseExperts(options_.serve_experts, model_->LayersOfExperts(), model_->experts,
                            options_.serve_passes);
  }
  if (options_.stages == 1 && !options_.is_expert_parallel) return;
  for (const bench::ShardHeader& header : model_->headers) {
    for (const bench::Tensor& tensor : header.tensors) {
      layers_ = std::max(layers_, NumberAfter(tensor.name, kLayers) + 1);
      experts_ = std::max(experts_, NumberAfter(tensor.name, kExperts) + 1);
    }
  }
}

bench::Slice Service::SliceOf(const Worker& worker, const bench::Tensor& tensor) const {
  const bench::Slice none{.begin = tensor.begin, .run_bytes = 0, .stride_bytes = 0, .rows = 0};
  const uint32_t tp = options_.tp / options_.stages;
  if (options_.stages > 1 && StageOf(tensor.name) != worker.rank / tp) return none;
  const uint32_t rank = worker.rank % tp;
  const int64_t expert = options_.is_expert_parallel ? NumberAfter(tensor.name, kExperts) : -1;
  if (expert < 0) return bench::SliceTensor(tensor, rank, tp);
  // vLLM's placement: each rank has the same number of consecutive experts.
  return expert * tp / experts_ == rank ? bench::SliceTensor(tensor, 0, 1) : none;
}

// As llama.cpp: of one tensor after the other the part of each expert that the token needs.
std::vector<bench::Slice> Service::SlicesOf(const Worker& worker,
                                            const bench::Tensor& tensor) const {
  if (!is_serving_ || tokens_.empty()) return {SliceOf(worker, tensor)};
  std::vector<bench::Slice> slices;
  const uint64_t bytes = (tensor.end - tensor.begin) / tensor.shape[0];
  for (const uint32_t expert :
       tokens_[token_][static_cast<size_t>(NumberAfter(tensor.name, kBlocks))])
    slices.push_back({.begin = tensor.begin + expert * bytes,
                      .run_bytes = bytes,
                      .stride_bytes = bytes,
                      .rows = 1});
  return slices;
}

// vLLM's cut: remaining layers go to the last stages but one.
uint32_t Service::StageOf(const std::string& tensor) const {
  const int64_t layer = NumberAfter(tensor, kLayers);
  if (layer < 0) return tensor.find("embed") != std::string::npos ? 0 : options_.stages - 1;
  int64_t end = 0;
  for (uint32_t stage = 0; stage + 1 < options_.stages; ++stage) {
    end += layers_ / options_.stages + (stage + 1 + layers_ % options_.stages >= options_.stages);
    if (layer < end) return stage;
  }
  return options_.stages - 1;
}

}  // namespace ppc::sim
