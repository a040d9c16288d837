// SPDX-License-Identifier: Apache-2.0
// One worker of a serving framework: takes its slice of every tensor of every shard, in file order,
// through one reused staging buffer.
// Threads: one per process; the service tells it over a pipe when to start.
#ifndef PPC_TOOLS_MODEL_LOADMODEL_WORKER_H_
#define PPC_TOOLS_MODEL_LOADMODEL_WORKER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/json.h"
#include "tools/model/common/checksum.h"
#include "tools/model/common/model_dir.h"
#include "tools/model/common/slice.h"
#include "tools/model/loadmodel/config.h"
#include "tools/model/loadmodel/device_clock.h"
#include "tools/model/loadmodel/placement.h"
#include "tools/model/loadmodel/shard_source.h"

namespace ppc::bench {

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
