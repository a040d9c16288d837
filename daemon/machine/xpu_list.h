// SPDX-License-Identifier: Apache-2.0
// Owns finding the XPUs of this machine on its PCI buses.
#ifndef PPC_DAEMON_MACHINE_XPU_LIST_H_
#define PPC_DAEMON_MACHINE_XPU_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/cpu_set.h"
#include "daemon/machine/roots.h"

namespace ppc {

struct Xpu {
  std::string bdf;         // "0000:3b:00.0"
  uint32_t pci_class = 0;  // 24 bits: 0x030200
  uint16_t vendor = 0;
  int node = -1;               // NUMA node, -1 unknown
  CpuList local_cpus;          // used if node is -1
  bool shares_memory = false;  // allocates from the machine's memory, as sysfs tells of AMD's APUs
};

// The machine has accelerators, and all of them allocate from its memory.
bool ShareMemory(const std::vector<Xpu>& xpus);

// Display, 3D and processing accelerators.
bool IsXpuClass(uint32_t pci_class);

// Sorted by PCI address.  Console adapters of servers and virtual machines are left out, unless
// there is nothing else.
std::vector<Xpu> FindXpus(const SysRoots& roots);
std::vector<Xpu> SortXpus(std::vector<Xpu> all);

// Index in `xpus` of the device behind a device file (/dev/dri/renderD128, /dev/nvidia0,
// /dev/davinci0), -1 if none.
int XpuOfDeviceFile(const SysRoots& roots, const std::vector<Xpu>& xpus, const std::string& path);

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_XPU_LIST_H_
