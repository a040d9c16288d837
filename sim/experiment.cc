// SPDX-License-Identifier: Apache-2.0
#include "sim/experiment.h"

#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <utility>

#include "sim/metrics.h"
#include "sim/shared_store.h"
#include "sim/start_up.h"
#include "sim/temp_dir.h"

namespace ppc::sim {
namespace {

constexpr double kShortS = 0.06;  // a start later by less than this is not slower

// A comparison is given up beyond these multiples of the native run.
constexpr uint64_t kEndlessRatio = 10;
constexpr double kEndlessS = 60;
constexpr uint64_t kEndlessBytes = uint64_t{1} << 30;

// The same service without policy, limit, or anything done before.
Scenario PlainScenario(const Scenario& scenario) {
  Scenario plain = scenario;
  plain.system = System{};
  plain.warm_share = 0;
  plain.replaced_shard = -1;
  plain.others.clear();
  plain.strangers.clear();
  return plain;
}

// One of the other services, alone.
Scenario AloneScenario(const Scenario& scenario, size_t other) {
  Scenario alone = scenario;
  alone.service = scenario.others[other].service;
  if (!scenario.others[other].model.empty()) alone.model = scenario.others[other].model;
  alone.directory = OtherDirectory(scenario, other);
  alone.service_id = OtherId(scenario, other);
  if (scenario.others[other].consumer > 0) alone.consumer = scenario.others[other].consumer;
  alone.others.clear();
  return alone;
}

// The same without policy, faults or other services, at the same memory and among the same
// neighbours.
Scenario NativeScenario(const Scenario& scenario) {
  Scenario native = scenario;
  native.system = System{};
  native.replaced_shard = -1;
  native.others.clear();
  native.strangers.clear();
  return native;
}

// Least time to read `bytes` more than natively, request after request.
double ExtraS(const Scenario& s, double bytes) {
  constexpr double kRequestBytes = 128 << 10;
  const double request_s = static_cast<double>(s.disk.latency_ns + s.cpu.request_ns) / 1e9 +
                           kRequestBytes / s.disk.bytes_per_s;
  return bytes / kRequestBytes * request_s;
}

Comparison Compare(const Scenario& s, const StartUpResult& run, const StartUpResult& native) {
  Comparison both;
  both.s = run.life_s;
  both.native_s = native.life_s;
  both.bytes = run.life_disk.bytes;
  both.native_bytes = native.life_disk.bytes;
  const auto bytes = static_cast<double>(run.life_disk.bytes);
  const auto native_bytes = static_cast<double>(std::max<uint64_t>(native.life_disk.bytes, 1));
  const double credit = std::clamp(bytes - native_bytes, 0.0, static_cast<double>(s.credit_bytes));
  both.time_ratio = both.s / both.native_s;
  both.bytes_ratio = bytes / native_bytes;
  both.harm_bytes_ratio = (bytes - credit) / native_bytes;
  both.harm_time_ratio = (both.s - kShortS - ExtraS(s, credit)) / both.native_s;
  return both;
}

Scenario WithAllMemory(Scenario scenario) {
  scenario.limit_share = 0;
  scenario.node_share = 0;
  scenario.neighbours.clear();
  scenario.bad_disk = BadDisk{};
  scenario.lost_events_in_100 = 0;
  return scenario;
}

Result<StartUpResult> RecordOne(const Scenario& scenario, uint64_t seed,
                                const std::string& directory, uint32_t node) {
  Scenario record = WithAllMemory(PlainScenario(scenario));
  record.draft.clear();
  record.service.restart_worker = -1;
  record.service.own_prefetch_threads = 0;
  record.service.order = ShardOrder::kFile;
  record.service.ranks.clear();
  record.service.first_node = 0;
  if (!scenario.node_records.empty()) {
    record.service.ranks = scenario.node_records[node];
    record.service.on_node = node;
  }
  record.system.policy = scenario.system.policy;
  if (scenario.is_recorded_among_strangers) record.strangers = scenario.strangers;
  record.service.serve_passes = 0;
  record.service.pause_at = 0;
  if (scenario.system.records_alike) {
    record = scenario;
    record.system = System{.policy = scenario.system.policy, .config = scenario.system.config};
    record.bad_disk = BadDisk{};
    record.lost_events_in_100 = 0;
  }
  record.system.hook_s = scenario.system.hook_s;
  record.system.is_told = scenario.system.is_told;
  record.system.says_ready = scenario.system.says_ready;
  const Status read = ReadService(scenario.record, &record.service);
  if (!read) return read.error();
  return StartUp(record, seed + 1, directory).Run();
}

// Records on each of the service's machines; returns the last one's result.
Result<StartUpResult> Record(const Scenario& scenario, uint64_t seed,
                             const std::string& directory) {
  for (uint32_t node = 0; node + 1 < scenario.node_records.size(); ++node) {
    Result<StartUpResult> one = RecordOne(scenario, seed, directory, node);
    if (!one) return one;
  }
  const size_t last = std::max<size_t>(scenario.node_records.size(), 1) - 1;
  return RecordOne(scenario, seed, directory, static_cast<uint32_t>(last));
}

// Runs with everything in the cache before the start.
Result<StartUpResult> RunCached(const Scenario& scenario, uint64_t seed,
                                const std::string& directory) {
  Scenario cached = WithAllMemory(PlainScenario(scenario));
  cached.system.is_cached = true;
  cached.service.serve_passes = 0;
  // O_DIRECT reads bypass the cache, so compare with buffered ones.
  if (cached.service.mode == ReadMode::kDirect) cached.service.mode = ReadMode::kRead;
  return StartUp(cached, seed, directory).Run();
}

// Contract: rich = max(init + L0, S / b); with a limit init + max(L0, (S - M) / b), where M is the
// cache that init can fill.  A hook's lead is additional time to load; a second pass over files
// that do not fit reads the missing part again.
double Bound(const Scenario& s, const StartUpResult& run, const ServiceReport& cached) {
  const double b = s.disk.bytes_per_s;
  const double init = cached.init_s();
  const double load = cached.load_s();
  const auto need = static_cast<double>(run.needed - std::min(run.needed, run.at_zero));
  if (s.limit_share == 0) return std::max(init + load, need / b - s.system.lead_s);
  const double room =
      s.limit_share * static_cast<double>(run.model_bytes) + static_cast<double>(s.margin_bytes);
  const double filled = std::min(room, (init + s.system.lead_s) * b);
  const double again =
      (s.service.passes - 1) * std::max(0.0, static_cast<double>(run.needed) - room);
  return init + std::max(load, (need + again - filled) / b);
}

// When each directory's bytes have arrived if all active directories get equal parts of the disk;
// since the first start.
std::map<std::string, double> FairTimes(const Scenario& s, const StartUpResult& run) {
  struct Claim {
    double start_s;
    double left;
  };
  std::map<std::string, Claim> claims{{s.directory, {0, static_cast<double>(run.needed)}}};
  for (size_t i = 0; i < s.others.size(); ++i) {
    claims.try_emplace(OtherDirectory(s, i),
                       Claim{s.others[i].after_s, static_cast<double>(run.others[i].needed)});
  }
  std::map<std::string, double> ends;
  double now = 0;
  while (ends.size() < claims.size()) {
    const auto is_active = [&](const auto& entry) {
      return !ends.contains(entry.first) && entry.second.start_s <= now;
    };
    const auto active = std::count_if(claims.begin(), claims.end(), is_active);
    const double rate =
        s.disk.bytes_per_s / static_cast<double>(std::max<std::ptrdiff_t>(active, 1));
    double step = std::numeric_limits<double>::infinity();
    for (const auto& entry : claims) {
      if (is_active(entry)) step = std::min(step, entry.second.left / rate);
      if (entry.second.start_s > now) step = std::min(step, entry.second.start_s - now);
    }
    std::vector<std::string> done;
    for (auto& entry : claims) {
      if (!is_active(entry)) continue;
      entry.second.left -= rate * step;
      if (entry.second.left < 1) done.push_back(entry.first);
    }
    now += step;
    for (const std::string& directory : done) ends[directory] = now;
  }
  return ends;
}

// Adds how the other services fared (the worst counts), and how evenly services with models of
// their own shared the disk.
Status AddOthers(const Scenario& s, const StartUpResult& run, uint64_t seed,
                 const std::string& directory, std::map<std::string, double>* out) {
  double worst = (*out)["bound_ratio"];
  const std::map<std::string, double> fair = FairTimes(s, run);
  double worst_fair = (*out)["startup_s"] / std::max((*out)["bound_s"], fair.at(s.directory));
  for (size_t i = 0; i < s.others.size(); ++i) {
    const Scenario alone = AloneScenario(s, i);
    const Result<StartUpResult> cached = RunCached(alone, seed, directory);
    if (!cached) return cached.error();
    StartUpResult other;
    other.model_bytes = run.others[i].model_bytes;
    other.needed = run.others[i].needed;
    const double startup_s =
        static_cast<double>(run.others[i].report.ready_ns - run.others[i].zero_ns) / 1e9;
    const double bound = Bound(alone, other, cached->report);
    worst = std::max(worst, startup_s / bound);
    const double fair_s = fair.at(OtherDirectory(s, i)) - s.others[i].after_s;
    worst_fair = std::max(worst_fair, startup_s / std::max(bound, fair_s));
  }
  (*out)["worst_bound_ratio"] = worst;
  (*out)["worst_fair_ratio"] = worst_fair;
  uint64_t sum = 0;
  uint64_t least = ~uint64_t{0};
  for (const uint64_t bytes : run.read_by_first_ready) {
    sum += bytes;
    least = std::min(least, bytes);
  }
  (*out)["least_disk_share"] = Share(least * run.read_by_first_ready.size(), sum);
  return Ok();
}

// Runs the earlier starts.
Status Prepare(const Scenario& scenario, uint64_t seed, const std::string& directory) {
  if (scenario.system.records_first) {
    const Result<StartUpResult> recorded = Record(scenario, seed, directory);
    if (!recorded) return recorded.error();
  }
  for (size_t i = 0; scenario.system.records_first && i < scenario.others.size(); ++i) {
    const Result<StartUpResult> recorded = Record(AloneScenario(scenario, i), seed, directory);
    if (!recorded) return recorded.error();
  }
  for (uint32_t i = 0; i < scenario.system.starts_before; ++i) {
    const Result<StartUpResult> start =
        StartUp(WithAllMemory(scenario), seed + 2 + i, directory).Run();
    if (!start) return start.error();
  }
  return Ok();
}

// Compares with a run without strangers and without a shared store.
Status AddUndisturbed(const Scenario& scenario, const StartUpResult& run, uint64_t seed,
                      std::map<std::string, double>* out) {
  // Nor are they there during the recording.
  Scenario undisturbed = scenario;
  undisturbed.strangers.clear();
  undisturbed.system.config.erase("store");
  undisturbed.system.store_late_s = 0;
  undisturbed.system.is_store_lost = false;
  const TempDir apart;
  const Status prepared = Prepare(undisturbed, seed, apart.path());
  if (!prepared) return prepared.error();
  const Result<StartUpResult> other = StartUp(undisturbed, seed, apart.path()).Run();
  if (!other) return other.error();
  (*out)["undisturbed_disk_ratio"] = Share(run.disk.bytes, other->disk.bytes);
  (*out)["undisturbed_ratio"] =
      (*out)["startup_s"] / (static_cast<double>(other->report.ready_ns - other->zero_ns) / 1e9);
  return Ok();
}

// After the store went away in mid-write and is back: its contents, and how the next start fares.
Status AddNext(Scenario scenario, uint64_t seed, const std::string& directory,
               const std::string& store, std::map<std::string, double>* out) {
  scenario.system.is_store_lost = false;
  (*out)["store_cut_files"] = CutFilesIn(store);
  BringStoreBack(store);
  const StoredTemplates first = TemplatesInStore(store, directory);
  const Result<StartUpResult> next = StartUp(scenario, seed, directory).Run();
  if (!next) return next.error();
  const StoredTemplates then = TemplatesInStore(store, directory);
  (*out)["store_torn"] = first.torn + then.torn;
  (*out)["store_whole"] = then.whole;
  (*out)["next_startup_ratio"] =
      static_cast<double>(next->report.ready_ns - next->zero_ns) / 1e9 / (*out)["startup_s"];
  return Ok();
}

}  // namespace

Result<Comparison> CompareWithNative(const Scenario& scenario, uint64_t seed) {
  const TempDir directory;
  if (directory.path().empty()) return PosixError("make a temporary directory", errno);
  const Status prepared = Prepare(scenario, seed, directory.path());
  if (!prepared) return prepared.error();
  const Result<StartUpResult> native =
      StartUp(NativeScenario(scenario), seed, directory.path()).Run();
  // No result can be worse.
  if (!native && native.error().code == ETIMEDOUT) return Comparison{};
  if (!native) return native.error();
  StartUp start(scenario, seed, directory.path());
  start.SetLimits(kEndlessRatio * native->life_s + kEndlessS,
                  kEndlessRatio * native->life_disk.bytes + kEndlessBytes);
  const Result<StartUpResult> run = start.Run();
  if (!run) return run.error();
  return Compare(scenario, *run, *native);
}

Result<Outcome> RunScenario(const Scenario& scenario, uint64_t seed) {
  const TempDir directory;
  if (directory.path().empty()) return PosixError("make a temporary directory", errno);
  const Status prepared = Prepare(scenario, seed, directory.path());
  if (!prepared) return prepared.error();
  const std::string before = TemplatesIn(directory.path());
  const TempDir stores;
  const std::string store = stores.path() + "/store";
  Scenario measured = scenario;
  if (!ShareTemplates(directory.path(), store, &measured.system))
    return PosixError("make a store of templates", errno);
  Result<StartUpResult> run = StartUp(measured, seed, directory.path()).Run();
  if (!run) return run.error();
  const bool is_same = TemplatesIn(directory.path()) == before;
  const Result<StartUpResult> cached = RunCached(scenario, seed, directory.path());
  if (!cached) return cached.error();
  Outcome outcome;
  AddMetrics(scenario, *run, &outcome.metrics);
  AddMeasured(*run, &outcome.measured);
  auto& metrics = outcome.metrics;
  metrics["template_changed"] = is_same ? 0 : 1;
  if (scenario.system.is_store_lost) {
    const Status added = AddNext(measured, seed, directory.path(), store, &metrics);
    if (!added) return added.error();
  }
  metrics["cached_load_s"] = cached->report.load_s();
  metrics["bound_s"] = Bound(scenario, *run, cached->report);
  metrics["bound_ratio"] = metrics["startup_s"] / metrics["bound_s"];
  if (!scenario.others.empty()) {
    const Status added = AddOthers(scenario, *run, seed, directory.path(), &metrics);
    if (!added) return added.error();
  }
  if (scenario.expect.contains("undisturbed_ratio")) {
    const Status added = AddUndisturbed(scenario, *run, seed, &metrics);
    if (!added) return added.error();
  }
  const auto wants_native = [](const auto& e) {
    return e.first.starts_with("native_") || e.first.starts_with("harm_");
  };
  if (std::any_of(scenario.expect.begin(), scenario.expect.end(), wants_native)) {
    const Scenario native_scenario = NativeScenario(scenario);
    const Result<StartUpResult> native = StartUp(native_scenario, seed, directory.path()).Run();
    if (!native) return native.error();
    if (native->report.small_ns > 0)
      metrics["native_small_ratio"] =
          metrics["small_s"] * 1e9 / static_cast<double>(native->report.small_ns);
    metrics["native_load_ratio"] = metrics["load_s"] / native->report.load_s();
    metrics["native_startup_ratio"] =
        metrics["startup_s"] /
        (static_cast<double>(native->report.ready_ns - native->zero_ns) / 1e9);
    const Comparison both = Compare(scenario, *run, *native);
    metrics["native_life_ratio"] = both.time_ratio;
    metrics["native_bytes_ratio"] = both.bytes_ratio;
    metrics["harm_time_ratio"] = both.harm_time_ratio;
    metrics["harm_bytes_ratio"] = both.harm_bytes_ratio;
    metrics["native_requests_ratio"] = Share(run->life_disk.requests, native->life_disk.requests);
    metrics["native_failed_requests"] = static_cast<double>(native->failed_requests);
    if (!native->passes.empty()) {
      const auto sum = [](const std::vector<double>& passes) {
        return std::accumulate(passes.begin(), passes.end(), 0.0);
      };
      metrics["native_pass_ratio"] = sum(run->passes) / sum(native->passes);
      metrics["native_pass_s"] = sum(native->passes) / static_cast<double>(native->passes.size());
    }
    if (scenario.kv.is_on) {
      std::map<std::string, double> of_native;
      AddMetrics(native_scenario, *native, &of_native);
      metrics["native_stall_ratio"] = metrics["stall_s"] / of_native["stall_s"];
      metrics["native_disk_ratio"] = metrics["pass_disk_share"] / of_native["pass_disk_share"];
    }
  }
  outcome.series = std::move(run->series);
  outcome.policy_status = std::move(run->status);
  return outcome;
}

std::vector<Verdict> Judge(const Scenario& scenario, const Outcome& outcome) {
  std::vector<Verdict> verdicts;
  for (const auto& [metric, expected] : scenario.expect) {
    double value = std::nan("");
    for (const auto* known : {&outcome.metrics, &outcome.measured})
      if (const auto got = known->find(metric); got != known->end()) value = got->second;
    verdicts.push_back({metric, value, expected, value >= expected.min && value <= expected.max});
  }
  return verdicts;
}

}  // namespace ppc::sim
