// SPDX-License-Identifier: Apache-2.0
// A checkpoint directory as a loader finds it: its shards in natural order and its small files.
// Threads: free functions without state.
#ifndef PPC_TOOLS_MODEL_COMMON_MODEL_DIR_H_
#define PPC_TOOLS_MODEL_COMMON_MODEL_DIR_H_

#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "tools/model/common/safetensors.h"

namespace ppc::bench {

struct ModelDir {
  std::string path;
  std::vector<std::string> shards;       // file names, sorted
  std::vector<std::string> small_files;  // configuration, tokenizer, index; sorted
};

// Shards are those the index names, or every *.safetensors file when there is no index.
// An error names the shard that is missing.
Result<ModelDir> OpenModelDir(const std::string& path);

// Reads the header of an open shard with pread.
Result<ShardHeader> ReadHeader(int fd, const std::string& what);

}  // namespace ppc::bench

#endif  // PPC_TOOLS_MODEL_COMMON_MODEL_DIR_H_
