// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/topology.h"

#include <gtest/gtest.h>
#include <hwloc.h>

#include "tests/unit/has.h"
#include "tests/unit/temp_tree.h"

namespace ppc {
namespace {

void AddDevice(const TempTree& tree, const std::string& bdf, const std::string& pci_class, int node,
               const std::string& cpus, const std::string& vendor = "0x10de") {
  const std::string base = "/sys/bus/pci/devices/" + bdf;
  tree.Write(base + "/class", pci_class + "\n");
  tree.Write(base + "/vendor", vendor + "\n");
  tree.Write(base + "/numa_node", std::to_string(node) + "\n");
  tree.Write(base + "/local_cpulist", cpus + "\n");
}

void AddNodes(const TempTree& tree) {
  tree.Write("/sys/devices/system/node/online", "0-1\n");
  tree.Write("/sys/devices/system/node/node0/cpulist", "0-3\n");
  tree.Write("/sys/devices/system/node/node1/cpulist", "4-7\n");
}

TEST(Topology, XpusByPciAddressWithTheirNodes) {
  TempTree tree;
  AddNodes(tree);
  AddDevice(tree, "0000:00:02.0", "0x030000", -1, "0-7", "0x1a03");
  AddDevice(tree, "0000:81:00.0", "0x120000", 1, "4-7");
  AddDevice(tree, "0000:3b:00.0", "0x030200", 0, "0-3");
  AddDevice(tree, "0000:3c:00.0", "0x020000", 0, "0-3");  // a network card
  AddDevice(tree, "0000:82:00.0", "0x038000", -1, "4-7");
  const Topology topology = Value(DetectTopology({SysRoots{tree.Root(), ""}, ""}));
  ASSERT_EQ(topology.nodes.size(), 2u);
  EXPECT_EQ(topology.nodes[1].cpus, (CpuList{4, 5, 6, 7}));
  ASSERT_EQ(topology.xpus.size(), 3u);
  EXPECT_EQ(topology.xpus[0].bdf, "0000:3b:00.0");
  EXPECT_EQ(topology.NodeOfXpu(0), 0);
  EXPECT_EQ(topology.NodeOfXpu(1), 1);
  EXPECT_EQ(topology.NodeOfXpu(2), 1);  // by its CPUs
  EXPECT_EQ(topology.NodeOfXpu(3), -1);
  EXPECT_EQ(topology.NodeOfXpu(-1), -1);
}

TEST(Topology, ConsoleAdapterOnlyIfNothingElse) {
  TempTree tree;
  AddNodes(tree);
  AddDevice(tree, "0000:00:02.0", "0x030000", -1, "0-7", "0x1a03");
  const Result<Topology> topology = DetectTopology({SysRoots{tree.Root(), ""}, ""});
  ASSERT_EQ(topology->xpus.size(), 1u);
  EXPECT_EQ(topology->NodeOfXpu(0), -1);  // its CPUs are on both nodes
}

// A card with a monitor computes all the same.
TEST(Topology, ConsolesAreToldByTheirMaker) {
  TempTree tree;
  AddNodes(tree);
  AddDevice(tree, "0000:01:00.0", "0x030000", -1, "0-7");
  AddDevice(tree, "0000:02:00.0", "0x030000", -1, "0-7");
  AddDevice(tree, "0000:05:00.0", "0x030000", 0, "0-3", "0x1a03");  // a server's, with a node
  AddDevice(tree, "0000:06:00.0", "0x030000", 0, "0-3", "0x19e5");
  AddDevice(tree, "0000:c1:00.0", "0x120000", 1, "4-7", "0x19e5");
  const Result<Topology> topology = DetectTopology({SysRoots{tree.Root(), ""}, ""});
  ASSERT_EQ(topology->xpus.size(), 3u);
  EXPECT_EQ(topology->xpus[0].bdf, "0000:01:00.0");
  EXPECT_EQ(topology->xpus[1].bdf, "0000:02:00.0");
  EXPECT_EQ(topology->xpus[2].bdf, "0000:c1:00.0");
  const SysRoots roots{tree.Root(), ""};
  EXPECT_EQ(XpuOfDeviceFile(roots, topology->xpus, "/dev/davinci0"), 2);
}

TEST(Topology, AnApuSharesTheMachinesMemory) {
  TempTree tree;
  AddNodes(tree);
  AddDevice(tree, "0000:00:02.0", "0x030000", -1, "0-7", "0x1a03");
  AddDevice(tree, "0000:c5:00.0", "0x038000", -1, "0-7", "0x1002");
  const auto do_share = [&tree] {
    return ShareMemory(Value(DetectTopology({SysRoots{tree.Root(), ""}, ""})).xpus);
  };
  EXPECT_FALSE(do_share());
  const std::string hwmon = "/sys/bus/pci/devices/0000:c5:00.0/hwmon/hwmon3";
  tree.Write(hwmon + "/in0_label", "vddgfx\n");
  EXPECT_FALSE(do_share());
  tree.Write(hwmon + "/in1_label", "vddnb\n");
  EXPECT_TRUE(do_share());
  // A card beside it has memory of its own, and computes.
  AddDevice(tree, "0000:01:00.0", "0x030200", -1, "0-7");
  EXPECT_FALSE(do_share());
  EXPECT_FALSE(ShareMemory({}));
}

// Writes the topology that hwloc makes of a description; returns the file's path.
std::string ExportXml(const TempTree& tree, const char* description) {
  hwloc_topology_t made = nullptr;
  EXPECT_EQ(hwloc_topology_init(&made), 0);
  EXPECT_EQ(hwloc_topology_set_synthetic(made, description), 0);
  EXPECT_EQ(hwloc_topology_load(made), 0);
  std::string xml = tree.Path("/topology.xml");
  EXPECT_EQ(hwloc_topology_export_xml(made, xml.c_str(), 0), 0);
  hwloc_topology_destroy(made);
  return xml;
}

TEST(Topology, FromHwlocXml) {
  TempTree tree;
  const std::string xml = ExportXml(tree, "numa:4 core:8 pu:1");
  const Topology topology = Value(DetectTopology({SysRoots{}, xml}));
  ASSERT_EQ(topology.nodes.size(), 4u);
  EXPECT_EQ(topology.nodes[2].cpus.size(), 8u);
  EXPECT_EQ(topology.NodeOfCpu(17), 2);
  EXPECT_TRUE(topology.xpus.empty());
}

// hwloc shows the memory that lies beside a package with the package's CPUs.
TEST(Topology, AMemoryOnlyNodeHasNoCpus) {
  TempTree tree;
  const std::string xml = ExportXml(tree, "pack:2 [numa] [numa] core:2 pu:1");
  const Result<Topology> shown = DetectTopology({SysRoots{}, xml});
  ASSERT_EQ(shown->nodes.size(), 4u);
  for (const NumaNode& node : shown->nodes) EXPECT_EQ(node.cpus.size(), 2u) << node.id;
  const CpuList cpus = shown->nodes[0].cpus;
  tree.Write("/sys/devices/system/node/node0/cpulist", FormatCpuList(cpus) + ",900\n");
  tree.Write("/sys/devices/system/node/node1/cpulist", "\n");
  const Result<Topology> own = DetectTopology({SysRoots{tree.Root(), ""}, xml});
  ASSERT_EQ(own->nodes.size(), 4u);
  EXPECT_EQ(own->nodes[0].cpus, cpus);  // hwloc leaves out those that are not ours to use
  EXPECT_TRUE(own->nodes[1].cpus.empty());
  EXPECT_EQ(own->nodes[2].cpus.size(), 2u);  // sysfs does not know it
}

TEST(Topology, NodesBeyondTheTablesAreLeftOut) {
  TempTree tree;
  AddNodes(tree);
  tree.Write("/sys/devices/system/node/online", "0-1,63-64,200\n");
  const Result<Topology> topology = DetectTopology({SysRoots{tree.Root(), ""}, ""});
  ASSERT_EQ(topology->nodes.size(), 3u);
  EXPECT_EQ(topology->nodes.back().id, kMaxNodes - 1);
  tree.Write("/sys/devices/system/node/online", "64\n");
  const Result<Topology> none = DetectTopology({SysRoots{tree.Root(), ""}, ""});
  ASSERT_EQ(none->nodes.size(), 1u);
  EXPECT_EQ(none->nodes[0].id, 0);
}

TEST(Topology, ThisMachine) { EXPECT_FALSE(Value(DetectTopology({})).nodes.empty()); }

TEST(Topology, BadXmlIsAnError) { EXPECT_FALSE(DetectTopology({SysRoots{}, "/absent.xml"}).ok()); }

}  // namespace
}  // namespace ppc
