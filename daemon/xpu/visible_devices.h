// SPDX-License-Identifier: Apache-2.0
// Owns parsing the variables that restrict a process to some XPUs (CUDA_VISIBLE_DEVICES and its
// kin).
#ifndef PPC_DAEMON_XPU_VISIBLE_DEVICES_H_
#define PPC_DAEMON_XPU_VISIBLE_DEVICES_H_

#include <optional>
#include <string>
#include <vector>

#include "daemon/machine/roots.h"
#include "daemon/machine/xpu_list.h"

namespace ppc {

struct VisibleDevices {
  std::string text;       // "CUDA_VISIBLE_DEVICES=2,3", "" if no variable is set
  std::vector<int> xpus;  // indexes in the machine's list, in the process's order
};

// CUDA_VISIBLE_DEVICES (numbers or GPU-UUIDs), HIP_, ROCR_ and ASCEND_RT_VISIBLE_DEVICES.  A number
// counts the vendor's devices in the order of their PCI addresses.  As in the vendors' runtimes,
// the list ends at the first entry that names no device.
VisibleDevices ReadVisibleDevices(const SysRoots& roots, const std::vector<Xpu>& xpus,
                                  const std::string& environ_text);

}  // namespace ppc

#endif  // PPC_DAEMON_XPU_VISIBLE_DEVICES_H_
