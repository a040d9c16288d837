// SPDX-License-Identifier: Apache-2.0
// Owns the content of a scenario: machine, model, service, system, and the expected result.
// Threads: plain values.
#ifndef PPC_SIM_SCENARIO_H_
#define PPC_SIM_SCENARIO_H_

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "sim/disk.h"
#include "sim/kernel.h"
#include "sim/kv_service.h"
#include "sim/service.h"

namespace ppc::sim {

// A part that fails and recovers later.
enum class Fault { kRunnerKilled, kRunnerStopped, kSupervisorKilled };

struct System {
  std::string policy;  // "": the lower file system itself
  Json config = Json::object();
  uint64_t read_ahead_kb = 128;
  uint32_t cat_processes = 0;  // that read all files before the service starts (PreCache)
  bool is_cached = false;      // everything is cached before the clock starts
  double lead_s = 0;           // the runtime is told of the start this much earlier
  bool records_first = false;  // a recording run with unlimited memory comes first
  Fault fault = Fault::kRunnerKilled;
  double dies_at = 0;  // the part fails after this share of the model came from the disk; 0: never
  double dies_after_ready_s = 0;
  double away_s = 0.5;            // until a replacement has taken over, or the part continues
  bool is_store_damaged = false;  // a shared store has the templates, each with a wrong byte
  double store_late_s = 0;        // delay of each answer of a shared template directory
  bool is_store_lost = false;     // the store goes away while a template is written
  uint64_t store_lost_after = 0;  // bytes written by then; not from the file
  uint32_t starts_before = 0;     // further start-ups before this one, with unlimited memory
  uint32_t again = 0;             // times that the service reads the model again after ready
  double again_after_s = 60;      // pause before each
  double hook_s = 0.1;            // time to tell the daemon, before the service starts
  bool is_told = true;            // a message starts the service; false: there is none
  bool says_ready = true;         // the service reports ready before it serves
  bool records_alike = false;     // the recording run has this run's memory, neighbours and readers
};

struct Expectation {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

// Another service on the same machine and mount, under the same limit.
struct OtherService {
  std::string model;            // in a directory of its own; "": the scenario's model
  bool has_own_policy = false;  // for its directory
  double after_s = 0;
  double consumer = 0;  // as the scenario's `consumer`, for this service; 0: the same
  ServiceOptions service;
};

// A process that belongs to no service and reads all shards of the model, once.
struct Stranger {
  enum class Way { kRead, kMap, kTouch };  // touch: an eighth of the pages, at random
  Way way = Way::kRead;
  double after_s = 0;
};

// Another process on the machine, from the service's start to its end.
struct Neighbour {
  enum class Way {
    kDrops,  // drops clean unmapped page cache, each `every_s`
    kReads,  // reads a file of its own of `bytes`, over and over, under the same limit
    kGrows   // allocates `bytes` under the same limit, a tenth each `every_s`
  };
  Way way = Way::kDrops;
  double after_s = 0;
  double every_s = 1;
  uint64_t bytes = 64 << 20;
};

// Sectors that cannot be read.
struct BadDisk {
  uint32_t shard = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;      // 0: nothing
  double all_after_s = 0;  // from then on every read fails; 0: never
  double delay_s = 0.1;    // until the disk gives up a request
};

struct Scenario {
  std::string name;
  std::string about;
  std::string known_short;  // why an expectation is known to fail
  std::string log;          // path of a recorded log, replayed instead of the modelled service
  KvOptions kv;             // or a consumer of KV-cache objects
  std::string model = "qwen2.5-72b";
  uint64_t scale = 64;
  uint64_t layers = 0;   // use only the model's first layers, before scaling; 0: all
  std::string draft;     // a second model that the workers load after the first; not when recorded
  FolderOptions folder;  // instead of the model
  PackageOptions packages;
  // Drops and loads that are forgiven as a policy's first mistakes, 64 MiB each.
  uint64_t credit_bytes = 128 << 20;
  std::vector<Neighbour> neighbours;
  BadDisk bad_disk;
  uint32_t lost_events_in_100 = 0;
  DiskOptions disk;
  double slow_at_s = 0;  // when the disk becomes slow, since the clock's start; 0: never
  double slow_bytes_per_s = 0;
  uint64_t slow_latency_ns = 0;
  CpuOptions cpu;
  double late_ms = 0;     // time that the executor and the evictor wait for a CPU at each turn
  bool observes = false;  // no module and no XPU: the observer on a stock kernel
  uint32_t nodes = 2;
  double node_share = 0;             // page cache of a node, of the model; 0: enough
  double consumer = 4.0 / 3;         // all workers' devices, of the disk's rate
  double init_share = 0.5;           // of the disk's time for the model
  uint64_t margin_bytes = 16 << 20;  // of the limit, beyond the share; as in the demo
  double limit_share = 0;  // limit = the loader's own memory + this share of the model; 0: none
  ServiceOptions service;
  System system;
  Json record = Json::object();  // members of "service" that differ in the recording
  // Slices that each machine's workers took when recorded, for a service on several machines.
  std::vector<std::vector<uint32_t>> node_records;
  double warm_share = 0;    // of each shard, cached at the start
  int replaced_shard = -1;  // changed between recording and this run
  std::vector<OtherService> others;
  std::vector<Stranger> strangers;
  bool is_recorded_among_strangers = false;
  // Not from the file: service ID and place of the model.
  std::string service_id = "simulated";
  std::string directory = "m";
  std::map<std::string, Expectation> expect;
};

// An error names the member.
Result<Scenario> ParseScenario(const Json& json, const std::string& name);
Result<Scenario> ReadScenario(const std::string& path);
// Reads "service" members over the current values; an error names the member.
Status ReadService(const Json& json, ServiceOptions* out);

}  // namespace ppc::sim

#endif  // PPC_SIM_SCENARIO_H_
