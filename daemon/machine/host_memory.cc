// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/host_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/cpu_set.h"
#include "daemon/base/files.h"
#include "daemon/base/text.h"

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
  return LeadingNumber<uint64_t>(text.substr(at)) * 1024;
}

uint64_t FilePages(std::string_view meminfo) {
  return MeminfoField(meminfo, "Active(file)") + MeminfoField(meminfo, "Inactive(file)");
}

Result<HostMemory> ReadNode(const SysRoots& roots, int node) {
  const Result<std::string> text =
      ReadFile(roots.Sys("/devices/system/node/node" + std::to_string(node) + "/meminfo"));
  if (!text) return text.error();
  const uint64_t files = FilePages(*text);
  const uint64_t clean = files + MeminfoField(*text, "SReclaimable") / 2;
  const uint64_t dirty = MeminfoField(*text, "Dirty") + MeminfoField(*text, "Writeback");
  const uint64_t free = MeminfoField(*text, "MemFree");
  return HostMemory{MeminfoField(*text, "MemTotal"), free,
                    free + (clean > dirty ? clean - dirty : 0), files};
}

uint64_t WithoutReserve(const ServiceMemory::Options& options, uint64_t total) {
  const auto share = static_cast<uint64_t>(static_cast<double>(total) * options.reserve_share);
  const uint64_t reserve = std::max(options.reserve_bytes, share);
  return total > reserve ? total - reserve : 0;
}

// A cgroup's own stalls are what matters to it; v1 has none, so the machine's count.
std::vector<std::string> StallFiles(const ServiceMemory::Options& options, const Cgroup* cgroup) {
  if (options.stall_share <= 0) return {};
  std::vector<std::string> files;
  const std::string own = cgroup == nullptr ? "" : cgroup->path() + "/memory.pressure";
  if (!own.empty() && access(own.c_str(), R_OK) == 0) {
    files.push_back(own);
    if (!options.own_cgroup.empty()) files.push_back(options.own_cgroup + "/memory.pressure");
  } else {
    files.push_back(options.roots.Proc("/pressure/memory"));
  }
  return files;
}

constexpr double kLeast = 1.0 / 8;

// In a file of the kernel's list of nodes.
std::vector<int> NodeList(const SysRoots& roots, const std::string& file) {
  const Result<std::string> text = ReadLine(roots.Sys("/devices/system/node/" + file));
  if (!text) return {};
  const Result<CpuList> nodes = ParseCpuList(*text);
  return nodes ? *nodes : std::vector<int>();
}

std::vector<int> Without(std::vector<int> nodes, const std::vector<int>& others) {
  std::erase_if(nodes, [&others](int node) { return std::ranges::count(others, node) > 0; });
  return nodes;
}

// The nodes of `allowed` (empty: all) whose memory counts; empty: the machine's, of which the
// machine's own sum knows more about memory that cannot be freed.
std::vector<int> CountedNodes(const std::vector<int>& allowed, const std::vector<int>& online,
                              const std::vector<int>& devices) {
  const bool has_all = allowed.empty() || allowed == online;
  if (has_all && devices.empty()) return {};
  std::vector<int> counted = Without(has_all ? online : allowed, devices);
  return counted.empty() ? allowed : counted;
}

}  // namespace

std::vector<int> OnlineNodes(const SysRoots& roots) { return NodeList(roots, "online"); }

std::vector<int> DeviceNodes(const SysRoots& roots) {
  std::vector<int> nodes = NodeList(roots, "has_generic_initiator");
  if (nodes.empty()) return nodes;
  nodes = Without(std::move(nodes), NodeList(roots, "has_cpu"));
  const std::vector<int> without_memory = Without(nodes, NodeList(roots, "has_memory"));
  return Without(std::move(nodes), without_memory);
}

uint64_t NodeWatermarks(const SysRoots& roots, const std::vector<int>& nodes) {
  const Result<std::string> text = ReadFile(roots.Proc("/zoneinfo"), 16 << 20);
  if (!text) return 0;
  uint64_t pages = 0;
  bool counts = false;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string_view line = Cut(&rest, '\n');
    constexpr std::string_view kNode = "Node ";
    if (line.starts_with(kNode)) {
      const int node = LeadingNumber<int>(line.substr(kNode.size()));
      counts = std::find(nodes.begin(), nodes.end(), node) != nodes.end();
      continue;
    }
    const size_t word = line.find_first_not_of(' ');
    if (!counts || word == std::string_view::npos || !line.substr(word).starts_with("low ")) {
      continue;
    }
    const size_t digits = line.find_first_of("0123456789");
    if (digits != std::string_view::npos) pages += LeadingNumber<uint64_t>(line.substr(digits));
  }
  return 2 * pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

