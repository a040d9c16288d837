// SPDX-License-Identifier: Apache-2.0
// Owns reading the memory of the machine and its NUMA nodes, and the budget of a service: the
// tighter of its cgroup and the machine.
// Owns the share of time that tasks wait for memory, too.
// Threads: any.
#ifndef PPC_DAEMON_MACHINE_HOST_MEMORY_H_
#define PPC_DAEMON_MACHINE_HOST_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/cgroup.h"
#include "daemon/machine/memory_source.h"
#include "daemon/machine/roots.h"

namespace ppc {

// Owns the share of time in which tasks wait for memory, from the kernel's pressure stall counters
// (`some ... total=`), and its effect on the prefetch window.
//
// Each second in which tasks waited more than `share` halves the window, down to an eighth; each in
// which they waited less than half of that doubles it again.
// Threads: the caller locks.
//
// The "some ... total=" of a pressure file, in microseconds; false: it cannot be read.
bool ReadStallTotal(const UniqueFd& fd, uint64_t* us);

class MemoryStall {
 public:
  // Files like /proc/pressure/memory; missing ones (a kernel without PSI) are skipped.  The worst
  // of several counts.
  MemoryStall(const std::vector<std::string>& paths, double share);

  bool IsKnown() const { return !files_.empty(); }
  // Share of the window to use: 1, 1/2, 1/4 or 1/8.  Looks at most once a second.
  double Keep(uint64_t now_ns);

 private:
  struct File {
    UniqueFd fd;
    uint64_t total_us = 0;
  };

  const double share_;
  std::vector<File> files_;
  uint64_t looked_ns_ = 0;
  double keep_ = 1;
};

// Bytes.  available = free, and what can be freed without swapping, clean page cache included.
struct HostMemory {
  uint64_t total = 0;
  uint64_t free = 0;
  uint64_t available = 0;
  uint64_t files = 0;  // page cache of files
};

std::vector<int> OnlineNodes(const SysRoots& roots);
// Those whose memory is a device's own (an accelerator's, GH200): it has no CPU, and the firmware
// names a device there that starts accesses.
std::vector<int> DeviceNodes(const SysRoots& roots);

// Memory of the machine, or only of `nodes` if not empty.
Result<HostMemory> ReadHostMemory(const SysRoots& roots, const std::vector<int>& nodes);

// Bytes to keep free on `nodes` so that the kernel does not reclaim there: twice the low watermarks
// of their zones.  0 if /proc/zoneinfo cannot be read.
uint64_t NodeWatermarks(const SysRoots& roots, const std::vector<int>& nodes);

// Shares one reading of the machine's memory among services that ask within a millisecond.
class HostReadings {
 public:
  Result<HostMemory> Read(const SysRoots& roots, const std::vector<int>& nodes, uint64_t now_ns);

 private:
  static constexpr uint64_t kFreshNs = 1'000'000;
  struct Reading {
    uint64_t read_ns = 0;
    HostMemory memory;
  };
  std::mutex mutex_;  // not held while reading
  std::map<std::vector<int>, Reading> by_nodes_;
};

inline constexpr uint64_t kNoMemoryShare = ~uint64_t{0};

// Memory budget of one service (or of the mount when there is none).
class ServiceMemory : public MemorySource {
 public:
  struct Options {
    SysRoots roots;
    double share = 0.85;         // threshold as a share of the limit
    uint64_t limit_bytes = 0;    // of our own page cache, from the configuration; 0 = none
    uint64_t reserve_bytes = 0;  // kept free on the machine (devices with unified memory)
    double reserve_share = 0;    // likewise, as a share of the machine's memory; the larger counts
    double stall_share = 0.1;    // of a second, see MemoryStall; 0 = stalls do not count
    // Page cache that we loaded and did not drop.  The machine counts it as available, but filling
    // the rest as well makes the kernel reclaim what is needed first.
    const std::atomic<uint64_t>* own_cache = nullptr;
    // Page cache that other runners leave to us; kNoMemoryShare or nullptr = all.
    const std::atomic<uint64_t>* share_bytes = nullptr;
    // Our own cgroup's directory: reclaim that our loads cause stalls us.  "" = none.
    std::string own_cgroup;
    std::function<uint64_t()> now_ns;        // nullptr = CLOCK_MONOTONIC
    std::shared_ptr<HostReadings> readings;  // shared among services; nullptr = each reads itself
  };

  // cgroup may be nullptr.
  ServiceMemory(Options options, std::shared_ptr<const Cgroup> cgroup);
  MemoryReading Read(bool with_cache) override;
  void SetUsesLimit(bool on) override { uses_limit_.store(on, std::memory_order_relaxed); }

  // Page cache that models may use on this machine, all runners together.
  static uint64_t MachineBudget(const Options& options);

 private:
  std::optional<MemoryReading> ReadHost();
  MemoryReading OwnReading(uint64_t limit, double share) const;
  Result<HostMemory> ReadAllowed();
  void Withhold(MemoryReading* reading);
  uint64_t OwnCache() const;
  uint64_t NowNs() const;
  Result<HostMemory> ReadNodes(const std::vector<int>& nodes);

  const Options options_;
  const std::shared_ptr<const Cgroup> cgroup_;
  const std::vector<int> online_;
  const std::vector<int> devices_;  // nodes that do not count

  std::atomic<bool> uses_limit_{false};
  std::mutex mutex_;        // protects the members below
  std::vector<int> nodes_;  // allowed by the cpuset at the last look; empty = all
  uint64_t watermarks_ = 0;
  MemoryStall stall_;
  double keep_ = 1;
  uint64_t window_ = 0;  // what the page cache could use when the stall began
};

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_HOST_MEMORY_H_
