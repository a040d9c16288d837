// SPDX-License-Identifier: Apache-2.0
// A model as tensor-parallel workers read it, for the simulator: shards of
// tensors, a third of them read by all workers, the rest cut between them.
#ifndef TESTS_POLICY_MODEL_H_
#define TESTS_POLICY_MODEL_H_

#include <string>
#include <vector>

#include "tests/policy/simulator.h"
#include "tests/unit/temp_tree.h"

namespace ppc::test {

struct ModelShape {
  uint32_t shards = 4;
  uint64_t shard_bytes = 24ull << 20;
  uint64_t tensor_bytes = 3ull << 20;
  uint32_t workers = 2;
  bool shared = true;  // every third tensor is read by all
};

struct Model {
  ModelShape shape;
  uint64_t config_file = 0;
  std::vector<uint64_t> shards;
  uint64_t bytes() const { return shape.shards * shape.shard_bytes; }
};

Model AddModel(FakeHost* host, const ModelShape& shape);
// What worker w reads, in order.
std::vector<Access> WorkerAccesses(const Model& model, uint32_t worker);

}  // namespace ppc::test

#endif  // TESTS_POLICY_MODEL_H_
