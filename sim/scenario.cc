// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

#include "daemon/base/files.h"

namespace ppc::sim {
namespace {

using Setter = std::function<void(const Json&)>;

// Calls the setter of every member; an unknown member or a wrong type is an error.
Status Each(const Json& json, const std::string& where,
            const std::map<std::string, Setter>& setters) {
  if (!json.is_object()) return Error{EINVAL, where + " is not an object"};
  for (const auto& [key, value] : json.items()) {
    const auto setter = setters.find(key);
    if (setter == setters.end()) return Error{EINVAL, where + ": unknown member \"" + key + "\""};
    try {
      setter->second(value);
    } catch (const Json::exception&) {
      return Error{EINVAL, where + ": \"" + key + "\" has a wrong type"};
    } catch (const std::invalid_argument& e) {
      return Error{EINVAL, where + ": \"" + key + "\" " + e.what()};
    }
  }
  return Ok();
}

template <typename T>
Setter Set(T* out) {
  return [out](const Json& value) { *out = value.get<T>(); };
}

template <typename Enum>
Setter Choose(Enum* out, std::map<std::string, Enum> choices) {
  return [out, choices = std::move(choices)](const Json& value) {
    const auto it = choices.find(value.get<std::string>());
    if (it == choices.end()) {
      std::string names;
      for (const auto& [name, unused] : choices) names += (names.empty() ? "" : ", ") + name;
      throw std::invalid_argument("must be one of " + names);
    }
    *out = it->second;
  };
}

Setter Nested(Status* status, std::function<Status(const Json&)> read) {
  return [status, read = std::move(read)](const Json& value) {
    if (Status one = read(value); !one && *status) *status = one;
  };
}

Status ReadMachine(const Json& json, Scenario* s) {
  return Each(
      json, "machine",
      {{"mbps", [s](const Json& v) { s->disk.bytes_per_s = v.get<double>() * 1e6; }},
       {"latency_us", [s](const Json& v) { s->disk.latency_ns = v.get<uint64_t>() * 1000; }},
       {"queue_depth", Set(&s->disk.queue_depth)},
       {"slow_at_s", Set(&s->slow_at_s)},
       {"slow_mbps", [s](const Json& v) { s->slow_bytes_per_s = v.get<double>() * 1e6; }},
       {"slow_latency_us", [s](const Json& v) { s->slow_latency_ns = v.get<uint64_t>() * 1000; }},
       {"request_kb", [s](const Json& v) { s->disk.request_bytes = v.get<uint64_t>() << 10; }},
       {"cpus", Set(&s->cpu.cpus)},
       {"fault_ns", Set(&s->cpu.fault_ns)},
       {"map_page_ns", Set(&s->cpu.map_page_ns)},
       {"copy_page_ns", Set(&s->cpu.copy_page_ns)},
       {"read_page_ns", Set(&s->cpu.read_page_ns)},
       {"complete_page_ns", Set(&s->cpu.complete_page_ns)},
       {"request_ns", Set(&s->cpu.request_ns)},
       {"late_ms", Set(&s->late_ms)},
       {"observer", Set(&s->observes)},
       {"nodes", Set(&s->nodes)},
       {"lost_events_in_100", Set(&s->lost_events_in_100)},
       {"node_share", Set(&s->node_share)}});
}

Setter SetMiB(uint64_t* out) {
  return [out](const Json& value) { *out = value.get<uint64_t>() << 20; };
}

Status ReadFolder(const Json& json, FolderOptions* out) {
  out->models = 1;
  return Each(json, "folder",
              {{"models", Set(&out->models)},
               {"shards", Set(&out->shards)},
               {"shard_mib", SetMiB(&out->shard_bytes)},
               {"tensor_mib", SetMiB(&out->tensor_bytes)},
               {"experts", Set(&out->experts)},
               {"is_flat", Set(&out->is_flat)}});
}

Status ReadNeighbour(const Json& json, Scenario* s) {
  Neighbour neighbour;
  const Status read =
      Each(json, "neighbours",
           {{"way", Choose<Neighbour::Way>(&neighbour.way, {{"drops", Neighbour::Way::kDrops},
                                                            {"reads", Neighbour::Way::kReads},
                                                            {"grows", Neighbour::Way::kGrows}})},
            {"after_s", Set(&neighbour.after_s)},
            {"every_s", Set(&neighbour.every_s)},
            {"mib", SetMiB(&neighbour.bytes)}});
  s->neighbours.push_back(neighbour);
  return read;
}

Status ReadBadDisk(const Json& json, BadDisk* out) {
  return Each(json, "bad_disk",
              {{"shard", Set(&out->shard)},
               {"offset_mib", SetMiB(&out->offset)},
               {"kb", [out](const Json& v) { out->bytes = v.get<uint64_t>() << 10; }},
               {"all_after_s", Set(&out->all_after_s)},
               {"delay_s", Set(&out->delay_s)}});
}

Status ReadSystem(const Json& json, System* s) {
  return Each(
      json, "system",
      {{"policy", Set(&s->policy)},
       {"config", Set(&s->config)},
       {"read_ahead_kb", Set(&s->read_ahead_kb)},
       {"cat_processes", Set(&s->cat_processes)},
       {"is_cached", Set(&s->is_cached)},
       {"lead_s", Set(&s->lead_s)},
       {"records_first", Set(&s->records_first)},
       {"fault", Choose<Fault>(&s->fault, {{"runner_killed", Fault::kRunnerKilled},
                                           {"runner_stopped", Fault::kRunnerStopped},
                                           {"supervisor_killed", Fault::kSupervisorKilled}})},
       {"dies_at", Set(&s->dies_at)},
       {"dies_after_ready_s", Set(&s->dies_after_ready_s)},
       {"away_s", Set(&s->away_s)},
       {"is_store_damaged", Set(&s->is_store_damaged)},
       {"is_store_lost", Set(&s->is_store_lost)},
       {"store_late_s", Set(&s->store_late_s)},
       {"starts_before", Set(&s->starts_before)},
       {"again", Set(&s->again)},
       {"again_after_s", Set(&s->again_after_s)},
       {"hook_s", Set(&s->hook_s)},
       {"is_told", Set(&s->is_told)},
       {"says_ready", Set(&s->says_ready)},
       {"records_alike", Set(&s->records_alike)}});
}

Status ReadPackages(const Json& json, PackageOptions* out) {
  return Each(json, "packages",
              {{"files", Set(&out->files)},
               {"kb", [out](const Json& v) { out->bytes = v.get<uint64_t>() << 10; }}});
}

Status ReadKv(const Json& json, KvOptions* kv) {
  kv->is_on = true;
  return Each(json, "kv",
              {{"layers", Set(&kv->layers)},
               {"chunks", Set(&kv->chunks)},
               {"object_kb", [kv](const Json& v) { kv->object_bytes = v.get<uint64_t>() << 10; }},
               {"compute_ms", [kv](const Json& v) { kv->compute_s = v.get<double>() / 1e3; }},
               {"passes", Set(&kv->passes)},
               {"is_dropped", Set(&kv->is_dropped)},
               {"pause_s", Set(&kv->pause_s)},
               {"layout", Choose<KvLayout>(&kv->layout, {{"files", KvLayout::kFiles},
                                                         {"large", KvLayout::kLarge}})},
               {"order", Choose<KvOrder>(&kv->order, {{"chain", KvOrder::kChain},
                                                      {"random", KvOrder::kRandom},
                                                      {"changed", KvOrder::kChanged}})},
               {"swaps_in_100", Set(&kv->swaps_in_100)}});
}

Status ReadExpectations(const Json& json, std::map<std::string, Expectation>* out) {
  if (!json.is_object()) return Error{EINVAL, "expect is not an object"};
  for (const auto& [metric, bounds] : json.items()) {
    Expectation& one = (*out)[metric];
    Status read = Each(bounds, "expect: \"" + metric + "\"",
                       {{"min", Set(&one.min)}, {"max", Set(&one.max)}});
    if (!read) return read;
  }
  return Ok();
}

// Calls `read` with each member of a list.
Status ReadList(const Json& json, const std::string& where,
                const std::function<Status(const Json&)>& read) {
  if (!json.is_array()) return Error{EINVAL, where + " is not an array"};
  for (const Json& one : json) {
    if (Status status = read(one); !status) return status;
  }
  return Ok();
}

Status ReadOther(const Json& json, Scenario* s) {
  OtherService other;
  Status inner = Ok();
  const Status read = Each(
      json, "others",
      {{"model", Set(&other.model)},
       {"has_own_policy", Set(&other.has_own_policy)},
       {"after_s", Set(&other.after_s)},
       {"consumer", Set(&other.consumer)},
       {"service", Nested(&inner, [&](const Json& v) { return ReadService(v, &other.service); })}});
  s->others.push_back(std::move(other));
  return read ? inner : read;
}

Status ReadStranger(const Json& json, Scenario* s) {
  Stranger stranger;
  const Status read =
      Each(json, "strangers",
           {{"way", Choose<Stranger::Way>(&stranger.way, {{"read", Stranger::Way::kRead},
                                                          {"map", Stranger::Way::kMap},
                                                          {"touch", Stranger::Way::kTouch}})},
            {"after_s", Set(&stranger.after_s)}});
  s->strangers.push_back(stranger);
  return read;
}

// Checks that involve several members.
Status CheckScenario(const Scenario& s, const std::string& name) {
  uint32_t workers = s.service.workers;
  uint32_t mounts = 1;
  for (const OtherService& other : s.others) {
    workers += other.service.workers;
    mounts += other.has_own_policy ? 1 : 0;
  }
  const FolderOptions& f = s.folder;
  const auto is_short = [&](const auto& ranks) { return ranks.size() != s.service.workers; };
  const auto is_unbounded = [&](const OtherService& other) {
    return other.has_own_policy && (other.model.empty() || s.limit_share > 0);
  };
  const auto is_idle = [](const Neighbour& one) { return one.every_s <= 0 || one.bytes == 0; };
  const struct {
    bool is_wrong;
    const char* why;
  } checks[] = {
      {workers < 1 || workers > 256, "\"workers\" of all services must be 1 to 256 together"},
      {s.service.on_node >= s.service.of_nodes, "\"on_node\" must be below \"of_nodes\""},
      {!s.node_records.empty() && (s.node_records.size() != s.service.of_nodes ||
                                   std::ranges::any_of(s.node_records, is_short)),
       "\"node_records\" needs one list for each of \"of_nodes\", with one number per worker"},
      {s.kv.is_on && (s.kv.objects() == 0 || s.kv.object_bytes == 0 || s.kv.passes == 0),
       "the numbers of \"kv\" must be above 0"},
      {s.kv.is_on && (!s.log.empty() || !s.others.empty() || !s.strangers.empty()),
       "\"kv\" is the only service, and there are no strangers"},
      {!s.log.empty() && !s.others.empty(), "a recorded log is one service's"},
      {s.system.dies_at > 0 && !s.others.empty(), "\"dies_at\" is for one service alone"},
      {!s.system.is_told && !s.others.empty(), "\"is_told\" is of one service alone"},
      {s.system.policy.empty() && (s.system.dies_at > 0 || s.system.dies_after_ready_s > 0),
       "only a \"policy\" can die"},
      {std::ranges::any_of(s.others, is_unbounded),
       "\"has_own_policy\" needs a \"model\", and no limit"},
      {mounts > kMaxMounts, "there are more policies than mounts can be"},
      {s.scale == 0 || s.consumer <= 0 || s.nodes < 1 || s.cpu.cpus < 1 || s.disk.queue_depth < 1 ||
           s.disk.bytes_per_s <= 0 || s.disk.request_bytes < kPage,
       "scale, consumer and the machine's numbers must be above 0"},
      {f.models > 26 || 2 * s.service.serve_experts.used > f.experts ||
           (f.models > 0 && (f.shards == 0 || f.tensor_bytes == 0 || f.shard_bytes == 0)),
       "\"folder\" has 1 to 26 models, numbers above 0, and experts twice those that are used"},
      {s.service.part <= 0 || s.service.part > 1, "\"part\" must be above 0 and at most 1"},
      {std::ranges::any_of(s.neighbours, is_idle), "the numbers of \"neighbours\" must be above 0"},
      {s.slow_at_s > 0 && s.slow_bytes_per_s <= 0, "\"slow_at_s\" needs \"slow_mbps\""},
      {!s.service.ranks.empty() && is_short(s.service.ranks),
       "\"ranks\" needs one number per worker"},
  };
  for (const auto& [is_wrong, why] : checks)
    if (is_wrong) return Error{EINVAL, name + ": " + why};
  return Ok();
}

}  // namespace

Status ReadService(const Json& json, ServiceOptions* s) {
  uint32_t all_workers = 0;
  const Status read =
      Each(json, "service",
           {{"workers", [s](const Json& v) { s->workers = s->tp = v.get<uint32_t>(); }},
            {"all_workers", Set(&all_workers)},
            {"on_node", Set(&s->on_node)},
            {"of_nodes", Set(&s->of_nodes)},
            {"mode", Choose<ReadMode>(&s->mode, {{"mmap", ReadMode::kMmap},
                                                 {"read", ReadMode::kRead},
                                                 {"direct", ReadMode::kDirect}})},
            {"threads", Set(&s->threads)},
            {"passes", Set(&s->passes)},
            {"order", Choose<ShardOrder>(&s->order, {{"file", ShardOrder::kFile},
                                                     {"shuffled", ShardOrder::kShuffled}})},
            {"shuffles_alike", Set(&s->shuffles_alike)},
            {"swap_tensors", Set(&s->swap_tensors)},
            {"jitter", Set(&s->jitter)},
            {"ranks", Set(&s->ranks)},
            {"first_node", Set(&s->first_node)},
            {"populates", Set(&s->populates)},
            {"own_prefetch_threads", Set(&s->own_prefetch_threads)},
            {"is_expert_parallel", Set(&s->is_expert_parallel)},
            {"stages", Set(&s->stages)},
            {"params", Set(&s->params)},
            {"part", Set(&s->part)},
            {"reads", Set(&s->reads)},
            {"rest_s", Set(&s->rest_s)},
            {"pause_at", Set(&s->pause_at)},
            {"pause_s", Set(&s->pause_s)},
            {"serve_passes", Set(&s->serve_passes)},
            {"serve_pause_s", Set(&s->serve_pause_s)},
            {"serve_page_ns", Set(&s->serve_page_ns)},
            {"serve_experts", Set(&s->serve_experts)},
            {"late_mib", [s](const Json& v) { s->late_bytes = v.get<uint64_t>() << 20; }},
            {"restart_worker", Set(&s->restart_worker)},
            {"restart_at", Set(&s->restart_at)},
            {"restart_pause_s", Set(&s->restart_pause_s)}});
  if (all_workers > 0) s->tp = all_workers;
  return read;
}

Result<Scenario> ParseScenario(const Json& json, const std::string& name) {
  Scenario s;
  s.name = name;
  Status inner = Ok();
  const Status read = Each(
      json, name,
      {{"about", Set(&s.about)},
       {"known_short", Set(&s.known_short)},
       {"log", Set(&s.log)},
       {"model", Set(&s.model)},
       {"draft", Set(&s.draft)},
       {"scale", Set(&s.scale)},
       {"layers", Set(&s.layers)},
       {"consumer", Set(&s.consumer)},
       {"init_share", Set(&s.init_share)},
       {"limit_share", Set(&s.limit_share)},
       {"credit_mib", SetMiB(&s.credit_bytes)},
       {"margin_mib", SetMiB(&s.margin_bytes)},
       {"record", Set(&s.record)},
       {"node_records", Set(&s.node_records)},
       {"warm_share", Set(&s.warm_share)},
       {"replaced_shard", Set(&s.replaced_shard)},
       {"is_recorded_among_strangers", Set(&s.is_recorded_among_strangers)},
       {"others", Nested(&inner,
                         [&](const Json& v) {
                           return ReadList(v, "others",
                                           [&](const Json& one) { return ReadOther(one, &s); });
                         })},
       {"strangers", Nested(&inner,
                            [&](const Json& v) {
                              return ReadList(v, "strangers", [&](const Json& one) {
                                return ReadStranger(one, &s);
                              });
                            })},
       {"kv", Nested(&inner, [&](const Json& v) { return ReadKv(v, &s.kv); })},
       {"neighbours", Nested(&inner,
                             [&](const Json& v) {
                               return ReadList(v, "neighbours", [&](const Json& one) {
                                 return ReadNeighbour(one, &s);
                               });
                             })},
       {"folder", Nested(&inner, [&](const Json& v) { return ReadFolder(v, &s.folder); })},
       {"bad_disk", Nested(&inner, [&](const Json& v) { return ReadBadDisk(v, &s.bad_disk); })},
       {"packages", Nested(&inner, [&](const Json& v) { return ReadPackages(v, &s.packages); })},
       {"machine", Nested(&inner, [&](const Json& v) { return ReadMachine(v, &s); })},
       {"service", Nested(&inner, [&](const Json& v) { return ReadService(v, &s.service); })},
       {"system", Nested(&inner, [&](const Json& v) { return ReadSystem(v, &s.system); })},
       {"expect", Nested(&inner, [&](const Json& v) { return ReadExpectations(v, &s.expect); })}});
  if (!read) return read.error();
  if (!inner) return Error{EINVAL, name + ": " + inner.error().message};
  if (Status checked = CheckScenario(s, name); !checked) return checked.error();
  return s;
}

// Reads a file, merged over the file that its "like" names.
static Result<Json> ReadMerged(const std::string& path, bool may_be_like) {
  const Result<std::string> text = ReadFile(path, size_t{1} << 20);
  if (!text) return text.error();
  const Result<Json> json = ParseJsonObject(*text, path);
  if (!json || !json->contains("like")) return json;
  Json over = *json;
  const Json like = over["like"];
  over.erase("like");
  if (!may_be_like || !like.is_string())
    return Error{EINVAL, path + ": \"like\" must be the name of a scenario that has none"};
  const std::string directory = path.substr(0, path.rfind('/') + 1);
  Result<Json> merged = ReadMerged(directory + like.get<std::string>() + ".json", false);
  if (merged) merged->merge_patch(over);
  return merged;
}

Result<Scenario> ReadScenario(const std::string& path) {
  const Result<Json> json = ReadMerged(path, true);
  if (!json) return json.error();
  std::string name = path.substr(path.rfind('/') + 1);
  if (name.ends_with(".json")) name.resize(name.size() - 5);
  Result<Scenario> scenario = ParseScenario(*json, name);
  // The path of a log is relative to its scenario.
  if (scenario.ok() && !scenario->log.empty() && scenario->log[0] != '/') {
    scenario->log = path.substr(0, path.rfind('/') + 1) + scenario->log;
  }
  return scenario;
}

}  // namespace ppc::sim
