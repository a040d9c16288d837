// SPDX-License-Identifier: Apache-2.0
#include "daemon/sys/process_xpu.h"

#include <charconv>
#include <optional>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/sys/proc_info.h"

namespace ppc {
namespace {

std::optional<int> ToIndex(const std::optional<std::string>& text) {
  if (!text || text->empty()) return std::nullopt;
  int value = 0;
  const auto parsed = std::from_chars(text->data(), text->data() + text->size(), value);
  if (parsed.ec != std::errc() || *parsed.ptr != '\0' || value < 0) return std::nullopt;
  return value;
}

}  // namespace

const char* XpuSourceName(XpuSource source) {
  switch (source) {
    case XpuSource::kExplicit:
      return "PPC_WORKER";
    case XpuSource::kLocalRank:
      return "LOCAL_RANK";
    case XpuSource::kRank:
      return "RANK";
    case XpuSource::kDevice:
      return "device";
    case XpuSource::kOrder:
      return "order";
    case XpuSource::kUnknown:
      break;
  }
  return "unknown";
}

ProcessXpu::ProcessXpu(SysRoots roots, std::vector<int> service_xpus,
                       const std::vector<Xpu>* machine_xpus)
    : roots_(std::move(roots)),
      service_xpus_(std::move(service_xpus)),
      machine_xpus_(machine_xpus) {}

XpuAnswer ProcessXpu::ByWorker(int worker, XpuSource source) const {
  const size_t index = static_cast<size_t>(worker) % service_xpus_.size();
  return XpuAnswer{worker, service_xpus_[index], source};
}

XpuAnswer ProcessXpu::AskDevices(int pid) const {
  int found = -1;
  for (const std::string& device : OpenDevices(roots_, pid)) {
    const int xpu = XpuOfDeviceFile(roots_, *machine_xpus_, device);
    if (xpu < 0 || xpu == found) continue;
    // A process that holds several devices (a launcher) says nothing.
    if (found >= 0) return {};
    found = xpu;
  }
  if (found < 0) return {};
  XpuAnswer answer{-1, found, XpuSource::kDevice};
  for (size_t i = 0; i < service_xpus_.size(); ++i) {
    if (service_xpus_[i] == found) answer.worker = static_cast<int>(i);
  }
  return answer;
}

XpuAnswer ProcessXpu::Ask(int pid) const {
  const std::string environ_text = ProcessEnviron(roots_, pid);
  const std::pair<const char*, XpuSource> kVariables[] = {{"PPC_WORKER", XpuSource::kExplicit},
                                                          {"LOCAL_RANK", XpuSource::kLocalRank},
                                                          {"RANK", XpuSource::kRank}};
  for (const auto& [name, source] : kVariables) {
    const std::optional<int> worker = ToIndex(ProcessEnv(environ_text, name));
    if (worker) return ByWorker(*worker, source);
  }
  return AskDevices(pid);
}

XpuAnswer ProcessXpu::Find(int pid, uint64_t start_ns, uint64_t now_ns) {
  if (service_xpus_.empty() || pid <= 0) return {};
  auto it = entries_.find(pid);
  if (it != entries_.end() && it->second.start_ns == start_ns) {
    Entry& entry = it->second;
    if (entry.answer.source != XpuSource::kOrder || now_ns < entry.next_look_ns) {
      return entry.answer;
    }
    const XpuAnswer device = AskDevices(pid);
    if (device.source != XpuSource::kUnknown) entry.answer = device;
    entry.pause_ns *= 2;
    entry.next_look_ns = now_ns + entry.pause_ns;
    return entry.answer;
  }
  // Dead processes are not told to us; a full table starts over.
  if (entries_.size() >= kMaxEntries) entries_.clear();
  XpuAnswer answer = Ask(pid);
  if (answer.source == XpuSource::kUnknown) {
    // Gone before we could look (a short tool): it takes no worker's place.
    if (!IsSameProcess(roots_, pid, start_ns)) return {};
    answer = ByWorker(next_worker_++, XpuSource::kOrder);
  }
  entries_[pid] = Entry{answer, start_ns, now_ns + kNsPerSec, kNsPerSec};
  return answer;
}

}  // namespace ppc
