// SPDX-License-Identifier: Apache-2.0
#include "sim/metrics.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/experts.h"

namespace ppc::sim {
namespace {

// The share of disk reads in the first half of the start-up.
double EarlyShare(const StartUpResult& run) {
  const double half_s = static_cast<double>(run.report.ready_ns - run.zero_ns) / 2e9;
  uint64_t early = 0;
  for (const Sample& sample : run.series) {
    if (sample.t_s <= half_s) early = sample.disk_bytes;
  }
  return run.series.empty() ? 0 : Share(early, run.series.back().disk_bytes);
}

// Belady's optimum reads so many bytes of whole models in this order; counted by MiB.
uint64_t LeastBytes(const Scenario& s, uint64_t model_bytes) {
  constexpr uint64_t kChunk = 1 << 20;
  const std::vector<uint32_t>& reads = s.service.reads;
  const uint64_t chunks = model_bytes / kChunk;
  const uint64_t room =
      static_cast<uint64_t>(s.limit_share * static_cast<double>(chunks)) + s.margin_bytes / kChunk;
  std::vector<uint64_t> uses;
  for (const uint32_t model : reads)
    for (uint64_t c = 0; c < chunks; ++c) uses.push_back(model * chunks + c);
  return LeastMisses(uses, room) * kChunk;
}

// The same of the tokens' experts, after a load of all of them.
uint64_t LeastBytesOfTokens(const Scenario& s, uint64_t model_bytes) {
  const uint64_t layers =
      s.folder.shards * (s.folder.shard_bytes / s.folder.tensor_bytes) / kPartsOfExpert;
  const uint64_t all = layers * s.folder.experts;
  const uint64_t each = s.folder.tensor_bytes / s.folder.experts * kPartsOfExpert;
  std::vector<uint64_t> uses(all);
  std::iota(uses.begin(), uses.end(), 0);
  for (const Token& token :
       ChooseExperts(s.service.serve_experts, layers, s.folder.experts, s.service.serve_passes)) {
    for (size_t layer = 0; layer < layers; ++layer)
      for (const uint64_t expert : token[layer]) uses.push_back(layer * s.folder.experts + expert);
  }
  const auto room =
      static_cast<uint64_t>(s.limit_share * static_cast<double>(model_bytes)) + s.margin_bytes;
  return (LeastMisses(uses, room / each) - all) * each;
}

}  // namespace

double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

void AddMetrics(const Scenario& s, const StartUpResult& run, std::map<std::string, double>* out) {
  auto& m = *out;
  const CacheStats& cache = run.cache;
  m["startup_s"] = static_cast<double>(run.report.ready_ns - run.zero_ns) / 1e9;
  m["load_s"] = run.report.load_s();
  m["small_s"] = static_cast<double>(run.report.small_ns) / 1e9;
  m["disk_share"] = Share(run.disk.bytes, run.model_bytes);
  m["requests"] = static_cast<double>(run.disk.requests);
  m["reread_share"] = Share(cache.reread, run.needed);
  m["unused_share"] = Share(run.unused, run.needed);
  m["redundant_share"] = Share(cache.reread + run.unused, run.needed);
  m["excess_reread_share"] =
      Share(cache.reread - std::min(cache.reread, run.report.lost), run.needed);
  m["refault_share"] = Share(cache.refaulted, cache.evicted);
  m["reclaimed_share"] = Share(cache.reclaimed, cache.read);
  m["limit_hits"] = static_cast<double>(cache.limit_hits);
  m["misplaced_share"] = Share(cache.misplaced, cache.exclusive);
  m["afar_share"] = Share(cache.used_afar, cache.used_alone);
  m["early_share"] = EarlyShare(run);
  const Json ready = run.status.is_object() ? run.status.value("ready", Json::object()) : Json();
  m["swaps"] = ready.is_object() ? ready.value("swaps", 0.0) : 0;
  m["unmatched_share"] = Share(run.demanded, run.needed);
  const uint64_t foreign = cache.charged[kRunnerPays] + cache.charged[kOthersPay];
  m["charged_share"] =
      Share(std::accumulate(cache.charged.begin(), cache.charged.end(), uint64_t{0}) - foreign,
            run.disk.bytes);
  m["foreign_share"] = Share(foreign, run.disk.bytes);
  m["threshold_share"] = run.threshold_share;
  m["peak_share"] = Share(cache.peak, run.model_bytes);
  m["again_s"] = run.again_s;
  m["life_s"] = run.life_s;
  if (s.folder.models > 0 && s.limit_share > 0 && !s.service.reads.empty())
    m["belady_ratio"] = Share(run.life_disk.bytes, LeastBytes(s, run.model_bytes));
  if (s.service.serve_experts.used > 0 && s.limit_share > 0)
    m["belady_ratio"] = Share(run.passes_bytes, LeastBytesOfTokens(s, run.model_bytes));
  m["life_disk_share"] = Share(run.life_disk.bytes, run.model_bytes);
  if (!run.passes.empty()) {
    m["pass_s"] = std::accumulate(run.passes.begin(), run.passes.end(), 0.0) /
                  static_cast<double>(run.passes.size());
  }
  m["failed_requests"] = static_cast<double>(run.failed_requests);
  m["read_errors"] = static_cast<double>(run.errors);
  m["again_disk_share"] = Share(run.again_bytes, run.model_bytes);
  m["restart_evicted_share"] = Share(run.restart_evicted, run.model_bytes);
  m["restart_disk_share"] = Share(run.restart_read, run.model_bytes);
  m["store_wait_s"] = run.store_wait_s;
  m["majflt"] = static_cast<double>(run.report.majflt);
  if (!s.kv.is_on) return;
  // The last pass: its stalls, and its time against the least that computing and the disk need; the
  // first object is waited for in any case.
  const double compute = s.kv.compute_s * s.kv.layers;
  const auto bytes = static_cast<double>(s.kv.bytes());
  const double first = static_cast<double>(s.disk.latency_ns) / 1e9 +
                       static_cast<double>(s.kv.object_bytes) / s.disk.bytes_per_s;
  m["stall_s"] = run.report.load_s() - compute;
  m["pass_bound_ratio"] =
      run.report.load_s() / std::max(compute + first, bytes / s.disk.bytes_per_s);
  m["pass_disk_share"] = Share(run.report.bytes, s.kv.bytes());
}

void AddMeasured(const StartUpResult& run, std::map<std::string, double>* out) {
  auto& m = *out;
  if (run.hooks.calls > 0) {
    m["hook_us_per_call"] =
        static_cast<double>(run.hooks.total_ns) / 1e3 / static_cast<double>(run.hooks.calls);
    m["hook_us_most"] = static_cast<double>(run.hooks.max_ns) / 1e3;
    m["hook_share"] = static_cast<double>(run.hooks.total_ns) / 1e9 / run.life_s;
  }
}

}  // namespace ppc::sim
