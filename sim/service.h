// SPDX-License-Identifier: Apache-2.0
// Owns the modelled service, as tools/model/loadmodel in simulated time.  Init (small files, then
// quiet), load (workers take their slices of every tensor, copy them through a staging buffer, a
// device takes them at its rate), ready.  Beyond loadmodel: threads per worker, disorder, jitter, a
// worker that dies and restarts, a loader's own prefetch.
// Threads: one.
#ifndef PPC_SIM_SERVICE_H_
#define PPC_SIM_SERVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "sim/experts.h"
#include "sim/kernel.h"
#include "tools/model/common/model_layout.h"
#include "tools/model/common/slice.h"

namespace ppc::sim {

// A model's files in the modelled page cache.
struct ModelFiles {
  std::vector<bench::ShardHeader> headers;  // by shard
  std::vector<std::string> shards;          // paths
  std::vector<std::string> small;
  uint64_t bytes = 0;    // of the shards
  uint32_t experts = 0;  // of a layer, in three tensors
  size_t LayersOfExperts() const;
  // For a folder of several models: first shard and number of shards of each.
  std::vector<std::pair<size_t, size_t>> models;
};
// Small files beside the model that are read before it: packages of the program.
struct PackageOptions {
  uint32_t files = 0;
  uint64_t bytes = 12 << 10;  // mean size of one
};
ModelFiles AddModel(PageCache* cache, const bench::ModelSpec& model, uint64_t scale,
                    const std::string& directory, const PackageOptions& packages);

// A folder of similar small models, instead of one of mkmodel's.
struct FolderOptions {
  uint32_t models = 0;  // 0: no folder
  uint32_t shards = 4;  // each
  uint64_t shard_bytes = 32 << 20;
  uint64_t tensor_bytes = 4 << 20;
  uint32_t experts = 0;  // of a layer: each of its three tensors holds a part of all
  bool is_flat = false;  // all in one directory, without an index
};
ModelFiles AddFolder(PageCache* cache, const FolderOptions& folder, const std::string& directory);

// Starts a numbered process; worker < 0: none.  proc: directory that stands for the root of /proc
// and gets the process's environment, for the providers of worker numbers and for telling services
// apart; "": none.
void MakeProcess(const Scheduler& scheduler, Process* process, int worker, const std::string& proc,
                 const std::string& service_id = "");
// Writes group and command line too, for a process whose service no message named.
void WriteStat(const Process& process, int leader, const std::string& proc);

enum class ReadMode { kMmap, kRead, kDirect };
enum class ShardOrder { kFile, kShuffled };

struct ServiceOptions {
  uint32_t workers = 2;
  uint32_t tp = 2;
  ReadMode mode = ReadMode::kMmap;
  double device_bytes_per_s = 0;  // per worker; 0: takes no time
  double init_s = 0;
  uint64_t staging_bytes = 8 << 20;
  uint32_t threads = 1;  // per worker; each takes the next shard
  uint32_t passes = 1;
  ShardOrder order = ShardOrder::kFile;
  bool shuffles_alike = true;  // the workers have the same order of shards
  double swap_tensors = 0;     // share of neighbouring tensors that change places
  double jitter = 0;           // of the device's time per piece, +- this share
  uint32_t on_node = 0;        // of `of_nodes`, if the service runs on several machines
  uint32_t of_nodes = 1;
  std::vector<uint32_t> ranks;        // slice of each process; empty: worker i takes slice i
  bool populates = false;             // MAP_POPULATE of each shard
  uint32_t own_prefetch_threads = 0;  // per worker: whole shards r::N in 16 MiB blocks
  int restart_worker = -1;            // is killed at `restart_at` of its bytes, then restarts
  double restart_at = 0.5;
  double restart_pause_s = 1;
  bool is_expert_parallel = false;  // whole experts per rank, slices of the rest
  uint32_t stages = 1;              // of a pipeline, each of tp / stages workers
  nlohmann::json params;            // the service's parameters in its start message
  double part = 1;                  // share of each shard that is read, from its beginning
  std::vector<uint32_t> reads;      // of a folder: order of reading models; empty: the first
  double rest_s = 0;                // before each of these but the first
  double pause_at = 0;              // share of its bytes after which each worker pauses; 0: never
  double pause_s = 30;
  // Passes over the loaded model after the load: through the mapping, which stays, or by read()
  // again.
  uint32_t serve_passes = 0;
  double serve_pause_s = 0;     // before each
  uint64_t serve_page_ns = 0;   // compute time per page
  ExpertOptions serve_experts;  // a pass is a token, which needs these alone
  uint64_t late_bytes = 0;      // of its own memory: allocated only when it begins to load
  uint32_t nodes = 2;
  uint32_t first_node = 0;  // of worker 0; the others follow in turn
  uint32_t number = 0;      // index of the service
  // ID in its processes' environment.  "": no message named the service, and the runtime finds its
  // processes in /proc.
  std::string id;
  double launch_s = 0.25;  // exec, dynamic linking, starting workers
  uint64_t seed = 1;
};

struct ServiceReport {
  uint64_t exec_ns = 0;
  uint64_t small_ns = 0;  // time of reading small files
  uint64_t load_ns = 0;
  uint64_t ready_ns = 0;
  uint64_t rested_ns = 0;  // between two models, not part of the load
  uint64_t bytes = 0;      // copied by all workers
  uint64_t lost = 0;       // read by a worker that died, and evicted before its death
  uint64_t majflt = 0;
  uint64_t errors = 0;  // pages that could not be read
  double init_s() const { return double(load_ns - exec_ns) / 1e9; }
  double load_s() const { return double(ready_ns - load_ns - rested_ns) / 1e9; }
};

class Service {
 public:
  // proc: see MakeProcess.
  Service(Kernel* kernel, const ModelFiles* model, const ServiceOptions& options, bool through_ppc,
          std::string proc);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;
  ~Service();
  // In a fiber: from exec to ready.
  ServiceReport Run();
  // After Run: the same workers read the model again, without a hook.  Returns the seconds.
  double RunAgain();
  // After Run: a pass over the loaded model.  Returns the seconds.
  double ServePass();
  // Pages that could not be read.
  uint64_t Errors() const;

