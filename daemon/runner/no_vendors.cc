// SPDX-License-Identifier: Apache-2.0
// In place of extras/vendors, where that is left out.
#include "daemon/wire/exit_codes.h"
#include "daemon/xpu/vendor_xpus.h"

namespace ppc {

std::shared_ptr<const VendorXpus> OpenVendorXpus(const SysRoots& /*roots*/,
                                                 std::vector<Xpu> /*xpus*/) {
  return nullptr;
}

int AskXpuLibrary(const std::string& /*library*/) { return kExitUsage; }

}  // namespace ppc
