// SPDX-License-Identifier: Apache-2.0
// How a worker gets at the bytes of a shard: a private writable mapping of the whole file, as
// safetensors and torch make it, or read() into a buffer.
// Threads: one.
#ifndef PPC_TOOLS_MODEL_LOADMODEL_SHARD_SOURCE_H_
#define PPC_TOOLS_MODEL_LOADMODEL_SHARD_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "daemon/base/result.h"
#include "tools/model/common/safetensors.h"

namespace ppc::bench {

enum class ReadMode { kMmap, kRead, kDirect };

class ShardSource {
 public:
  static Result<std::unique_ptr<ShardSource>> Open(const std::string& path, ReadMode mode);
  virtual ~ShardSource() = default;

  virtual Result<ShardHeader> Header() = 0;
  // Bytes of the file; valid until the next call.  The range must lie within the file; in the read
  // modes it may not be longer than kPieceBytes.
  virtual Result<const uint8_t*> Fetch(uint64_t offset, uint64_t bytes) = 0;
};

// posix_fadvise(DONTNEED) of the whole file: what no process has mapped leaves the page cache.
Status DropShard(const std::string& path);

}  // namespace ppc::bench

#endif  // PPC_TOOLS_MODEL_LOADMODEL_SHARD_SOURCE_H_
