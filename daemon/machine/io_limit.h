// SPDX-License-Identifier: Apache-2.0
// Owns the read limits of a cgroup and its ancestors on the device below a file system: io.max of
// v2, blkio.throttle of v1.  In the kernel, loads that run outside the cgroup escape these limits,
// so the loader obeys them itself.
// Threads: the caller locks.
#ifndef PPC_DAEMON_MACHINE_IO_LIMIT_H_
#define PPC_DAEMON_MACHINE_IO_LIMIT_H_

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/unique_fd.h"
#include "daemon/machine/roots.h"

namespace ppc {

struct BlockDevice {
  uint32_t major = 0;
  uint32_t minor = 0;
  auto operator<=>(const BlockDevice&) const = default;
};

// The device and all below it: a partition's disk, the parts of a mapped or RAID device.  An
// anonymous device (btrfs) is looked up in the mount table; empty: no block device (NFS).
std::vector<BlockDevice> DevicesBelow(const SysRoots& roots, BlockDevice device);

// Bytes per request, for limits on the number of requests: the loader's step, or less if the device
// takes less.
uint64_t RequestBytes(const SysRoots& roots, BlockDevice device);

// One level of the hierarchy.
struct IoLevel {
  uint64_t id = 0;     // of its directory: services below it share its limit
  uint64_t rate = 0;   // bytes a second, 0 = no limit
  BlockDevice device;  // that is limited
  std::string directory;
  bool operator==(const IoLevel&) const = default;
};

class IoLimit {
 public:
  // `cgroup`: its directory; limits of all directories up to the hierarchy's root count.
  IoLimit(SysRoots roots, const std::string& cgroup);

  bool IsKnown() const { return !levels_.empty(); }
  // Current limits for reading from `device`, by level; reads the files anew.
  std::vector<IoLevel> Read(BlockDevice device);

 private:
  struct Level {
    uint64_t id = 0;
    std::string directory;
    UniqueFd max;   // v2
    UniqueFd bps;   // v1
    UniqueFd iops;  // v1
  };
  void AddLevel(const std::string& directory);

  const SysRoots roots_;
  std::vector<Level> levels_;
  BlockDevice device_;  // that `below_` belongs to
  std::vector<BlockDevice> below_;
  uint64_t request_bytes_ = 0;
};

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_IO_LIMIT_H_
