// SPDX-License-Identifier: Apache-2.0
//
// Parsing of configurations and service specifications.  Pure functions.
#include "policies/maio/base/config.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "daemon/base/config_reader.h"
#include "policies/maio/base/names.h"

namespace ppc::maio {
namespace {

constexpr int64_t kMostWorkers = kMaxGroups - 1;  // of a node
constexpr size_t kMostXpus = 4096;
constexpr int64_t kMostServices = 4096;  // of one runtime

// What earlier versions had, and what to do without it.
struct Removed {
  const char* key;
  const char* remedy;
};
constexpr Removed kRemoved[] = {
    {"affinity_fix", "to load again what lies on another node, run ppcctl drop before the start"},
    {"affinity_fix_ahead_s", "leave it out"},
    {"stand_down", "leave it out"},
    {"standby", "\"at_ready\": \"keep\" keeps the model's pages for the next start"},
};

// A log or an answer of the runtime is read without knowing who says so.
Error Named(const Error& error) { return {error.code, "maio: " + error.message}; }

void ReadXpus(ConfigReader& reader, std::vector<int32_t>* out) {
  const Json* xpus = reader.Find("xpus");
  if (xpus == nullptr) return;
  bool is_good = xpus->is_array() && xpus->size() <= kMostWorkers;
  for (size_t i = 0; is_good && i < xpus->size(); i++) {
    const Json& xpu = (*xpus)[i];
    is_good = xpu.is_number_integer() && xpu >= 0 && xpu < kMostXpus;
    if (is_good) out->push_back(xpu.get<int32_t>());
  }
  if (!is_good)
    reader.Refuse("xpus", "an array of at most " + std::to_string(kMostWorkers) + " XPU numbers");
}

void ReadNode(ConfigReader& reader, ServiceSpec* out) {
  reader.Int("nodes", &out->nodes, 0, kMaxWorkers);
  reader.Int("node", &out->node, 0, kMaxWorkers);
  reader.Int("first_worker", &out->first_worker, 0, kMaxWorkers);
  out->first_told = reader.Find("first_worker") != nullptr;
  out->nodes = std::max(out->nodes, 1u);
  if (out->node >= out->nodes)
    reader.Refuse("node", "below \"nodes\", " + std::to_string(out->nodes));
}

// Workers have numbers of their own on all nodes together.
Status NumberWorkers(ServiceSpec* spec) {
  if (spec->nodes == 1) return Ok();
  if (spec->workers == 0) {
    return Error{EINVAL, "a service on several nodes needs \"workers\" (of this node) or \"xpus\""};
  }
  if (!spec->first_told) spec->first_worker = spec->node * spec->workers;
  if (spec->first_worker + spec->workers <= kMaxWorkers) return Ok();
  return Error{
      EINVAL, "a service has at most " + std::to_string(kMaxWorkers) + " workers on all its nodes"};
}

}  // namespace

Result<Config> ParseConfig(const std::string& text) {
  const Result<Json> json = ParseJsonObject(text, "the configuration");
  if (!json) return Named(json.error());
  Config config;
  ConfigReader reader(*json, "option");
  reader.Size("distance", &config.distance);
  reader.Bool("prefetch", &config.prefetch);
  reader.Bool("affinity", &config.affinity);
  reader.Bool("bar", &config.bar);
  reader.Bool("wait_for_reader", &config.wait_for_reader);
  reader.Choice<RecordMode>(
      "record",
      {{"auto", RecordMode::kAuto}, {"always", RecordMode::kAlways}, {"never", RecordMode::kNever}},
      &config.record);
  reader.Choice<AtReady>(
      "at_ready", {{"auto", AtReady::kAuto}, {"keep", AtReady::kKeep}, {"all", AtReady::kAll}},
      &config.at_ready);
  reader.Int("max_pieces", &config.max_pieces, 0, 1 << 30);
  reader.Int("recover_s", &config.recover_s, 0, kMostRecoverS, "seconds");
  reader.Int("holdback", &config.holdback, 0, 100, "percent");
  reader.Text("store", &config.store);
  reader.Text("store_key", &config.store_key);
  // Of the service that the registration names, which the runtime starts; and the runtime's own.
  const bool has_service = reader.Find("service_id") != nullptr;
  for (const char* key :
       {"params", "workers", "xpus", "node", "nodes", "first_worker", "runtime"}) {
    (void)reader.Find(key);
  }
  for (const Removed& removed : kRemoved) {
    if (json->contains(removed.key))
      return Named(
          {EINVAL, "option \"" + std::string(removed.key) + "\" was removed; " + removed.remedy});
  }
  if (const Status status = reader.Finish(); !status) return Named(status.error());
  if (!config.store_key.empty() && config.store.empty())
    return Named({EINVAL, "option \"store_key\" is of a \"store\"; name that, too"});
  if (has_service) {
    if (const Result<ServiceSpec> spec = ParseService(*json); !spec) return spec.error();
  }
  return config;
}

Result<ServiceSpec> ParseService(const Json& message) {
  ServiceSpec spec;
  ConfigReader reader(message, "service option");
  reader.Text("service_id", &spec.service_id);
  if (!ValidServiceId(spec.service_id)) reader.Refuse("service_id", "4 to 64 of [0-9A-Za-z._-]");
  spec.template_id = spec.service_id;
  reader.Text("template", &spec.template_id);
  if (!ValidServiceId(spec.template_id)) reader.Refuse("template", "4 to 64 of [0-9A-Za-z._-]");
  reader.Int("service", &spec.number, 0, kMostServices - 1);
  reader.Int("workers", &spec.workers, 0, kMostWorkers);
  ReadXpus(reader, &spec.xpus);
  if (spec.workers == 0) spec.workers = static_cast<uint32_t>(spec.xpus.size());
  reader.Bool("resumed", &spec.is_resumed);
  ReadNode(reader, &spec);
  if (const Json* params = reader.Find("params")) spec.params = *params;
  if (!reader.status()) return Named(reader.status().error());
  if (const Status status = NumberWorkers(&spec); !status) return Named(status.error());
  return spec;
}

Result<uint32_t> ParseWait(const Json& message, uint32_t usual) {
  ConfigReader reader(message, "service option");
  reader.Int("wait_s", &usual, 1, kMostRecoverS, "seconds");
  if (!reader.status()) return Named(reader.status().error());
  return usual;
}

uint64_t BarDistance(const Config& config, uint64_t budget, size_t groups) {
  uint64_t distance = config.distance != 0 ? config.distance : kGiB;
  return std::max(std::min(distance, budget / 8 / std::max<size_t>(groups, 2)), kMiB);
}

uint64_t BeaconBytes(uint64_t distance) {
  return std::clamp<uint64_t>(std::bit_floor(distance / 8), 64 << 10, kMiB);
}

}  // namespace ppc::maio