Result<HostMemory> ReadHostMemory(const SysRoots& roots, const std::vector<int>& nodes) {
  if (nodes.empty()) {
    const Result<std::string> text = ReadFile(roots.Proc("/meminfo"));
    if (!text) return text.error();
    return HostMemory{MeminfoField(*text, "MemTotal"), MeminfoField(*text, "MemFree"),
                      MeminfoField(*text, "MemAvailable"), FilePages(*text)};
  }
  HostMemory sum;
  for (const int node : nodes) {
    const Result<HostMemory> one = ReadNode(roots, node);
    if (!one) return one.error();
    sum.total += one->total;
    sum.free += one->free;
    sum.available += one->available;
    sum.files += one->files;
  }
  return sum;
}

Result<HostMemory> HostReadings::Read(const SysRoots& roots, const std::vector<int>& nodes,
                                      uint64_t now_ns) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = by_nodes_.find(nodes);
    if (known != by_nodes_.end() && now_ns < known->second.read_ns + kFreshNs)
      return known->second.memory;
  }
  const Result<HostMemory> read = ReadHostMemory(roots, nodes);
  if (!read) return read;
  const std::lock_guard lock(mutex_);
  by_nodes_[nodes] = {now_ns, *read};
  return read;
}

ServiceMemory::ServiceMemory(Options options, std::shared_ptr<const Cgroup> cgroup)
    : options_(std::move(options)),
      cgroup_(std::move(cgroup)),
      online_(OnlineNodes(options_.roots)),
      devices_(DeviceNodes(options_.roots)),
      stall_(StallFiles(options_, cgroup_.get()), options_.stall_share) {}

uint64_t ServiceMemory::OwnCache() const {
  return options_.own_cache == nullptr ? 0 : options_.own_cache->load(std::memory_order_relaxed);
}

uint64_t ServiceMemory::NowNs() const {
  return options_.now_ns ? options_.now_ns() : MonotonicNs();
}

Result<HostMemory> ServiceMemory::ReadNodes(const std::vector<int>& nodes) {
  if (options_.readings == nullptr) return ReadHostMemory(options_.roots, nodes);
  return options_.readings->Read(options_.roots, nodes, NowNs());
}

// Reads the nodes of the cpuset, which may change at any time.
Result<HostMemory> ServiceMemory::ReadAllowed() {
  const std::vector<int> allowed =
      cgroup_ == nullptr ? std::vector<int>() : cgroup_->AllowedNodes();
  const std::vector<int> nodes = CountedNodes(allowed, online_, devices_);
  uint64_t watermarks = 0;
  {
    const std::lock_guard lock(mutex_);
    if (nodes != nodes_) {
      watermarks_ = nodes.empty() ? 0 : NodeWatermarks(options_.roots, nodes);
      nodes_ = nodes;
    }
    watermarks = watermarks_;
  }
  Result<HostMemory> host = ReadNodes(nodes);
  if (!host) return ReadNodes({});
  host->available -= std::min(host->available, watermarks);
  return host;
}

uint64_t ServiceMemory::MachineBudget(const Options& options) {
  const Result<HostMemory> host = ReadHostMemory(
      options.roots, CountedNodes({}, OnlineNodes(options.roots), DeviceNodes(options.roots)));
  if (!host) return 0;
  const auto threshold = static_cast<uint64_t>(
      static_cast<double>(WithoutReserve(options, host->total)) * options.share);
  const uint64_t taken = host->total > host->available ? host->total - host->available : 0;
  return threshold > taken ? threshold - taken : 0;
}

// Counts only our own page cache.
MemoryReading ServiceMemory::OwnReading(uint64_t limit, double share) const {
  MemoryReading own;
  own.limit = limit;
  own.used = own.cache = OwnCache();
  own.is_estimate = own.used != 0;
  own.threshold = static_cast<uint64_t>(static_cast<double>(limit) * share);
  return own;
}

