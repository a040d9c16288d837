// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/xpu_list.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "daemon/base/files.h"

namespace ppc {
namespace {

constexpr uint16_t kVendorHuawei = 0x19e5;
// Vendors whose VGA adapters are consoles of servers and virtual machines, and never compute:
// ASPEED, Matrox, Huawei (its accelerators are no VGA adapters), QEMU, Red Hat, Cirrus, VMware,
// VirtualBox, Microsoft.
constexpr std::array<uint16_t, 10> kConsoleVendors = {
    0x1a03, 0x102b, kVendorHuawei, 0x1234, 0x1b36, 0x1af4, 0x1013, 0x15ad, 0x80ee, 0x1414};

long ReadNumber(const std::string& path, long fallback) {
  const Result<std::string> line = ReadLine(path);
  if (!line || line->empty()) return fallback;
  char* end = nullptr;
  const long value = std::strtol(line->c_str(), &end, 0);
  return end == line->c_str() ? fallback : value;
}

int FindBdf(const std::vector<Xpu>& xpus, const std::string& bdf) {
  for (size_t i = 0; i < xpus.size(); ++i) {
    if (xpus[i].bdf == bdf) return static_cast<int>(i);
  }
  return -1;
}

// "…/0000:3b:00.0" behind a symbolic link -> last component.
std::string LinkedName(const std::string& path) {
  const std::string text = LinkTarget(path);
  return text.substr(text.rfind('/') + 1);
}

// "prefix12" -> 12, else -1.
int Suffix(const std::string& path, const std::string& prefix) {
  if (!path.starts_with(prefix) || path.size() == prefix.size()) return -1;
  for (size_t i = prefix.size(); i < path.size(); ++i) {
    if (path[i] < '0' || path[i] > '9') return -1;
  }
  return static_cast<int>(std::strtol(path.c_str() + prefix.size(), nullptr, 10));
}

int XpuOfNvidiaMinor(const SysRoots& roots, const std::vector<Xpu>& xpus, int minor) {
  const std::string base = roots.Proc("/driver/nvidia/gpus");
  for (const std::string& bdf : EntriesOf(base)) {
    std::string path = base;
    path.append("/").append(bdf).append("/information");
    const Result<std::string> text = ReadFile(path, 4096);
    if (!text) continue;
    const size_t at = text->find("Device Minor:");
    if (at != std::string::npos && std::strtol(text->c_str() + at + 13, nullptr, 10) == minor) {
      return FindBdf(xpus, bdf);
    }
  }
  return -1;
}

// The driver shows a voltage of the north bridge for APUs alone (hwmon_attributes_visible in
// amdgpu_pm.c), but not for MI300A.
bool IsApu(const std::string& device) {
  const std::string base = device + "/hwmon";
  return std::ranges::any_of(EntriesOf(base), [&base](const std::string& hwmon) {
    const Result<std::string> label = ReadLine(base + "/" + hwmon + "/in1_label");
    return label && *label == "vddnb";
  });
}

}  // namespace

bool ShareMemory(const std::vector<Xpu>& xpus) {
  return !xpus.empty() && std::ranges::all_of(xpus, &Xpu::shares_memory);
}

bool IsXpuClass(uint32_t pci_class) {
  const uint32_t kind = pci_class >> 8;
  return kind == 0x0300 || kind == 0x0302 || kind == 0x0380 || kind == 0x1200;
}

std::vector<Xpu> SortXpus(std::vector<Xpu> all) {
  std::sort(all.begin(), all.end(), [](const Xpu& a, const Xpu& b) { return a.bdf < b.bdf; });
  const auto is_console = [](const Xpu& xpu) {
    return xpu.pci_class >> 8 == 0x0300 && std::find(kConsoleVendors.begin(), kConsoleVendors.end(),
                                                     xpu.vendor) != kConsoleVendors.end();
  };
  if (!std::all_of(all.begin(), all.end(), is_console)) std::erase_if(all, is_console);
  return all;
}

std::vector<Xpu> FindXpus(const SysRoots& roots) {
  std::vector<Xpu> all;
  const std::string base = roots.Sys("/bus/pci/devices");
  for (const std::string& bdf : EntriesOf(base)) {
    std::string device = base;
    device.append("/").append(bdf);
    Xpu xpu;
    xpu.bdf = bdf;
    xpu.pci_class = static_cast<uint32_t>(ReadNumber(device + "/class", 0));
    if (!IsXpuClass(xpu.pci_class)) continue;
    xpu.vendor = static_cast<uint16_t>(ReadNumber(device + "/vendor", 0));
    xpu.node = static_cast<int>(ReadNumber(device + "/numa_node", -1));
    xpu.shares_memory = IsApu(device);
    const Result<std::string> cpus = ReadLine(device + "/local_cpulist");
    if (cpus) {
      Result<CpuList> list = ParseCpuList(*cpus);
      if (list) xpu.local_cpus = std::move(*list);
    }
    all.push_back(std::move(xpu));
  }
  return SortXpus(std::move(all));
}

int XpuOfDeviceFile(const SysRoots& roots, const std::vector<Xpu>& xpus, const std::string& path) {
  if (path.starts_with("/dev/dri/")) {
    return FindBdf(xpus, LinkedName(roots.Sys("/class/drm/" + path.substr(9) + "/device")));
  }
  const int nvidia = Suffix(path, "/dev/nvidia");
  if (nvidia >= 0) return XpuOfNvidiaMinor(roots, xpus, nvidia);
  int davinci = Suffix(path, "/dev/davinci");
  if (davinci < 0) return -1;
  // Ascend numbers its devices in the order of their PCI addresses.
  for (size_t i = 0; i < xpus.size(); ++i) {
    if (xpus[i].vendor == kVendorHuawei && davinci-- == 0) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace ppc
