// SPDX-License-Identifier: Apache-2.0
// Owns what the variables that show a process only some XPUs (CUDA_VISIBLE_DEVICES and its kin)
// say about which XPU it uses.
#ifndef PPC_DAEMON_XPU_VISIBLE_DEVICES_H_
#define PPC_DAEMON_XPU_VISIBLE_DEVICES_H_

#include <optional>
#include <string>
#include <vector>

#include "daemon/machine/roots.h"
#include "daemon/machine/xpu_list.h"

namespace ppc {

struct VisibleDevices {
  std::string text;       // "CUDA_VISIBLE_DEVICES=2,3", "" if no such variable is set
  std::vector<int> xpus;  // indexes in the machine's list, in the process's order
};

// CUDA_VISIBLE_DEVICES (numbers or GPU-UUIDs), HIP_, ROCR_ and ASCEND_RT_VISIBLE_DEVICES.  A
// number counts the devices of the maker in the order of their PCI addresses.  As the makers'
// runtimes do, the list ends at the first entry that names nothing.
VisibleDevices ReadVisibleDevices(const SysRoots& roots, const std::vector<Xpu>& xpus,
                                  const std::string& environ_text);

}  // namespace ppc

#endif  // PPC_DAEMON_XPU_VISIBLE_DEVICES_H_