 private:
  struct Worker;
  struct Lane;
  bool KeepsMapping() const {
    return options_.mode == ReadMode::kMmap && options_.serve_passes > 0;
  }
  // Counts the model's layers and experts.
  void Measure();
  uint32_t StageOf(const std::string& tensor) const;
  bench::Slice SliceOf(const Worker& worker, const bench::Tensor& tensor) const;
  std::vector<bench::Slice> SlicesOf(const Worker& worker, const bench::Tensor& tensor) const;
  void PauseIfDue(Worker* worker, Lane* lane);
  void RestBefore(Worker* worker, Lane* lane, size_t shard);
  void RunWorker(Worker* worker);
  void RunLane(Worker* worker, Lane* lane);
  void LoadShard(Worker* worker, Lane* lane, size_t shard);
  void TakeRows(Worker* worker, Lane* lane, OpenFile* open, uint64_t data, const bench::Slice& s);
  void TakeRun(Worker* worker, Lane* lane, OpenFile* open, uint64_t offset, uint64_t bytes);
  void Take(Worker* worker, Lane* lane, OpenFile* open, uint64_t offset, uint64_t bytes);
  void Fetch(Worker* worker, Lane* lane, OpenFile* open, uint64_t offset, uint64_t bytes);
  void NextPiece(Worker* worker, Lane* lane);
  void CountLost(Worker* worker);
  void PrefetchByItself(Worker* worker, uint32_t thread);
  std::unique_ptr<Worker> NewWorker(uint32_t index);
  void NewProcess(Process* process, int worker);
  std::vector<size_t> ShardsOf(uint32_t worker);

  Kernel* const kernel_;
  const ModelFiles* const model_;
  const ServiceOptions options_;
  const bool through_ppc_;
  const std::string proc_;
  int64_t layers_ = 0;   // of the model, for cutting a pipeline
  int64_t experts_ = 1;  // of a layer
  std::vector<Token> tokens_;
  size_t token_ = 0;  // the next pass is this one and 1
  std::mt19937_64 random_;
  uint32_t processes_ = 0;
  int leader_ = 0;  // its first process
  uint32_t workers_left_ = 0;
  Fiber* self_ = nullptr;
  bool is_serving_ = false;
  ServiceReport report_;
  std::vector<std::unique_ptr<Worker>> all_;
};

}  // namespace ppc::sim

#endif  // PPC_SIM_SERVICE_H_
