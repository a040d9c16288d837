// SPDX-License-Identifier: Apache-2.0
// Owns the states of several nodes: from etcd, where each node has a key under a lease, from files,
// or from the last successful look.
// Threads: one at a time.
#ifndef PPC_EXTRAS_PLACEMENT_CLUSTER_H_
#define PPC_EXTRAS_PLACEMENT_CLUSTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "extras/etcd/etcd.h"
#include "extras/placement/node_state.h"

namespace ppc::ctl {

inline constexpr const char* kUsualClusterPrefix = "/ppc/";

// "http://HOST:PORT[/PREFIX]", or the same after "etcd:" as in the setting `store`.
Result<EtcdPlace> ReadEtcdPlace(const std::string& url);
// Key of a node; EINVAL: it has a slash, or is empty or longer than 255.
Result<std::string> NodeKey(const EtcdPlace& place, const std::string& node);

struct Cluster {
  std::vector<NodeState> nodes;
  std::string source;                // "etcd", "files", "last known"
  std::string etcd_error;            // why the state is only the last known
  uint64_t age_s = 0;                // of the last known state
  std::vector<std::string> refused;  // one line for each malformed node
};

// All nodes with a live lease.  Malformed ones are left out and reported.
Result<Cluster> ClusterInEtcd(const EtcdPlace& place, uint32_t timeout_ms);
// Each file is the output of `ppcctl node --json`.
Result<Cluster> ClusterInFiles(const std::vector<std::string>& files);
// Writes `fresh` to `file` atomically; the caller reports a failure.
Status Remember(const std::string& file, const Cluster& fresh);
// ENOENT: no last known state.
Result<Cluster> Recall(const std::string& file, uint64_t now_s);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_PLACEMENT_CLUSTER_H_
