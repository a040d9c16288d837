// SPDX-License-Identifier: Apache-2.0
#include "daemon/sys/host_memory.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/files.h"

namespace ppc {
namespace {

// "MemTotal:   123 kB" or "Node 0 MemTotal:   123 kB" -> bytes; 0 if absent.
uint64_t MeminfoField(std::string_view text, const std::string& name) {
  const std::string key = name + ":";
  size_t at = text.find(key);
  while (at != std::string_view::npos && at > 0 && text[at - 1] != '\n' && text[at - 1] != ' ') {
    at = text.find(key, at + 1);
  }
  if (at == std::string_view::npos) return 0;
  at = text.find_first_not_of(' ', at + key.size());
  if (at == std::string_view::npos) return 0;
  uint64_t kib = 0;
  std::from_chars(text.data() + at, text.data() + text.size(), kib);
  return kib * 1024;
}

Result<HostMemory> ReadNode(const SysRoots& roots, int node) {
  const Result<std::string> text =
      ReadFile(roots.Sys("/devices/system/node/node" + std::to_string(node) + "/meminfo"));
  if (!text) return text.error();
  const uint64_t clean = MeminfoField(*text, "Active(file)") +
                         MeminfoField(*text, "Inactive(file)") +
                         MeminfoField(*text, "SReclaimable") / 2;
  const uint64_t dirty = MeminfoField(*text, "Dirty") + MeminfoField(*text, "Writeback");
  return HostMemory{MeminfoField(*text, "MemTotal"),
                    MeminfoField(*text, "MemFree") + (clean > dirty ? clean - dirty : 0)};
}

}  // namespace

Result<HostMemory> ReadHostMemory(const SysRoots& roots, const std::vector<int>& nodes) {
  if (nodes.empty()) {
    const Result<std::string> text = ReadFile(roots.Proc("/meminfo"));
    if (!text) return text.error();
    return HostMemory{MeminfoField(*text, "MemTotal"), MeminfoField(*text, "MemAvailable")};
  }
  HostMemory sum;
  for (const int node : nodes) {
    const Result<HostMemory> one = ReadNode(roots, node);
    if (!one) return one.error();
    sum.total += one->total;
    sum.available += one->available;
  }
  return sum;
}

ServiceMemory::ServiceMemory(Options options, std::shared_ptr<const Cgroup> cgroup)
    : options_(std::move(options)),
      cgroup_(std::move(cgroup)),
      nodes_(cgroup_ == nullptr ? std::vector<int>() : cgroup_->AllowedNodes()) {}

uint64_t ServiceMemory::OwnCache() const {
  return options_.own_cache == nullptr ? 0 : options_.own_cache->load(std::memory_order_relaxed);
}

std::optional<MemoryReading> ServiceMemory::ReadHost() const {
  Result<HostMemory> host = ReadHostMemory(options_.roots, nodes_);
  if (!host) host = ReadHostMemory(options_.roots, {});
  if (!host || host->total <= options_.reserve_bytes) return std::nullopt;
  MemoryReading reading;
  reading.limit = host->total - options_.reserve_bytes;
  reading.cache = OwnCache();
  const uint64_t taken = host->total > host->available ? host->total - host->available : 0;
  reading.used = taken + reading.cache;
  reading.threshold = static_cast<uint64_t>(static_cast<double>(reading.limit) * options_.share);
  return reading;
}

MemoryReading ServiceMemory::Read(bool with_cache) {
  MemoryReading best;
  bool has_best = false;
  const auto consider = [&](const std::optional<MemoryReading>& reading) {
    if (!reading || (has_best && reading->Slack() >= best.Slack())) return;
    best = *reading;
    has_best = true;
  };
  consider(ReadHost());
  if (cgroup_ != nullptr) consider(cgroup_->Read(options_.share, with_cache));
  if (options_.limit_bytes != 0) {
    MemoryReading own;
    own.limit = options_.limit_bytes;
    own.used = own.cache = OwnCache();
    own.threshold = static_cast<uint64_t>(static_cast<double>(own.limit) * options_.share);
    consider(own);
  }
  return best;
}

}  // namespace ppc
