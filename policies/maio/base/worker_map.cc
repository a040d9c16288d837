// SPDX-License-Identifier: Apache-2.0
//
// Process -> group, see worker_map.h.
#include "policies/maio/base/worker_map.h"

#include <algorithm>

#include "policies/maio/base/tuning.h"
#include "ppc.h"

namespace ppc::maio {
namespace {

constexpr size_t kMaxProcesses = 4096;

}  // namespace

WorkerMap::WorkerMap(const ServiceSpec& spec, int32_t nr_xpus)
    : xpus_(spec.xpus), workers_(spec.workers), has_xpus_(nr_xpus > 0) {}

int32_t WorkerMap::XpuOf(uint32_t group) const {
  if (group == kCommonGroup) return -1;
  if (auto it = seen_xpu_.find(group); it != seen_xpu_.end()) return it->second;
  if (!xpus_.empty()) return xpus_[group % xpus_.size()];
  return -1;
}

uint32_t WorkerMap::processes_of(uint32_t group) const {
  return static_cast<uint32_t>(
      std::count_if(processes_.begin(), processes_.end(),
                    [&](const auto& p) { return p.second.group == group; }));
}

// Of several workers on one XPU: the first without a living process, else the longest silent one.
uint32_t WorkerMap::Pick(const std::vector<uint32_t>& workers, uint64_t now_ns) const {
  uint32_t best = workers[0];
  uint64_t best_ns = ~0ull;
  for (uint32_t worker : workers) {
    uint64_t last = 0;
    for (const auto& [key, process] : processes_) {
      if (process.slot == worker) last = std::max(last, process.last_ns);
    }
    if (last == 0) return worker;
    if (last < best_ns && last + kGoneNs < now_ns) {
      best = worker;
      best_ns = last;
    }
  }
  return best;
}

uint32_t WorkerMap::Assign(const miss_io& event, bool weights) {
  std::vector<uint32_t> candidates;
  if (event.xpu >= 0) {
    has_xpu_binding_ = true;
    if (xpus_.empty()) {
      return static_cast<uint32_t>(event.xpu) < kMaxGroups - 1 ? static_cast<uint32_t>(event.xpu)
                                                               : kCommonGroup;
    }
    for (uint32_t w = 0; w < std::max<size_t>(workers_, xpus_.size()); w++) {
      if (xpus_[w % xpus_.size()] == event.xpu) candidates.push_back(w);
    }
  } else if (!has_xpu_binding_ && weights && !has_xpus_) {
    // No XPU on this machine at all: workers in the order in which they read model data first.
    uint32_t count = workers_ != 0 ? workers_ : kMaxGroups - 1;
    for (uint32_t w = 0; w < count; w++) candidates.push_back(w);
  }
  if (candidates.empty()) return kCommonGroup;
  return candidates.size() == 1 ? candidates[0] : Pick(candidates, event.time_ns);
}

WorkerMap::Process* WorkerMap::LookUp(const Key& key, Recent* recent) {
  const auto it = processes_.find(key);
  if (it == processes_.end()) return nullptr;
  *recent = {key, &it->second};
  return recent->process;
}

uint32_t WorkerMap::Resolve(const miss_io& event, bool weights) {
  const Key key(event.pid, event.start_ns);
  Process* process = Known(key);
  // A process becomes a worker when it opens its device: what it read before stays common.
  // An answer by order of first read may be corrected later, too.
  const bool undecided =
      process != nullptr &&
      ((event.xpu >= 0 && event.xpu != process->xpu) ||
       (process->group == kCommonGroup && event.xpu < 0 && weights && !has_xpus_));
  if (process == nullptr || undecided) {
    const uint32_t slot = Assign(event, weights);
    uint32_t group = slot;
    if (auto swapped = swapped_.find(group); swapped != swapped_.end()) group = swapped->second;
    if (process == nullptr && processes_.size() >= kMaxProcesses) return group;
    const bool may_replace = group != kCommonGroup && processes_of(group) > 0;
    if (process != nullptr) SetMayReplace(process, false);
    process = &processes_[key];
    *process = Process{group, slot, event.xpu, event.time_ns, event.time_ns, false};
    SetMayReplace(process, may_replace);
    if (group != kCommonGroup && event.xpu >= 0) seen_xpu_[group] = event.xpu;
  }
  process->last_ns = event.time_ns;
  return process->group;
}

uint32_t WorkerMap::RecordingGroup(const miss_io& event, uint32_t group) const {
  if (!has_xpu_binding_) return group;
  auto it = processes_.find(Key(event.pid, event.start_ns));
  return it == processes_.end() ? group : it->second.slot;
}

void WorkerMap::SetMayReplace(Process* process, bool may_replace) {
  replacements_ += (may_replace ? 1u : 0u) - (process->may_replace ? 1u : 0u);
  process->may_replace = may_replace;
}

bool WorkerMap::ReplacedPrevious(const miss_io& event) {
  auto it = processes_.find(Key(event.pid, event.start_ns));
  if (it == processes_.end() || !it->second.may_replace) return false;
  bool undecided = false;
  for (const auto& [key, process] : processes_) {
    if (key == it->first || process.group != it->second.group) continue;
    if (process.last_ns > it->second.since_ns) {
      SetMayReplace(&it->second, false);  // both read: two processes of one worker
      return false;
    }
    undecided |= process.last_ns + kGoneNs > event.time_ns;
  }
  if (undecided) return false;
  SetMayReplace(&it->second, false);
  return true;
}

void WorkerMap::Move(const miss_io& event, uint32_t group) {
  Process& process = processes_[Key(event.pid, event.start_ns)];
  process.group = group;
  if (process.slot == kCommonGroup) {
    process.slot = group;
    for (auto [slot, now] : swapped_) {
      if (now == group) process.slot = slot;
    }
  }
  if (event.xpu >= 0) seen_xpu_[group] = event.xpu;
}

void WorkerMap::Swap(uint32_t a, uint32_t b) {
  for (auto& [key, process] : processes_) {
    if (process.group == a) {
      process.group = b;
    } else if (process.group == b) {
      process.group = a;
    }
  }
  int32_t xpu_a = XpuOf(a);
  int32_t xpu_b = XpuOf(b);
  seen_xpu_[a] = xpu_b;
  seen_xpu_[b] = xpu_a;
  auto resolve = [&](uint32_t g) {
    auto it = swapped_.find(g);
    return it == swapped_.end() ? g : it->second;
  };
  // What would have become a becomes b from now on, and the other way round.
  std::map<uint32_t, uint32_t> next = swapped_;
  for (uint32_t g : {a, b}) {
    if (!next.count(g)) next[g] = g;
  }
  for (auto& [from, to] : next) {
    uint32_t now = resolve(from);
    to = now == a ? b : now == b ? a : now;
  }
  swapped_ = std::move(next);
}

}  // namespace ppc::maio
