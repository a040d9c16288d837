// SPDX-License-Identifier: Apache-2.0
// Owns the queries to NVML (libnvidia-ml.so.1), with the versions of its functions that the library
// exports by name.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "extras/vendors/xpu_library.h"

namespace ppc {
namespace {

constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;
constexpr size_t kUuidBytes = 96;
constexpr unsigned kMostDevices = 1024;
constexpr unsigned kMostProcesses = 4096;

struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned pci_device_id;
  unsigned pci_subsystem_id;
  char bus_id[32];  // "00000000:3B:00.0"
};
static_assert(sizeof(PciInfo) == 68);

// Record of _v2 and _v3.  The first drivers of release 535 added a number to the end of the _v3
// record without a new name.  Only the first member is used.
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance;
  unsigned compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24);
constexpr size_t kLongerInfo = 32;
constexpr unsigned char kUnwritten = 0xaa;

using GetProcesses = int(void* device, unsigned* count, void* infos);

struct Nvml {
  int (*init)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, void**) = nullptr;
  int (*pci)(void*, PciInfo*) = nullptr;
  GetProcesses* processes = nullptr;
  int (*uuid)(void*, char*, unsigned) = nullptr;  // optional
  const char* (*error_text)(int) = nullptr;       // optional
};

Result<Nvml> Resolve(const xpu_library::Handle& library) {
  using xpu_library::Find;
  Nvml nvml;
  const char* missing = nullptr;
  if (!Find(library, "nvmlInit_v2", &nvml.init)) missing = "nvmlInit_v2";
  if (!Find(library, "nvmlDeviceGetCount_v2", &nvml.count)) missing = "nvmlDeviceGetCount_v2";
  if (!Find(library, "nvmlDeviceGetHandleByIndex_v2", &nvml.handle)) {
    missing = "nvmlDeviceGetHandleByIndex_v2";
  }
  if (!Find(library, "nvmlDeviceGetPciInfo_v3", &nvml.pci)) missing = "nvmlDeviceGetPciInfo_v3";
  if (!Find(library, "nvmlDeviceGetComputeRunningProcesses_v3", &nvml.processes) &&
      !Find(library, "nvmlDeviceGetComputeRunningProcesses_v2", &nvml.processes)) {
    missing = "nvmlDeviceGetComputeRunningProcesses_v2";
  }
  if (missing != nullptr) return Error{ENOSYS, std::string("NVML has no ") + missing};
  (void)Find(library, "nvmlDeviceGetUUID", &nvml.uuid);
  (void)Find(library, "nvmlErrorString", &nvml.error_text);
  return nvml;
}

Error Failed(const Nvml& nvml, const char* what, int code) {
  std::string text = std::string(what) + " fails with " + std::to_string(code);
  const char* why = nvml.error_text != nullptr ? nvml.error_text(code) : nullptr;
  if (why != nullptr) text += std::string(" (") + why + ")";
  return Error{EIO, text};
}

// Finds the size of an entry from the bytes that the library has written.  0: neither known size.
size_t Stride(const std::vector<unsigned char>& buffer, size_t count) {
  const auto last = std::find_if(buffer.rbegin(), buffer.rend(),
                                 [](unsigned char byte) { return byte != kUnwritten; });
  const auto written = static_cast<size_t>(buffer.rend() - last);
  for (const size_t stride : {sizeof(ProcessInfo), kLongerInfo}) {
    if (written <= stride * count && written > stride * count - sizeof(unsigned)) return stride;
  }
  return 0;
}

// The processes that compute on a device; false: the library does not know.
bool Processes(const Nvml& nvml, void* device, std::vector<int>* pids) {
  unsigned room = 64;
  std::vector<unsigned char> buffer;
  unsigned count = 0;
  int code = kInsufficientSize;
  for (int attempt = 0; attempt < 4 && code == kInsufficientSize; ++attempt) {
    buffer.assign(room * kLongerInfo, kUnwritten);
    count = room;
    code = nvml.processes(device, &count, buffer.data());
    room = std::min(std::max(room, count) * 2, kMostProcesses);
  }
  if (code != kSuccess || count * kLongerInfo > buffer.size()) return false;
  if (count == 0) return true;
  const size_t stride = Stride(buffer, count);
  if (stride == 0) return false;
  for (unsigned i = 0; i < count; ++i) {
    unsigned pid = 0;
    std::memcpy(&pid, buffer.data() + i * stride + offsetof(ProcessInfo, pid), sizeof(pid));
    pids->push_back(static_cast<int>(pid));
  }
  return true;
}

std::string BdfOf(PciInfo pci) {
  pci.bus_id[sizeof(pci.bus_id) - 1] = '\0';
  const char* dot = std::strrchr(pci.bus_id, '.');
  const unsigned long function = dot == nullptr ? 0 : std::strtoul(dot + 1, nullptr, 16);
  return xpu_library::Bdf(pci.domain, pci.bus, pci.device, static_cast<unsigned>(function));
}

bool AskDevice(const Nvml& nvml, unsigned index, XpuUse* use) {
  void* device = nullptr;
  PciInfo pci{};
  if (nvml.handle(index, &device) != kSuccess || nvml.pci(device, &pci) != kSuccess) return false;
  use->bdf = BdfOf(pci);
  char uuid[kUuidBytes] = "";
  if (nvml.uuid != nullptr && nvml.uuid(device, uuid, sizeof(uuid)) == kSuccess) {
    uuid[sizeof(uuid) - 1] = '\0';
    use->uuid = uuid;
  }
  return Processes(nvml, device, &use->pids);
}

}  // namespace

Result<XpuListing> AskNvml(const std::string& file) {
  const Result<xpu_library::Handle> library = xpu_library::Open(file);
  if (!library) return library.error();
  const Result<Nvml> nvml = Resolve(*library);
  if (!nvml) return nvml.error();
  int code = nvml->init();
  if (code != kSuccess) return Failed(*nvml, "nvmlInit_v2", code);
  unsigned count = 0;
  code = nvml->count(&count);
  if (code != kSuccess) return Failed(*nvml, "nvmlDeviceGetCount_v2", code);
  XpuListing listing;
  for (unsigned i = 0; i < std::min(count, kMostDevices); ++i) {
    XpuUse use;
    if (AskDevice(*nvml, i, &use)) {
      listing.devices.push_back(std::move(use));
    } else {
      ++listing.silent;
    }
  }
  return listing;
}

}  // namespace ppc
