// SPDX-License-Identifier: Apache-2.0
// Owns how the loader's threads lie over a machine: how many each NUMA node has, on which cores,
// and who loads what is for no node. Threads: any; it does not change. Paper: section 3.2 (loader:
// core-bound pool, XPU affinity).
#ifndef PPC_DAEMON_CACHE_LOADER_LAYOUT_H_
#define PPC_DAEMON_CACHE_LOADER_LAYOUT_H_

#include <vector>

#include "daemon/base/cpu_set.h"
#include "daemon/machine/topology.h"

namespace ppc {

class LoaderLayout {
 public:
  struct Thread {
    int node = 0;
    CpuList cpus;  // one core; empty: any
  };

  // per_node: threads of each node; 0 = clamp(its CPUs / 4, least, most_of_node).
  LoaderLayout(const std::vector<NumaNode>& nodes, int per_node, int least, int most_of_node = 16);

  // One more than the highest number of a node.
  int Nodes() const { return static_cast<int>(has_threads_.size()); }
  // Nodes in turn: where only the first few threads may load, every node has some of them.
  const std::vector<Thread>& Threads() const { return threads_; }
  bool HasThreads(int node) const { return has_threads_[static_cast<size_t>(node)]; }
  // Whether the node's threads load what is for no node, too.
  bool TakesAny(int node) const { return takes_any_[static_cast<size_t>(node)]; }
  // Where a thread that is bound to no core should be: the nodes that take any, in turn.
  int NodeInTurn(size_t index) const { return any_[index % any_.size()]; }

 private:
  std::vector<Thread> threads_;
  std::vector<bool> has_threads_;  // by node
  std::vector<bool> takes_any_;    // by node
  std::vector<int> any_;           // those nodes
};

}  // namespace ppc

#endif  // PPC_DAEMON_CACHE_LOADER_LAYOUT_H_
