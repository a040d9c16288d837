// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/topology.h"

#include <hwloc.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <type_traits>

#include "daemon/machine/proc_info.h"

namespace ppc {
namespace {

struct DestroyTopology {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocPtr = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, DestroyTopology>;

CpuList ToCpuList(hwloc_const_bitmap_t set) {
  CpuList cpus;
  for (int cpu = hwloc_bitmap_first(set); cpu != -1; cpu = hwloc_bitmap_next(set, cpu)) {
    cpus.push_back(cpu);
  }
  return cpus;
}

Result<HwlocPtr> LoadHwloc(const TopologyOptions& options) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return Error{ENOMEM, "hwloc: no topology"};
  HwlocPtr topology(raw);
  if (!options.hwloc_xml.empty()) {
    if (hwloc_topology_set_xml(raw, options.hwloc_xml.c_str()) != 0) {
      return Error{EINVAL, options.hwloc_xml + " is not an hwloc XML topology"};
    }
    hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  } else {
    // Only nodes and CPUs: finding PCI devices is cheaper through sysfs.
    hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_cache_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  }
  if (hwloc_topology_load(raw) != 0) return Error{EINVAL, "hwloc cannot load the topology"};
  return topology;
}

std::vector<NumaNode> NodesOf(hwloc_topology_t topology) {
  std::vector<NumaNode> nodes;
  hwloc_obj_t node = nullptr;
  while ((node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr) {
    nodes.push_back(NumaNode{static_cast<int>(node->os_index), ToCpuList(node->cpuset)});
  }
  std::sort(nodes.begin(), nodes.end(),
            [](const NumaNode& a, const NumaNode& b) { return a.id < b.id; });
  return nodes;
}

std::vector<Xpu> XpusOf(hwloc_topology_t topology) {
  std::vector<Xpu> xpus;
  hwloc_obj_t device = nullptr;
  while ((device = hwloc_get_next_pcidev(topology, device)) != nullptr) {
    const auto& pci = device->attr->pcidev;
    Xpu xpu;
    xpu.pci_class = static_cast<uint32_t>(pci.class_id) << 8;
    if (!IsXpuClass(xpu.pci_class)) continue;
    char bdf[32];
    std::snprintf(bdf, sizeof(bdf), "%04x:%02x:%02x.%x", static_cast<unsigned>(pci.domain),
                  static_cast<unsigned>(pci.bus), static_cast<unsigned>(pci.dev),
                  static_cast<unsigned>(pci.func));
    xpu.bdf = bdf;
    xpu.vendor = pci.vendor_id;
    const hwloc_obj_t near = hwloc_get_non_io_ancestor_obj(topology, device);
    if (near != nullptr && near->nodeset != nullptr && hwloc_bitmap_weight(near->nodeset) == 1) {
      xpu.node = hwloc_bitmap_first(near->nodeset);
    }
    xpus.push_back(std::move(xpu));
  }
  return SortXpus(std::move(xpus));
}

// CPUs in sysfs; nothing if sysfs does not know the node.
std::optional<CpuList> CpusOfNode(const SysRoots& roots, int id) {
  const Result<std::string> text =
      ReadLine(roots.Sys("/devices/system/node/node" + std::to_string(id) + "/cpulist"));
  if (!text) return std::nullopt;
  const Result<CpuList> cpus = ParseCpuList(*text);
  return cpus ? std::optional<CpuList>(*cpus) : std::nullopt;
}

// hwloc gives a node without CPUs (CXL, HBM, a device's memory) the CPUs near it.
void KeepOwnCpus(const SysRoots& roots, std::vector<NumaNode>* nodes) {
  for (NumaNode& node : *nodes) {
    const std::optional<CpuList> own = CpusOfNode(roots, node.id);
    if (own) node.cpus = Intersect(node.cpus, *own);
  }
}

// hwloc cannot examine the machine behind an injected /sys.
std::vector<NumaNode> NodesFromSysfs(const SysRoots& roots) {
  std::vector<NumaNode> nodes;
  const Result<std::string> online = ReadLine(roots.Sys("/devices/system/node/online"));
  if (!online) return nodes;
  const Result<CpuList> ids = ParseCpuList(*online);
  if (!ids) return nodes;
  for (const int id : *ids) {
    nodes.push_back(NumaNode{id, CpusOfNode(roots, id).value_or(CpuList())});
  }
  return nodes;
}

// A device without a node but with nearby CPUs belongs to these CPUs' node, if they are on one.
void GuessNodes(Topology* topology) {
  for (Xpu& xpu : topology->xpus) {
    if (xpu.node >= 0 || xpu.local_cpus.empty()) continue;
    const int node = topology->NodeOfCpu(xpu.local_cpus.front());
    const bool one_node = std::all_of(xpu.local_cpus.begin(), xpu.local_cpus.end(),
                                      [&](int cpu) { return topology->NodeOfCpu(cpu) == node; });
    if (one_node) xpu.node = node;
  }
}

}  // namespace

int Topology::NodeOfXpu(int xpu) const {
  if (xpu < 0 || static_cast<size_t>(xpu) >= xpus.size()) return -1;
  return xpus[static_cast<size_t>(xpu)].node;
}

int Topology::NodeOfCpu(int cpu) const {
  for (const NumaNode& node : nodes) {
    if (std::binary_search(node.cpus.begin(), node.cpus.end(), cpu)) return node.id;
  }
  return -1;
}

std::optional<int> NodeOfThreads(const SysRoots& roots, int pid, const Topology& machine) {
  const ThreadPlaces places = PlacesOfThreads(roots, pid);
  if (places.mems.size() == 1) return places.mems.front();
  if (places.cpus.empty()) return std::nullopt;
  const int node = machine.NodeOfCpu(places.cpus.front());
  const bool is_one = std::all_of(places.cpus.begin(), places.cpus.end(),
                                  [&](int cpu) { return machine.NodeOfCpu(cpu) == node; });
  return is_one && node >= 0 ? std::optional<int>(node) : std::nullopt;
}

Result<Topology> DetectTopology(const TopologyOptions& options) {
  Topology topology;
  const bool injected = !options.roots.sys.empty() && options.hwloc_xml.empty();
  if (injected) {
    topology.nodes = NodesFromSysfs(options.roots);
  } else {
    Result<HwlocPtr> hwloc = LoadHwloc(options);
    if (!hwloc) return hwloc.error();
    topology.nodes = NodesOf(hwloc->get());
    if (!options.hwloc_xml.empty()) topology.xpus = XpusOf(hwloc->get());
    // This machine's sysfs does not fit an exported topology, unless given with it.
    if (options.hwloc_xml.empty() || !options.roots.sys.empty()) {
      KeepOwnCpus(options.roots, &topology.nodes);
    }
  }
  std::erase_if(topology.nodes, [](const NumaNode& node) { return node.id >= kMaxNodes; });
  if (topology.nodes.empty()) topology.nodes.push_back(NumaNode{0, AllowedCpus()});
  if (options.hwloc_xml.empty()) topology.xpus = FindXpus(options.roots);
  GuessNodes(&topology);
  return topology;
}

}  // namespace ppc
