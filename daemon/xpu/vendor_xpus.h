// SPDX-License-Identifier: Apache-2.0
// Owns the interface to the vendors' libraries, which know the XPU that a process computes on.
// extras/vendors asks them.
// Threads: any; nothing here waits.
#ifndef PPC_DAEMON_XPU_VENDOR_XPUS_H_
#define PPC_DAEMON_XPU_VENDOR_XPUS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/machine/roots.h"
#include "daemon/machine/xpu_list.h"

namespace ppc {

class VendorXpus {
 public:
  struct Answer {
    int xpu = -1;      // index in the machine's list, -1 unknown
    std::string says;  // the evidence, or why there is no answer
  };

  virtual ~VendorXpus() = default;
  virtual Answer Nvml(int pid, uint64_t start_ns) const = 0;
  virtual Answer Dcmi(int pid, uint64_t start_ns) const = 0;
};

// nullptr: built without extras/vendors.
std::shared_ptr<const VendorXpus> OpenVendorXpus(const SysRoots& roots, std::vector<Xpu> xpus);

// Runs in a ppc-runner that was started with kAskXpusFlag LIBRARY; returns its exit status.
inline constexpr const char* kAskXpusFlag = "--ask-xpus";
int AskXpuLibrary(const std::string& library);

}  // namespace ppc

#endif  // PPC_DAEMON_XPU_VENDOR_XPUS_H_
