// SPDX-License-Identifier: Apache-2.0
// One worker of a serving framework: takes its slice of every tensor of every shard, in file order,
// through one reused staging buffer.
// Threads: one per process; the service tells it over a pipe when to start.
#ifndef PPC_TOOLS_MODEL_LOADMODEL_WORKER_H_
#define PPC_TOOLS_MODEL_LOADMODEL_WORKER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "tools/model/common/content.h"
#include "tools/model/common/model_dir.h"
#include "tools/model/common/safetensors.h"
#include "tools/model/common/slice.h"
#include "tools/model/loadmodel/config.h"
#include "tools/model/loadmodel/device_clock.h"

namespace ppc::bench {

// How a worker gets at the bytes of a shard: a private writable mapping of the whole file, as
// safetensors and torch make it, or read() into a buffer.
// Threads: one.
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

// On which NUMA node the pages lie that only this worker needs, asked of the kernel page by page
// (every 8th) just after they were copied.
// Threads: one.
struct PlacementCount {
  uint64_t sampled = 0;
  uint64_t right = 0;
  uint64_t wrong = 0;
  uint64_t absent = 0;  // not mapped any more when asked
  std::map<int, uint64_t> by_node;
};

class PlacementProbe {
 public:
  PlacementProbe(int wanted_node, uint32_t rank, uint32_t tp)
      : wanted_node_(wanted_node), rank_(rank), tp_(tp) {}

  void BeginShard(const ShardHeader& header);
  // The worker copied bytes at this file offset from `address`.  Asks about pages not seen before.
  void Copied(uint64_t offset, const uint8_t* address, uint64_t bytes);
  // Asks about what Copied noted; must be called before the shard is unmapped.
  void Flush();

  // Bytes on another node than the wanted one among those copied since the last call, estimated
  // from the pages asked about.
  uint64_t TakeRemoteBytes();

  const PlacementCount& count() const { return count_; }
  int wanted_node() const { return wanted_node_; }

 private:
  int wanted_node_;
  uint32_t rank_, tp_;
  std::vector<uint16_t> owners_;
  uint64_t next_page_ = 0;  // pages before it were looked at
  uint64_t exclusive_ = 0;  // exclusive pages seen, for taking every 8th
  std::vector<void*> batch_;
  PlacementCount count_;
  uint64_t wrong_taken_ = 0;  // of count_.wrong
};

class Worker {
 public:
  Worker(const LoadConfig& config, ModelDir dir);

  // Loads everything.  Afterwards Report() tells about it.
  Status Load();
  Json Report() const;

  const std::vector<std::string>& shards() const { return dir_.shards; }  // in its order
  uint64_t checksum() const { return checksum_.Value(); }
  uint64_t bytes() const { return bytes_; }

 private:
  Status LoadShard(const std::string& path);
  Status TakeRun(ShardSource* source, uint64_t offset, uint64_t bytes);
  Status TakeRows(ShardSource* source, uint64_t data_offset, const Slice& slice);
  // Copies a contiguous range into the current piece, which must have room for it.
  void Take(const uint8_t* from, uint64_t offset, uint64_t bytes);
  uint64_t Room() const { return kPieceBytes - fill_; }
  void NextPiece();

  LoadConfig config_;
  ModelDir dir_;
  uint32_t rank_;
  std::vector<uint8_t> staging_;
  DeviceClock device_;
  Checksum checksum_;
  std::optional<PlacementProbe> placement_;
  std::vector<std::unique_ptr<ShardSource>> kept_;  // with keeps_mapped
  uint64_t piece_ = 0;  // index of the current piece in the staging buffer
  uint64_t fill_ = 0;   // bytes in it
  uint64_t bytes_ = 0, tensors_ = 0, tensor_bytes_ = 0, file_bytes_ = 0;
  uint64_t remote_bytes_ = 0, device_bytes_ = 0;
  uint64_t begin_ns_ = 0, end_ns_ = 0, slept_ns_ = 0;
};

// main() of a worker process: prepares, writes "ready\n" to standard output, waits for a byte on
// standard input, loads, writes the report or {"error": ...} as one JSON line.
int WorkerMain(const LoadConfig& config);

}  // namespace ppc::bench

#endif  // PPC_TOOLS_MODEL_LOADMODEL_WORKER_H_
