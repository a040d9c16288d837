// SPDX-License-Identifier: Apache-2.0
// Owns a node's state and its models' as JSON, and scoring nodes by it.
// Threads: pure functions, any thread.
#ifndef PPC_EXTRAS_PLACEMENT_NODE_STATE_H_
#define PPC_EXTRAS_PLACEMENT_NODE_STATE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "extras/placement/include/ppc/place.h"

namespace ppc::ctl {

struct ModelState {
  std::string name;  // ORG/NAME of a hub, else the last component of its path
  std::string path;
  std::string directory;  // registered
  uint64_t bytes = 0;
  uint64_t resident = 0;            // of them, in the page cache
  std::map<int, uint64_t> by_node;  // by NUMA node; on ppc mounts only
  bool has_template = false;
  bool has_artifacts = false;

  bool operator==(const ModelState&) const = default;
};

// A start-up under way.
struct StartState {
  std::string service_id;
  std::string directory;
  uint64_t left = 0;  // bytes; 0 = not known

  bool operator==(const StartState&) const = default;
};

struct NodeState {
  std::string name;
  uint64_t memory = 0;                         // bytes of page cache that models may use at all
  uint64_t free = 0;                           // of these, without evicting another model
  std::map<std::string, uint64_t> disk_rates;  // by registered directory, bytes a second
  std::vector<ModelState> models;
  std::vector<StartState> starts;

  bool operator==(const NodeState&) const = default;
};

Json ToJson(const NodeState& node);
// Whether a change is worth publishing: memory changes a little all the time, and etcd keeps old
// values of a key until it is compacted.
bool IsNews(const NodeState& told, const NodeState& now);
// EINVAL: one line with the problem; `what` names the text.
Result<NodeState> NodeFromJson(const Json& json, const std::string& what);

// The model by name, path, or last component of a path; nullptr: not on this node.
const ModelState* FindModelOf(const NodeState& node, const std::string& wanted);

ppc_place_node PlaceNodeOf(const NodeState& node, const std::string& model);

// "no template, 2 other start-ups read"; from ppc_place_result.reasons.
std::string ReasonText(uint32_t reasons);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_PLACEMENT_NODE_STATE_H_
