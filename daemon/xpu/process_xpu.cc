// SPDX-License-Identifier: Apache-2.0
#include "daemon/xpu/process_xpu.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/base/text.h"
#include "daemon/machine/proc_info.h"

namespace ppc {
namespace {

constexpr std::pair<const char*, XpuSource> kRanks[] = {{"PPC_WORKER", XpuSource::kExplicit},
                                                        {"LOCAL_RANK", XpuSource::kLocalRank},
                                                        {"RANK", XpuSource::kRank}};

std::optional<int> ToIndex(const std::optional<std::string>& text) {
  const std::optional<int> value = text ? WholeNumber<int>(*text) : std::nullopt;
  return value && *value >= 0 ? value : std::nullopt;
}

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
  const int number = WholeNumber<int>(entry).value_or(-1);
  return number >= 0 ? NthOf(xpus, vendor, number) : -1;
}

}  // namespace

const char* XpuSourceName(XpuSource source) {
  switch (source) {
    case XpuSource::kTold:
      return "told";
    case XpuSource::kExplicit:
      return "PPC_WORKER";
    case XpuSource::kLocalRank:
      return "LOCAL_RANK";
    case XpuSource::kRank:
      return "RANK";
    case XpuSource::kDevice:
      return "device";
    case XpuSource::kNvml:
      return "NVML";
    case XpuSource::kDcmi:
      return "DCMI";
    case XpuSource::kVisible:
      return "visible";
    case XpuSource::kPlacement:
      return "placement";
    case XpuSource::kOrder:
      return "order";
    case XpuSource::kUnknown:
      break;
  }
  return "unknown";
}

ProcessXpu::ProcessXpu(SysRoots roots, std::vector<int> service_xpus, const Topology* machine,
                       const VendorXpus* vendors)
    : roots_(std::move(roots)),
      service_xpus_(std::move(service_xpus)),
      machine_(machine),
      vendors_(vendors) {}

XpuAnswer ProcessXpu::ByWorker(int worker, XpuSource source) const {
  const size_t index = static_cast<size_t>(worker) % service_xpus_.size();
  return XpuAnswer{worker, service_xpus_[index], source};
}

XpuAnswer ProcessXpu::ByXpu(int xpu, XpuSource source) const {
  const auto found = std::find(service_xpus_.begin(), service_xpus_.end(), xpu);
  const bool is_listed = found != service_xpus_.end();
  return {is_listed ? static_cast<int>(found - service_xpus_.begin()) : -1, xpu, source};
}

// ------------------------------------------------------------------- providers

XpuFinding ProcessXpu::AskRank(const std::string& environ_text, const char* name,
                               XpuSource source) const {
  XpuFinding finding{source, {}, "not set"};
  const std::optional<std::string> text = ProcessEnv(environ_text, name);
  if (!text) return finding;
  finding.says = std::string(name) + "=" + text->substr(0, 32);
  const std::optional<int> worker = ToIndex(text);
  if (worker) {
    finding.answer = ByWorker(*worker, source);
  } else {
    finding.says += " is not a number";
  }
  return finding;
}

XpuFinding ProcessXpu::AskDevices(int pid) const {
  XpuFinding finding{XpuSource::kDevice, {}, "no accelerator's device file is open"};
  int found = -1;
  for (const std::string& device : OpenDevices(roots_, pid)) {
    const int xpu = XpuOfDeviceFile(roots_, machine_->xpus, device);
    if (xpu < 0 || xpu == found) continue;
    // A process that holds several devices (a launcher) has no answer.
    if (found >= 0) {
      finding.says = "several accelerators are open";
      return finding;
    }
    found = xpu;
    finding.says = device + " is open";
  }
  if (found >= 0) finding.answer = ByXpu(found, XpuSource::kDevice);
  return finding;
}

XpuFinding ProcessXpu::AskVendor(XpuSource source, int pid, uint64_t start_ns) const {
  XpuFinding finding{source, {}, "is not asked here"};
  if (vendors_ == nullptr) return finding;
  VendorXpus::Answer answer =
      source == XpuSource::kNvml ? vendors_->Nvml(pid, start_ns) : vendors_->Dcmi(pid, start_ns);
  finding.says = std::move(answer.says);
  if (answer.xpu >= 0) finding.answer = ByXpu(answer.xpu, source);
  return finding;
}

