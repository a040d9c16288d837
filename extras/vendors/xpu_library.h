// SPDX-License-Identifier: Apache-2.0
// Owns the queries to the vendors' libraries: NVML (NVIDIA) and DCMI (Huawei Ascend).  Runs in a
// process of its own (see xpu_query.h), so a faulty library harms only that process.
//
// No vendor header is used: nvml.cc and dcmi.cc declare the few functions and structures they need,
// as the libraries export them.  Neither has ever run with a real device.
#ifndef PPC_EXTRAS_VENDORS_XPU_LIBRARY_H_
#define PPC_EXTRAS_VENDORS_XPU_LIBRARY_H_

#include <dlfcn.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/result.h"

namespace ppc {

struct XpuUse {
  std::string bdf;        // "0000:3b:00.0"
  std::string uuid;       // "" where the library has none
  std::vector<int> pids;  // that compute there; numbers of the host
};

struct XpuListing {
  std::string problem;   // why there is no answer; "" if there is one
  uint64_t boot_ns = 0;  // CLOCK_BOOTTIME of the query
  int silent = 0;        // devices that did not answer
  std::vector<XpuUse> devices;
};

inline constexpr const char* kNvmlName = "nvml";
inline constexpr const char* kDcmiName = "dcmi";

// `file`: as for dlopen.
Result<XpuListing> AskNvml(const std::string& file);
Result<XpuListing> AskDcmi(const std::string& file);

// Where AskXpuLibrary() writes its answer, one JSON object.
inline constexpr int kAnswerFd = 3;

namespace xpu_library {

struct Close {
  void operator()(void* library) const { dlclose(library); }
};
using Handle = std::unique_ptr<void, Close>;

Result<Handle> Open(const std::string& file);

// *out = the function `name`; false: the library does not export it.
template <typename Function>
bool Find(const Handle& library, const char* name, Function** out) {
  *out = reinterpret_cast<Function*>(dlsym(library.get(), name));
  return *out != nullptr;
}

// In the form of sysfs.
std::string Bdf(unsigned domain, unsigned bus, unsigned device, unsigned function);

}  // namespace xpu_library
}  // namespace ppc

#endif  // PPC_EXTRAS_VENDORS_XPU_LIBRARY_H_
