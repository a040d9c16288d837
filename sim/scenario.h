// SPDX-License-Identifier: Apache-2.0
// Owns what a scenario says: machine, model, service, system, and what is expected of it.
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

// What fails, and goes on later.
enum class Fault { kRunnerKilled, kRunnerStopped, kSupervisorKilled };

struct System {
  std::string policy;  // "": the lower file system itself
  Json config = Json::object();
  uint64_t read_ahead_kb = 128;
  uint32_t cat_processes = 0;  // reads all files before the service starts (PreCache)
  bool is_cached = false;      // everything is there before the clock starts
  double lead_s = 0;           // the runtime is told so much earlier
  bool records_first = false;  // a recording run with all memory comes before
  Fault fault = Fault::kRunnerKilled;
  double dies_at = 0;  // it fails when so much of the model came from the disk; 0: never
  double dies_after_ready_s = 0;
  double away_s = 0.5;            // until another one has taken over, or it goes on
  bool is_store_damaged = false;  // a shared store has the templates, with a wrong byte each
  double store_late_s = 0;        // so late is each answer of a shared directory of templates
  bool is_store_lost = false;     // it goes away while a template is written to it
  uint64_t store_lost_after = 0;  // bytes of one; not from the file
  uint32_t starts_before = 0;     // further start-ups before this one, with all memory
  uint32_t again = 0;             // times the service reads the model anew after it is ready
  double again_after_s = 60;      // so long after each load
  double hook_s = 0.1;            // telling the daemon, before the service starts
  bool is_told = true;            // a message starts the service; else it has none
  bool says_ready = true;         // the service, before it serves
  bool records_alike = false;     // the recording run is as this one: memory, neighbours, readers
};

struct Expectation {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};

// Another service on the same machine and mount, under the same limit.
struct Other {
  std::string model;            // in a directory of its own; "": the scenario's
  bool has_own_policy = false;  // for its directory
  double after_s = 0;
  double consumer = 0;  // as the scenario's, of this one's devices; 0: the same
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
    kDrops,  // the page cache, each `every_s`: what is clean and not mapped
    kReads,  // a file of its own of `bytes`, over and over, under the same limit
    kGrows   // takes `bytes` of memory under the same limit, a tenth each `every_s`
  };
  Way way = Way::kDrops;
  double after_s = 0;
  double every_s = 1;
  uint64_t bytes = 64 << 20;
};

// What of the disk cannot be read.
struct BadDisk {
  uint32_t shard = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;      // 0: nothing
  double all_after_s = 0;  // from then on nothing can be read; 0: never
  double delay_s = 0.1;    // until it gives up a request
};

struct Scenario {
  std::string name;
  std::string about;
  std::string known_short;  // what is missing when an expectation is known not to hold
  std::string log;          // path of a recorded log: the service, in place of the modelled one
  KvOptions kv;             // or a consumer of KV-cache objects
  std::string model = "qwen2.5-72b";
  uint64_t scale = 64;
  uint64_t layers = 0;   // the model's first ones alone, before scaling; 0: all
  std::string draft;     // a second model, which the workers load after it; not when recorded
  FolderOptions folder;  // in place of the model
  PackageOptions packages;
  // A policy's first mistakes that are forgiven: drops and loads, 64 MiB each.
  uint64_t credit_bytes = 128 << 20;
  std::vector<Neighbour> neighbours;
  BadDisk bad_disk;
  uint32_t lost_events_in_100 = 0;
  DiskOptions disk;
  double slow_at_s = 0;  // the disk becomes slow so long after the clock's start; 0: never
  double slow_bytes_per_s = 0;
  uint64_t slow_latency_ns = 0;
  CpuOptions cpu;
  double late_ms = 0;     // what the executor and the evictor wait for a CPU, at each turn
  bool observes = false;  // no module and no XPU: the observer on a stock kernel
  uint32_t nodes = 2;
  double node_share = 0;             // page cache a node holds, of the model; 0: more than enough
  double consumer = 4.0 / 3;         // all workers' devices together, of the disk's rate
  double init_share = 0.5;           // of the time the disk needs for the model
  uint64_t margin_bytes = 16 << 20;  // of the limit, beyond the share; as the demo
  double limit_share = 0;  // limit = the loader's own memory + this share of the model; 0: none
  ServiceOptions service;
  System system;
  Json record = Json::object();  // what of "service" was otherwise when recorded
  // For a service on several machines: the slices that each one's workers took when recorded.
  std::vector<std::vector<uint32_t>> node_records;
  double warm_share = 0;    // of each shard, in the cache at the start
  int replaced_shard = -1;  // changed between recording and this run
  std::vector<Other> others;
  std::vector<Stranger> strangers;
  bool is_recorded_among_strangers = false;
  // Not from the file: of the service, and where its model is.
  std::string service_id = "simulated";
  std::string directory = "m";
  std::map<std::string, Expectation> expect;
};

// An error names the member.
Result<Scenario> ParseScenario(const Json& json, const std::string& name);
Result<Scenario> ReadScenario(const std::string& path);
// "service" members over what is there; an error names the member.
Status ReadService(const Json& json, ServiceOptions* out);

}  // namespace ppc::sim

#endif  // PPC_SIM_SCENARIO_H_
