// SPDX-License-Identifier: Apache-2.0
#include "daemon/xpu/visible_devices.h"

#include <charconv>
#include <string_view>

#include "daemon/base/files.h"
#include "daemon/machine/proc_info.h"

namespace ppc {
namespace {

struct Variable {
  const char* name;
  uint16_t vendor;
};

constexpr Variable kVariables[] = {{"CUDA_VISIBLE_DEVICES", 0x10de},
                                   {"ASCEND_RT_VISIBLE_DEVICES", 0x19e5},
                                   {"ROCR_VISIBLE_DEVICES", 0x1002},
                                   {"HIP_VISIBLE_DEVICES", 0x1002}};

// The n-th device of a vendor.
int NthOf(const std::vector<Xpu>& xpus, uint16_t vendor, int n) {
  for (size_t i = 0; i < xpus.size(); ++i) {
    if (xpus[i].vendor == vendor && n-- == 0) return static_cast<int>(i);
  }
  return -1;
}

// A prefix of a UUID is enough if only one device has it.
int ByUuid(const SysRoots& roots, const std::vector<Xpu>& xpus, std::string_view uuid) {
  int found = -1;
  for (size_t i = 0; i < xpus.size(); ++i) {
    const Result<std::string> text =
        ReadFile(roots.Proc("/driver/nvidia/gpus/" + xpus[i].bdf + "/information"), 4096);
    if (!text) continue;
    const size_t key = text->find("GPU UUID:");
    const size_t at = key == std::string::npos ? key : text->find("GPU-", key);
    if (at == std::string::npos || text->compare(at, uuid.size(), uuid) != 0) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(i);
  }
  return found;
}

int Find(const SysRoots& roots, const std::vector<Xpu>& xpus, uint16_t vendor,
         std::string_view entry) {
  if (entry.starts_with("GPU-")) return ByUuid(roots, xpus, entry);
  int number = -1;
  const auto parsed = std::from_chars(entry.data(), entry.data() + entry.size(), number);
  const bool is_number = parsed.ec == std::errc() && parsed.ptr == entry.data() + entry.size();
  return is_number && number >= 0 ? NthOf(xpus, vendor, number) : -1;
}

}  // namespace

VisibleDevices ReadVisibleDevices(const SysRoots& roots, const std::vector<Xpu>& xpus,
                                  const std::string& environ_text) {
  for (const Variable& variable : kVariables) {
    const std::optional<std::string> value = ProcessEnv(environ_text, variable.name);
    if (!value) continue;
    VisibleDevices visible;
    visible.text = std::string(variable.name) + "=" + value->substr(0, 128);
    for (size_t at = 0; at <= value->size();) {
      const size_t end = std::min(value->find(',', at), value->size());
      const std::string entry = Trim(value->substr(at, end - at));
      at = end + 1;
      const int xpu = Find(roots, xpus, variable.vendor, entry);
      if (xpu < 0) break;
      visible.xpus.push_back(xpu);
    }
    return visible;
  }
  return {};
}

}  // namespace ppc
