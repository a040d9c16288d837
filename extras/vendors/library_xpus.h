// SPDX-License-Identifier: Apache-2.0
// Owns the XPU that a process computes on, from the vendors' libraries: NVML if there is an NVIDIA
// device, DCMI if there is a Huawei one.
// Threads: any; nothing here waits.
#ifndef PPC_EXTRAS_VENDORS_LIBRARY_XPUS_H_
#define PPC_EXTRAS_VENDORS_LIBRARY_XPUS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/xpu/vendor_xpus.h"
#include "extras/vendors/xpu_query.h"

namespace ppc {

class LibraryXpus : public VendorXpus {
 public:
  // `query`: all but the library.
  LibraryXpus(const SysRoots& roots, std::vector<Xpu> xpus, const XpuQuery::Options& query = {});

  // From the newest listing; a process that computes on several devices has no answer.
  Answer Nvml(int pid, uint64_t start_ns) const override { return Ask(nvml_, pid, start_ns); }
  Answer Dcmi(int pid, uint64_t start_ns) const override { return Ask(dcmi_, pid, start_ns); }

 private:
  struct Source {
    std::unique_ptr<XpuQuery> query;  // nullptr: no such device
    std::string why_not;
  };
  Source MakeSource(const char* library, uint16_t vendor, XpuQuery::Options query) const;
  Answer Ask(const Source& source, int pid, uint64_t start_ns) const;

  const std::vector<Xpu> xpus_;
  const bool is_host_;  // process numbers here are the host's
  const Source nvml_;
  const Source dcmi_;
};

}  // namespace ppc

#endif  // PPC_EXTRAS_VENDORS_LIBRARY_XPUS_H_
