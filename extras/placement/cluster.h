// SPDX-License-Identifier: Apache-2.0
// Owns what is known of several nodes: from etcd, where each keeps a key under a lease, from files,
// or what was known the last time.
// Threads: one at a time.
#ifndef PPC_EXTRAS_PLACEMENT_CLUSTER_H_
#define PPC_EXTRAS_PLACEMENT_CLUSTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "daemon/net/etcd.h"
#include "extras/placement/node_state.h"

namespace ppc::ctl {

inline constexpr const char* kUsualClusterPrefix = "/ppc/";

// "http://HOST:PORT[/PREFIX]", or the same behind "etcd:" as in the setting `store`.
Result<EtcdPlace> ReadEtcdPlace(const std::string& url);
// Key of a node; EINVAL: it has a slash, or is empty or longer than 255.
Result<std::string> NodeKey(const EtcdPlace& place, const std::string& node);

struct Cluster {
  std::vector<NodeState> nodes;
  std::string source;                // "etcd", "files", "last known"
  std::string etcd_error;            // why it is only what was known
  uint64_t age_s = 0;                // of what was known
  std::vector<std::string> refused;  // one line for each that is no node
};

// All nodes whose lease lives.  What is there that is none is left out and told.
Result<Cluster> ClusterInEtcd(const EtcdPlace& place, uint32_t timeout_ms);
// Each file is what `ppcctl node --json` printed.
Result<Cluster> ClusterInFiles(const std::vector<std::string>& files);
// `fresh` goes into `file`, in one step; the caller reports a failure.
Status Remember(const std::string& file, const Cluster& fresh);
// ENOENT: nothing was ever known.
Result<Cluster> Recall(const std::string& file, uint64_t now_s);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_PLACEMENT_CLUSTER_H_