std::optional<MemoryReading> ServiceMemory::ReadHost() {
  const Result<HostMemory> host = ReadAllowed();
  if (!host) return std::nullopt;
  MemoryReading reading;
  reading.limit = WithoutReserve(options_, host->total);
  // Our account may exceed reality: the kernel reclaims silently.
  reading.cache = std::min(OwnCache(), host->files);
  reading.is_estimate = reading.cache != 0;
  const uint64_t taken = host->total > host->available ? host->total - host->available : 0;
  reading.used = taken + reading.cache;
  reading.threshold = static_cast<uint64_t>(static_cast<double>(reading.limit) * options_.share);
  return reading;
}

// Tasks that stall for memory need some: the page cache gets only a part of its share.
void ServiceMemory::Withhold(MemoryReading* reading) {
  const std::lock_guard lock(mutex_);
  if (!stall_.IsKnown()) return;
  const double keep = stall_.Keep(NowNs());
  if (keep < 1 && keep_ == 1) {
    uint64_t cache = reading->cache;
    if (cache == 0 && reading->is_cgroup) {
      const std::optional<MemoryReading> group = cgroup_->Read(options_.share, true);
      if (group) cache = group->cache;
    }
    const uint64_t other = reading->used > cache ? reading->used - cache : 0;
    window_ = reading->threshold > other ? reading->threshold - other : 0;
  }
  keep_ = keep;
  const auto part = static_cast<uint64_t>(static_cast<double>(window_) * (1 - keep));
  reading->withheld = std::min(part, reading->threshold);
  reading->threshold -= reading->withheld;
}

MemoryReading ServiceMemory::Read(bool with_cache) {
  MemoryReading best;
  bool has_best = false;
  const bool uses_limit = uses_limit_.load(std::memory_order_relaxed);
  const auto consider = [&](std::optional<MemoryReading> reading) {
    if (reading && uses_limit) reading->UseLimit();
    if (!reading || (has_best && reading->Slack() >= best.Slack())) return;
    best = *reading;
    has_best = true;
  };
  consider(ReadHost());
  if (cgroup_ != nullptr) consider(cgroup_->Read(options_.share, with_cache));
  if (options_.limit_bytes != 0) consider(OwnReading(options_.limit_bytes, options_.share));
  if (options_.share_bytes != nullptr) {
    // The total behind this share has been reduced already.
    const uint64_t share = options_.share_bytes->load(std::memory_order_relaxed);
    if (share != kNoMemoryShare) consider(OwnReading(share, 1));
  }
  if (has_best) Withhold(&best);
  if (cgroup_ != nullptr) best.group_used = cgroup_->Used();
  return best;
}

MemoryStall::MemoryStall(const std::vector<std::string>& paths, double share) : share_(share) {
  for (const std::string& path : paths) {
    File file;
    file.fd.Reset(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    // With psi=0 on the kernel's command line the file exists but cannot be read.
    if (file.fd.IsValid() && ReadStallTotal(file.fd, &file.total_us))
      files_.push_back(std::move(file));
  }
}

bool ReadStallTotal(const UniqueFd& fd, uint64_t* us) {
  char buffer[256];
  const ssize_t got = pread(fd.Get(), buffer, sizeof(buffer), 0);
  if (got <= 0) return false;
  const std::string_view text(buffer, static_cast<size_t>(got));
  constexpr std::string_view kTotal = "total=";
  // "some" is the first line.
  const size_t at = text.starts_with("some ") ? text.find(kTotal) : std::string_view::npos;
  if (at == std::string_view::npos) return false;
  const char* first = text.data() + at + kTotal.size();
  return std::from_chars(first, text.data() + text.size(), *us).ec == std::errc();
}

double MemoryStall::Keep(uint64_t now_ns) {
  if (looked_ns_ != 0 && now_ns < looked_ns_ + kNsPerSec) return keep_;
  double worst = 0;
  for (File& file : files_) {
    uint64_t total_us = 0;
    if (!ReadStallTotal(file.fd, &total_us)) continue;
    if (looked_ns_ != 0 && total_us > file.total_us) {
      worst = std::max(worst, static_cast<double>(total_us - file.total_us) * 1000 /
                                  static_cast<double>(now_ns - looked_ns_));
    }
    file.total_us = total_us;
  }
  looked_ns_ = now_ns;
  if (worst > share_) {
    keep_ = std::max(keep_ / 2, kLeast);
  } else if (worst < share_ / 2) {
    keep_ = std::min(keep_ * 2, 1.0);
  }
  return keep_;
}

}  // namespace ppc
