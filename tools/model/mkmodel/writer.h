// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint directory: shards, index, configuration and tokenizer files.
// Threads: one writer per directory.
#ifndef PPC_TOOLS_MODEL_MKMODEL_WRITER_H_
#define PPC_TOOLS_MODEL_MKMODEL_WRITER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/base/result.h"
#include "tools/model/common/model_layout.h"

namespace ppc::bench {

struct WriteOptions {
  std::string out;
  uint64_t scale = 1;
  uint64_t seed = 1;
  bool is_hf_cache = false;
  bool is_sparse = false;  // tensors are holes, which read as zeros
  // Called after each shard with its name and the bytes written so far and in all.
  std::function<void(const std::string&, uint64_t, uint64_t)> progress;
};

struct WrittenModel {
  std::string model_dir;    // what a loader is given
  uint64_t file_bytes = 0;  // of all shards
  uint64_t tensor_bytes = 0;
};

Result<WrittenModel> WriteModel(const ModelSpec& model, const WriteOptions& options);

// Small files beside the shards, as text.
std::string ConfigJson(const ModelSpec& scaled);
std::string IndexJson(const std::vector<Shard>& shards);
// A byte-pair tokenizer of about bytes length (the real one has 7 MB).
std::string TokenizerJson(uint64_t seed, uint64_t bytes);

}  // namespace ppc::bench

#endif  // PPC_TOOLS_MODEL_MKMODEL_WRITER_H_
