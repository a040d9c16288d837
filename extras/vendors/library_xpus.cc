// SPDX-License-Identifier: Apache-2.0
#include "extras/vendors/library_xpus.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "daemon/base/files.h"

namespace ppc {
namespace {

constexpr uint16_t kVendorNvidia = 0x10de;
constexpr uint16_t kVendorHuawei = 0x19e5;

// The libraries return process numbers of the host; some driver releases translate them.  The
// kernel gives the initial pid namespace this inode number.
bool IsHostNamespace(const SysRoots& roots) {
  return LinkTarget(roots.Proc("/self/ns/pid")) == "pid:[4026531836]";
}

}  // namespace

std::shared_ptr<const VendorXpus> OpenVendorXpus(const SysRoots& roots, std::vector<Xpu> xpus) {
  return std::make_shared<LibraryXpus>(roots, std::move(xpus));
}

LibraryXpus::LibraryXpus(const SysRoots& roots, std::vector<Xpu> xpus,
                         const XpuQuery::Options& query)
    : xpus_(std::move(xpus)),
      is_host_(IsHostNamespace(roots)),
      nvml_(MakeSource(kNvmlName, kVendorNvidia, query)),
      dcmi_(MakeSource(kDcmiName, kVendorHuawei, query)) {}

LibraryXpus::Source LibraryXpus::MakeSource(const char* library, uint16_t vendor,
                                            XpuQuery::Options query) const {
  Source source;
  const bool has_device =
      std::any_of(xpus_.begin(), xpus_.end(), [&](const Xpu& xpu) { return xpu.vendor == vendor; });
  if (!has_device) {
    source.why_not = "no device of its maker is here";
  } else if (!is_host_) {
    source.why_not = "process numbers here are not the host's";
  } else {
    query.library = library;
    source.query = std::make_unique<XpuQuery>(std::move(query));
  }
  return source;
}

LibraryXpus::Answer LibraryXpus::Ask(const Source& source, int pid, uint64_t start_ns) const {
  if (source.query == nullptr) return {-1, source.why_not};
  const std::shared_ptr<const XpuListing> listing = source.query->Latest();
  if (!listing->problem.empty()) return {-1, listing->problem};
  // The number may have been another process's at that time.
  if (start_ns > listing->boot_ns) return {-1, "was asked before the process began"};
  const XpuUse* found = nullptr;
  for (const XpuUse& use : listing->devices) {
    if (std::find(use.pids.begin(), use.pids.end(), pid) == use.pids.end()) continue;
    if (found != nullptr && found->bdf != use.bdf) return {-1, "it computes on several devices"};
    found = &use;
  }
  const std::string silent =
      listing->silent == 0 ? "" : "; silent devices: " + std::to_string(listing->silent);
  if (found == nullptr) return {-1, "it computes on no device" + silent};
  const auto xpu = std::find_if(xpus_.begin(), xpus_.end(),
                                [&](const Xpu& one) { return one.bdf == found->bdf; });
  std::string says = "it computes on " + found->bdf;
  if (!found->uuid.empty()) says += " (" + found->uuid + ")";
  if (xpu == xpus_.end()) return {-1, says + ", which is not among the XPUs here" + silent};
  return {static_cast<int>(xpu - xpus_.begin()), says + silent};
}

}  // namespace ppc
