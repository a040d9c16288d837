// SPDX-License-Identifier: Apache-2.0
// What loadmodel was asked to do; the same for the service and its workers.
// Threads: a plain value.
#ifndef PPC_TOOLS_MODEL_LOADMODEL_CONFIG_H_
#define PPC_TOOLS_MODEL_LOADMODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "tools/model/common/options.h"

namespace ppc::bench {

// One piece of the staging buffer: what a worker copies between two looks at the device.
inline constexpr uint64_t kPieceBytes = 1 << 20;
inline constexpr uint64_t kMaxStagingBytes = 16 << 20;

struct LoadConfig {
  std::string dir;
  uint32_t workers = 1;
  uint32_t tp = 1;
  uint32_t passes = 1;
  bool is_mmap = true;
  bool is_direct = false;
  double device_mbps = 0;  // MB/s (10^6) per worker; 0: takes no time
  double init_s = 0;
  uint64_t staging_bytes = 8 << 20;
  std::vector<int> nodes;  // node of worker i's XPU: nodes[i % size]; empty: unknown
  bool is_bound = false;   // run worker i on the CPUs of its node
  bool has_placement = false;
  double remote_cost = 1;  // modelled: time of the device per byte on another node than its own
  bool drops_shards = false;
  bool keeps_mapped = false;  // shards stay mapped until the load ends
  uint64_t shuffle = 0;    // seed of another order of the shards, the same for all workers; 0: none
  std::vector<int> ranks;  // whose slices worker i takes; empty: its own
  std::string ready_cmd;
  int worker = -1;  // >= 0: this process is that worker

  int NodeOf(uint32_t index) const { return nodes.empty() ? -1 : nodes[index % nodes.size()]; }
  uint32_t RankOf(uint32_t index) const {
    return (ranks.empty() ? index : static_cast<uint32_t>(ranks[index])) % tp;
  }
};

Result<LoadConfig> ParseLoadConfig(const Options& options);

// Names for Options::Parse.
const std::set<std::string>& LoadOptionNames();
const std::set<std::string>& LoadFlagNames();

}  // namespace ppc::bench

#endif  // PPC_TOOLS_MODEL_LOADMODEL_CONFIG_H_