XpuFinding ProcessXpu::AskVisible(const std::string& environ_text) const {
  XpuFinding finding{XpuSource::kVisible, {}, "no variable restricts the devices"};
  const VisibleDevices visible = ReadVisibleDevices(roots_, machine_->xpus, environ_text);
  if (visible.text.empty()) return finding;
  finding.says = visible.text;
  if (visible.xpus.size() == 1) {
    finding.answer = ByXpu(visible.xpus[0], XpuSource::kVisible);
  } else {
    finding.says +=
        visible.xpus.empty() ? " names no device of this machine" : " names several devices";
  }
  return finding;
}

// The end of a process is not reported, so a dead process is detected here: a restarted worker
// finds its XPU free.  An ended process is checked at once: thousands may precede the running ones.
bool ProcessXpu::IsTaken(int xpu, int but_pid) const {
  std::vector<std::pair<int, uint64_t>> users;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [pid, entry] : entries_) {
      if (pid != but_pid && entry.answer.xpu == xpu) users.emplace_back(pid, entry.start_ns);
    }
  }
  const auto alive = std::ranges::find_if(
      users, [&](const auto& user) { return IsSameProcess(roots_, user.first, user.second); });
  const std::lock_guard lock(mutex_);
  for (auto ended = users.begin(); ended != alive; ++ended) {
    const auto entry = entries_.find(ended->first);
    if (entry != entries_.end() && entry->second.start_ns == ended->second) entries_.erase(entry);
  }
  return alive != users.end();
}

// A process bound to one node is taken to be bound to its XPU's node: the answer is the first XPU
// of the service on that node that no other process has.
XpuFinding ProcessXpu::AskPlacement(int pid) const {
  XpuFinding finding{XpuSource::kPlacement, {}, "its threads may run anywhere"};
  if (machine_->nodes.size() < 2) {
    finding.says = "this machine has one node";
    return finding;
  }
  const std::optional<int> node = NodeOfThreads(roots_, pid, *machine_);
  if (!node) return finding;
  finding.says = "its threads are bound to node " + std::to_string(*node);
  int first = -1;
  for (const int xpu : service_xpus_) {
    if (machine_->NodeOfXpu(xpu) != *node) continue;
    if (first < 0) first = xpu;
    if (IsTaken(xpu, pid)) continue;
    finding.answer = ByXpu(xpu, XpuSource::kPlacement);
    return finding;
  }
  if (first >= 0) {
    finding.answer = ByXpu(first, XpuSource::kPlacement);
  } else {
    finding.says += ", where the service has no XPU";
  }
  return finding;
}

// ----------------------------------------------------------------------- chain

// Providers that know a process only once it uses its device.
XpuAnswer ProcessXpu::AskLater(int pid, uint64_t start_ns) const {
  const XpuAnswer device = AskDevices(pid).answer;
  if (device.source != XpuSource::kUnknown) return device;
  const XpuAnswer nvml = AskVendor(XpuSource::kNvml, pid, start_ns).answer;
  if (nvml.source != XpuSource::kUnknown) return nvml;
  return AskVendor(XpuSource::kDcmi, pid, start_ns).answer;
}

XpuAnswer ProcessXpu::Ask(int pid, uint64_t start_ns) const {
  const std::string environ_text = ProcessEnviron(roots_, pid);
  for (const auto& [name, source] : kRanks) {
    const XpuFinding rank = AskRank(environ_text, name, source);
    if (rank.answer.source != XpuSource::kUnknown) return rank.answer;
  }
  const XpuAnswer later = AskLater(pid, start_ns);
  if (later.source != XpuSource::kUnknown) return later;
  const XpuFinding visible = AskVisible(environ_text);
  if (visible.answer.source != XpuSource::kUnknown) return visible.answer;
  return AskPlacement(pid).answer;
}

// mutex_ held.  A full table is cleared, except bindings of live processes, which cannot be found
// out again.
void ProcessXpu::Trim() {
  std::erase_if(entries_, [this](const auto& entry) {
    return entry.second.answer.source != XpuSource::kTold ||
           !IsSameProcess(roots_, entry.first, entry.second.start_ns);
  });
}

