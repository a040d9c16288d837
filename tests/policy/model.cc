// SPDX-License-Identifier: Apache-2.0
// See model.h.
#include "tests/policy/model.h"

namespace ppc::test {

Model AddModel(FakeHost* host, const ModelShape& shape) {
  Model model;
  model.shape = shape;
  model.config_file = host->AddFile("m/config.json", 8 << 10);
  for (uint32_t i = 0; i < shape.shards; i++) {
    model.shards.push_back(
        host->AddFile("m/model-" + std::to_string(i) + ".safetensors", shape.shard_bytes));
  }
  return model;
}

std::vector<Access> WorkerAccesses(const Model& model, uint32_t worker) {
  std::vector<Access> out;
  const ModelShape& s = model.shape;
  uint32_t index = 0;
  for (uint64_t file : model.shards) {
    for (uint64_t at = 0; at + s.tensor_bytes <= s.shard_bytes; at += s.tensor_bytes, index++) {
      if (s.shared && index % 3 == 0) {
        out.push_back({file, at, s.tensor_bytes, 0, 0});
      } else {
        uint64_t slice = s.tensor_bytes / s.workers;
        out.push_back({file, at + slice * worker, slice, 0, 0});
      }
    }
  }
  return out;
}

}  // namespace ppc::test
