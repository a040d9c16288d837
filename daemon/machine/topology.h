// SPDX-License-Identifier: Apache-2.0
// Owns the machine's topology: NUMA nodes with their CPUs, and the list of XPUs (accelerators) with
// the nearest node of each.  Paper: section 3.2.
#ifndef PPC_DAEMON_MACHINE_TOPOLOGY_H_
#define PPC_DAEMON_MACHINE_TOPOLOGY_H_

#include <optional>
#include <string>
#include <vector>

#include "daemon/base/cpu_set.h"
#include "daemon/base/result.h"
#include "daemon/machine/roots.h"
#include "daemon/machine/xpu_list.h"

namespace ppc {

inline constexpr int kMaxNodes = 64;

struct NumaNode {
  int id = 0;    // below kMaxNodes
  CpuList cpus;  // only its own; empty: memory only
};

struct Topology {
  std::vector<NumaNode> nodes;  // by id
  std::vector<Xpu> xpus;        // by PCI address; the index is the XPU's number

  int NodeOfXpu(int xpu) const;  // -1 unknown
  int NodeOfCpu(int cpu) const;  // -1 unknown
};

struct TopologyOptions {
  SysRoots roots;
  std::string hwloc_xml;  // path of an exported topology to use instead of this machine's
};

// The node that all threads of a process are bound to, by their CPUs or memory nodes; nothing if
// they may use several.
std::optional<int> NodeOfThreads(const SysRoots& roots, int pid, const Topology& machine);

// Nodes from kMaxNodes on are left out.
Result<Topology> DetectTopology(const TopologyOptions& options);

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_TOPOLOGY_H_
