// SPDX-License-Identifier: Apache-2.0
// Owns the queries to DCMI (libdcmi.so of the Ascend driver).
#include <cerrno>

#include "extras/vendors/xpu_library.h"

namespace ppc {
namespace {

constexpr int kSuccess = 0;
constexpr int kMostCards = 64;
constexpr int kMostDevices = 64;  // per card
// The library does not get the size of the buffer; drivers return at most 32 or 64.
constexpr int kMostProcesses = 1024;

struct PcieInfo {
  unsigned vendor;
  unsigned subvendor;
  unsigned device;
  unsigned subdevice;
  int domain;
  unsigned bus_id;
  unsigned device_id;
  unsigned function_id;
  unsigned char reserved[32];
};
static_assert(sizeof(PcieInfo) == 64);

struct ProcessInfo {
  int pid;
  unsigned long used_memory;
};
static_assert(sizeof(ProcessInfo) == 16);

struct Dcmi {
  int (*init)() = nullptr;
  int (*cards)(int* count, int* list, int room) = nullptr;
  int (*devices)(int card, int* count) = nullptr;
  int (*processes)(int card, int device, ProcessInfo* list, int* count) = nullptr;
  int (*pcie)(int card, int device, PcieInfo* info) = nullptr;
};

Result<Dcmi> Resolve(const xpu_library::Handle& library) {
  using xpu_library::Find;
  Dcmi dcmi;
  const char* missing = nullptr;
  if (!Find(library, "dcmi_init", &dcmi.init)) missing = "dcmi_init";
  if (!Find(library, "dcmi_get_card_list", &dcmi.cards) &&
      !Find(library, "dcmi_get_card_num_list", &dcmi.cards)) {
    missing = "dcmi_get_card_list";
  }
  if (!Find(library, "dcmi_get_device_num_in_card", &dcmi.devices)) {
    missing = "dcmi_get_device_num_in_card";
  }
  if (!Find(library, "dcmi_get_device_resource_info", &dcmi.processes)) {
    missing = "dcmi_get_device_resource_info";
  }
  // The first version does not return the PCI domain.
  if (!Find(library, "dcmi_get_device_pcie_info_v2", &dcmi.pcie)) {
    missing = "dcmi_get_device_pcie_info_v2";
  }
  if (missing != nullptr) return Error{ENOSYS, std::string("DCMI has no ") + missing};
  return dcmi;
}

Error Failed(const char* what, int code) {
  return Error{EIO, std::string(what) + " fails with " + std::to_string(code)};
}

bool AskDevice(const Dcmi& dcmi, int card, int device, XpuUse* use) {
  PcieInfo pcie{};
  if (dcmi.pcie(card, device, &pcie) != kSuccess) return false;
  use->bdf = xpu_library::Bdf(static_cast<unsigned>(pcie.domain), pcie.bus_id, pcie.device_id,
                              pcie.function_id);
  std::vector<ProcessInfo> list(kMostProcesses);
  int count = 0;
  if (dcmi.processes(card, device, list.data(), &count) != kSuccess) return false;
  if (count < 0 || count > kMostProcesses) return false;
  for (int i = 0; i < count; ++i) use->pids.push_back(list[static_cast<size_t>(i)].pid);
  return true;
}

}  // namespace

Result<XpuListing> AskDcmi(const std::string& file) {
  const Result<xpu_library::Handle> library = xpu_library::Open(file);
  if (!library) return library.error();
  const Result<Dcmi> dcmi = Resolve(*library);
  if (!dcmi) return dcmi.error();
  int code = dcmi->init();
  if (code != kSuccess) return Failed("dcmi_init", code);
  int cards[kMostCards] = {};
  int count = 0;
  code = dcmi->cards(&count, cards, kMostCards);
  if (code != kSuccess) return Failed("dcmi_get_card_list", code);
  if (count < 0 || count > kMostCards) return Failed("dcmi_get_card_list", count);
  XpuListing listing;
  for (int i = 0; i < count; ++i) {
    int devices = 0;
    code = dcmi->devices(cards[i], &devices);
    if (code != kSuccess || devices < 0 || devices > kMostDevices) {
      ++listing.silent;
      continue;
    }
    for (int device = 0; device < devices; ++device) {
      XpuUse use;
      if (AskDevice(*dcmi, cards[i], device, &use)) {
        listing.devices.push_back(std::move(use));
      } else {
        ++listing.silent;
      }
    }
  }
  return listing;
}

}  // namespace ppc
