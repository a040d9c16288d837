// SPDX-License-Identifier: Apache-2.0
// A loader of its own as ServerlessLLM's store has it: reads chunks with O_DIRECT into a fixed pool
// of buffers, several threads per worker, and hands each to the worker's device as it arrives.
// Nothing of it lies in the page cache.
//
// Each worker has its own contiguous part of the checkpoint, as the converted format gives it.
// Threads: DirectWorker's methods from its owner; its readers are its own.
#ifndef PPC_BENCH_RIVALS_DIRECT_H_
#define PPC_BENCH_RIVALS_DIRECT_H_

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bench/rivals/crew.h"
#include "bench/rivals/io.h"
#include "daemon/base/result.h"
#include "tools/model/loadmodel/device_clock.h"

namespace ppc::bench {

struct Chunk {
  size_t file;
  uint64_t offset;  // a multiple of the chunk's size
  uint64_t bytes;   // less at the end of a file

  bool operator==(const Chunk&) const = default;
};

// Worker's share of all chunks of these files, in order.
std::vector<Chunk> ChunksOf(const std::vector<uint64_t>& file_bytes, uint64_t chunk_bytes,
                            uint32_t worker, uint32_t workers);

struct DirectConfig {
  uint32_t workers = 1;
  uint32_t threads = 4;  // of each worker
  uint64_t chunk_bytes = 32 << 20;
  uint64_t pool_bytes = 512 << 20;  // of all workers
  double device_mbps = 0;           // MB/s (10^6) per worker; 0: takes no time
};

class DirectWorker {
 public:
  using Sink = std::function<void(const Chunk&, const uint8_t*)>;

  // sink (may be empty) sees each chunk just before its buffer is used again.
  static Result<std::unique_ptr<DirectWorker>> Make(Io* io, const std::vector<std::string>& files,
                                                    const DirectConfig& config, uint32_t worker,
                                                    Sink sink);
  DirectWorker(const DirectWorker&) = delete;
  DirectWorker& operator=(const DirectWorker&) = delete;
  ~DirectWorker();

  // Readers fill buffers from now on, until the pool is full.
  void StartReading();
  // The device takes everything; StartReading must have been called.
  Status Load();
  uint64_t bytes() const { return bytes_; }

 private:
  using Buffer = std::unique_ptr<uint8_t, decltype(&std::free)>;

  DirectWorker(const DirectConfig& config, Sink sink)
      : config_(config), sink_(std::move(sink)), device_(config.device_mbps * 1e6, 1) {}
  Status Read();
  Status ReadChunk(size_t index);
  void Stop(const Error& error);

  DirectConfig config_;
  Sink sink_;
  DeviceClock device_;
  std::vector<std::unique_ptr<IoFile>> files_;
  std::vector<Chunk> chunks_;
  std::vector<Buffer> slots_;  // chunk i lies in slot i % slots
  uint64_t bytes_ = 0;

  std::mutex mutex_;  // what follows, but crew_
  std::condition_variable changed_;
  std::vector<uint64_t> filled_ns_;  // 0: not yet
  size_t next_ = 0;                  // first chunk no reader has taken
  size_t released_ = 0;              // chunks the device is done with
  std::optional<Error> error_;
  bool is_stopped_ = false;

  Crew crew_;  // last: joined before what it uses goes
};

}  // namespace ppc::bench

#endif  // PPC_BENCH_RIVALS_DIRECT_H_
