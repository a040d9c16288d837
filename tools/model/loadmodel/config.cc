// SPDX-License-Identifier: Apache-2.0
// What loadmodel was asked to do; the same for the service and its workers.
// Threads: free functions without state.
#include "tools/model/loadmodel/config.h"

#include <algorithm>
#include <cerrno>
#include <sstream>

namespace ppc::bench {
namespace {

Error Bad(const std::string& message) { return Error{EINVAL, message}; }

Result<std::vector<int>> ParseNumberList(const std::string& name, const std::string& text,
                                         const std::string& what) {
  std::vector<int> numbers;
  const Error wrong =
      Bad("--" + name + " '" + text + "' is not a list of " + what + " such as 0,1");
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    if (part.empty() || part.find_first_not_of("0123456789") != std::string::npos ||
        part.size() > 4)
      return wrong;
    numbers.push_back(std::stoi(part));
  }
  if (numbers.empty()) return wrong;
  return numbers;
}

Status ParseRanks(const std::string& text, LoadConfig* config) {
  Result<std::vector<int>> ranks = ParseNumberList("ranks", text, "ranks");
  if (!ranks.ok()) return ranks.error();
  std::vector<int> sorted = *ranks;
  std::sort(sorted.begin(), sorted.end());
  const bool are_different = std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
  const uint32_t most = std::max(config->workers, config->tp);
  if (sorted.size() != config->workers || !are_different ||
      static_cast<uint32_t>(sorted.back()) >= most) {
    return Bad("--ranks '" + text + "' must name a rank below " + std::to_string(most) +
               " for each of the " + std::to_string(config->workers) + " workers, none twice");
  }
  config->ranks = *ranks;
  return Ok();
}

Result<uint32_t> Count(const Options& options, const std::string& name, uint32_t fallback,
                       uint32_t max) {
  Result<uint64_t> value = options.Number(name, fallback);
  if (!value.ok()) return value.error();
  if (*value < 1 || *value > max)
    return Bad("--" + name + " must be between 1 and " + std::to_string(max));
  return static_cast<uint32_t>(*value);
}

Status ParseNumbers(const Options& options, LoadConfig* config) {
  Result<uint32_t> workers = Count(options, "workers", 1, 256);
  if (!workers.ok()) return workers.error();
  Result<uint32_t> tp = Count(options, "tp", *workers, 256);
  if (!tp.ok()) return tp.error();
  // With --ranks the others may be on other nodes.
  if (*workers % *tp != 0 && !(*workers < *tp && options.Has("ranks")))
    return Bad("--workers " + std::to_string(*workers) + " is not a multiple of --tp " +
               std::to_string(*tp));
  Result<uint32_t> passes = Count(options, "passes", 1, 1000);
  if (!passes.ok()) return passes.error();
  Result<double> device = options.Real("device-mbps", 0);
  if (!device.ok()) return device.error();
  Result<double> init = options.Real("init-s", 0);
  if (!init.ok()) return init.error();
  Result<uint64_t> staging = options.Size("staging", config->staging_bytes);
  if (!staging.ok()) return staging.error();
  if (*staging < kPieceBytes || *staging > kMaxStagingBytes)
    return Bad("--staging must be between 1M and 16M");
  config->workers = *workers;
  config->tp = *tp;
  config->passes = *passes;
  config->device_mbps = *device;
  config->init_s = *init;
  config->staging_bytes = *staging / kPieceBytes * kPieceBytes;
  return Ok();
}

}  // namespace

const std::set<std::string>& LoadOptionNames() {
  static const std::set<std::string> names{
      "workers", "tp",     "mode",      "device-mbps", "init-s",      "staging", "xpu-nodes",
      "bind",    "passes", "ready-cmd", "worker",      "remote-cost", "shuffle", "ranks"};
  return names;
}

const std::set<std::string>& LoadFlagNames() {
  static const std::set<std::string> names{"direct", "placement", "drop-shards", "keep-mapped",
                                           "help"};
  return names;
}

Result<LoadConfig> ParseLoadConfig(const Options& options) {
  LoadConfig config;
  if (options.words().size() != 1) return Bad("give one model directory; see --help");
  config.dir = options.words()[0];
  while (config.dir.size() > 1 && config.dir.back() == '/') config.dir.pop_back();
  const Status numbers = ParseNumbers(options, &config);
  if (!numbers.ok()) return numbers.error();
  const std::string mode = options.Text("mode", "mmap");
  if (mode != "mmap" && mode != "read") return Bad("--mode '" + mode + "' is not mmap or read");
  config.is_mmap = mode == "mmap";
  config.is_direct = options.Has("direct");
  if (config.is_direct && config.is_mmap) return Bad("--direct needs --mode read");
  config.is_bound = options.Has("bind");
  for (const char* name : {"xpu-nodes", "bind"}) {
    if (!options.Has(name)) continue;
    Result<std::vector<int>> nodes = ParseNumberList(name, options.Text(name, ""), "NUMA nodes");
    if (!nodes.ok()) return nodes.error();
    config.nodes = *nodes;
  }
  config.has_placement = options.Has("placement");
  if (config.has_placement && config.nodes.empty())
    return Bad("--placement needs --xpu-nodes or --bind: the node of each worker's XPU");
  if (config.has_placement && !config.is_mmap)
    return Bad("--placement needs --mode mmap: only mapped pages tell their node");
  Result<double> remote_cost = options.Real("remote-cost", 1);
  if (!remote_cost.ok()) return remote_cost.error();
  if (*remote_cost < 1) return Bad("--remote-cost must be at least 1");
  if (*remote_cost > 1 && !config.has_placement)
    return Bad("--remote-cost needs --placement: it asks where the pages lie");
  config.remote_cost = *remote_cost;
  config.drops_shards = options.Has("drop-shards");
  config.keeps_mapped = options.Has("keep-mapped");
  if (config.keeps_mapped && !config.is_mmap) return Bad("--keep-mapped needs --mode mmap");
  Result<uint64_t> shuffle = options.Number("shuffle", 0);
  if (!shuffle.ok()) return shuffle.error();
  config.shuffle = *shuffle;
  if (options.Has("ranks")) {
    const Status ranks = ParseRanks(options.Text("ranks", ""), &config);
    if (!ranks.ok()) return ranks.error();
  }
  config.ready_cmd = options.Text("ready-cmd", "");
  Result<uint64_t> worker = options.Number("worker", config.workers);
  if (!worker.ok()) return worker.error();
  if (options.Has("worker") && *worker >= config.workers) return Bad("--worker is out of range");
  config.worker = options.Has("worker") ? static_cast<int>(*worker) : -1;
  return config;
}

}  // namespace ppc::bench
