// SPDX-License-Identifier: Apache-2.0
// On which NUMA node the pages lie that only this worker needs, asked of the kernel page by page
// (every 8th) just after they were copied.
// Threads: one.
#ifndef PPC_TOOLS_MODEL_LOADMODEL_PLACEMENT_H_
#define PPC_TOOLS_MODEL_LOADMODEL_PLACEMENT_H_

#include <cstdint>
#include <map>
#include <vector>

#include "tools/model/common/safetensors.h"

namespace ppc::bench {

struct PlacementCount {
  uint64_t sampled = 0;
  uint64_t right = 0;
  uint64_t wrong = 0;
  uint64_t absent = 0;  // not mapped any more when asked
  std::map<int, uint64_t> by_node;
};

class PlacementProbe {
 public:
  PlacementProbe(int wanted_node, uint32_t rank, uint32_t tp)
      : wanted_node_(wanted_node), rank_(rank), tp_(tp) {}

  void BeginShard(const ShardHeader& header);
  // The worker copied bytes at this file offset from `address`.  Asks about pages not seen before.
  void Copied(uint64_t offset, const uint8_t* address, uint64_t bytes);
  // Asks about what Copied noted; must be called before the shard is unmapped.
  void Flush();

  // Bytes on another node than the wanted one among those copied since the last call, estimated
  // from the pages asked about.
  uint64_t TakeRemoteBytes();

  const PlacementCount& count() const { return count_; }
  int wanted_node() const { return wanted_node_; }

 private:
  int wanted_node_;
  uint32_t rank_, tp_;
  std::vector<uint16_t> owners_;
  uint64_t next_page_ = 0;  // pages before it were looked at
  uint64_t exclusive_ = 0;  // exclusive pages seen, for taking every 8th
  std::vector<void*> batch_;
  PlacementCount count_;
  uint64_t wrong_taken_ = 0;  // of count_.wrong
};

}  // namespace ppc::bench

#endif  // PPC_TOOLS_MODEL_LOADMODEL_PLACEMENT_H_
