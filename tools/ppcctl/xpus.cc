// SPDX-License-Identifier: Apache-2.0
// ppcctl xpus: the accelerators of this machine; asks no daemon.
#include <array>
#include <cstdio>
#include <vector>

#include "daemon/base/cpu_set.h"
#include "daemon/machine/topology.h"
#include "tools/ppcctl/output.h"
#include "tools/ppcctl/text.h"
#include "tools/ppcctl/verbs.h"

namespace ppc::ctl {
namespace {

std::string Hex(unsigned value, int digits) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0x%0*x", digits, value);
  return text.data();
}

}  // namespace

int Xpus(const Args&) {
  const Result<Topology> machine = DetectTopology(TopologyOptions{RootsFromEnvironment(), ""});
  if (!machine) return Failed(machine.error());
  Json list = Json::array();
  std::vector<std::vector<std::string>> rows = {{"XPU", "ADDRESS", "VENDOR", "NODE", "CPUS"}};
  for (size_t i = 0; i < machine->xpus.size(); ++i) {
    const Xpu& xpu = machine->xpus[i];
    const std::string cpus = FormatCpuList(xpu.local_cpus);
    list.push_back({{"xpu", i},
                    {"bdf", xpu.bdf},
                    {"vendor", Hex(xpu.vendor, 4)},
                    {"class", Hex(xpu.pci_class, 6)},
                    {"node", xpu.node},
                    {"cpus", cpus}});
    rows.push_back({std::to_string(i), xpu.bdf, Hex(xpu.vendor, 4),
                    xpu.node < 0 ? "unknown" : std::to_string(xpu.node), cpus});
  }
  if (WantsJson()) {
    PrintJson({{"xpus", list}, {"nodes", machine->nodes.size()}});
  } else if (list.empty()) {
    std::printf("no XPU\n");
  } else {
    std::printf("%s", Table(rows).c_str());
  }
  return kExitOk;
}

}  // namespace ppc::ctl