std::optional<ProcessXpu::Entry> ProcessXpu::Known(int pid, uint64_t start_ns) const {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(pid);
  if (it == entries_.end() || it->second.start_ns != start_ns) return std::nullopt;
  return it->second;
}

XpuAnswer ProcessXpu::Find(int pid, uint64_t start_ns, uint64_t now_ns) {
  if (service_xpus_.empty() || pid <= 0) return {};
  std::optional<Entry> known = Known(pid, start_ns);
  if (known && (known->answer.source <= XpuSource::kDevice || now_ns < known->next_look_ns))
    return known->answer;
  const XpuAnswer answer = known ? AskLater(pid, start_ns) : Ask(pid, start_ns);
  const bool is_found = answer.source != XpuSource::kUnknown;
  // Ended before it could be examined (a short tool): takes no worker's place.
  if (!known && !is_found && !IsSameProcess(roots_, pid, start_ns)) return {};
  const std::lock_guard lock(mutex_);
  if (entries_.size() >= kMaxEntries && !entries_.contains(pid)) Trim();
  Entry& entry = entries_[pid];
  // Bind() was called meanwhile.
  if (entry.start_ns == start_ns && entry.answer.source == XpuSource::kTold) return entry.answer;
  if (known) {
    entry = *known;
    entry.pause_ns *= 2;
  } else {
    entry = Entry{is_found ? answer : ByWorker(next_worker_++, XpuSource::kOrder), start_ns, 0,
                  kNsPerSec};
  }
  if (is_found) entry.answer = answer;
  entry.next_look_ns = now_ns + entry.pause_ns;
  return entry.answer;
}

bool ProcessXpu::Bind(int pid, uint64_t start_ns, int worker) {
  if (service_xpus_.empty() || worker < 0) return false;
  const std::lock_guard lock(mutex_);
  entries_[pid] = Entry{ByWorker(worker, XpuSource::kTold), start_ns, 0, kNsPerSec};
  return true;
}

std::vector<XpuFinding> ProcessXpu::Explain(int pid, uint64_t start_ns, XpuAnswer* cached) const {
  *cached = {};
  XpuFinding told{XpuSource::kTold, {}, "no bind_pid said which worker it is"};
  XpuFinding order{XpuSource::kOrder, {}, "has read nothing yet"};
  if (const std::optional<Entry> known = Known(pid, start_ns)) {
    *cached = known->answer;
    if (cached->source == XpuSource::kTold) {
      told.answer = *cached;
      told.says = "bound by hand";
    }
    order.says = "another provider knew when it was asked";
    if (cached->source == XpuSource::kOrder) {
      order.answer = *cached;
      order.says = "worker by order of first read";
    }
  }
  std::vector<XpuFinding> all{std::move(told)};
  if (service_xpus_.empty()) return all;
  const std::string environ_text = ProcessEnviron(roots_, pid);
  for (const auto& [name, source] : kRanks) all.push_back(AskRank(environ_text, name, source));
  all.push_back(AskDevices(pid));
  for (const XpuSource source : {XpuSource::kNvml, XpuSource::kDcmi}) {
    all.push_back(AskVendor(source, pid, start_ns));
  }
  all.push_back(AskVisible(environ_text));
  all.push_back(AskPlacement(pid));
  all.push_back(std::move(order));
  return all;
}

VisibleDevices ReadVisibleDevices(const SysRoots& roots, const std::vector<Xpu>& xpus,
                                  const std::string& environ_text) {
  for (const Variable& variable : kVariables) {
    const std::optional<std::string> value = ProcessEnv(environ_text, variable.name);
    if (!value) continue;
    VisibleDevices visible;
    visible.text = std::string(variable.name) + "=" + value->substr(0, 128);
    for (std::string_view rest = *value; !rest.empty();) {
      const std::string entry = Trim(std::string(Cut(&rest, ',')));
      const int xpu = Find(roots, xpus, variable.vendor, entry);
      if (xpu < 0) break;
      visible.xpus.push_back(xpu);
    }
    return visible;
  }
  return {};
}

}  // namespace ppc
