// SPDX-License-Identifier: Apache-2.0
// Owns whether other cgroups on the machine wait for I/O, by their pressure (io.pressure, `some`):
// all that lie beside the way to our own cgroup, except those of our services and of other runners.
//
// Pressure is not reported per device: a neighbour may wait for another device.
// Threads: SetServices by any, Waiting by one at a time.
#ifndef PPC_DAEMON_MACHINE_IO_NEIGHBOURS_H_
#define PPC_DAEMON_MACHINE_IO_NEIGHBOURS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/machine/roots.h"

namespace ppc {

// A process's cgroup in the unified hierarchy, below its root; "" if it has none.
std::string UnifiedCgroup(const SysRoots& roots, int pid);

class IoNeighbours {
 public:
  IoNeighbours(const SysRoots& roots, int own_pid);

  // Cgroups of services, below the hierarchy's root, each with its descendants.  While there are
  // none, it is unknown which cgroups are ours, and there is no neighbour.
  void SetServices(std::vector<std::string> paths);

  // The largest share of the time since the last look in which a neighbour waited.  Looks at most
  // once a second.
  double Waiting(uint64_t now_ns);

 private:
  static constexpr size_t kMaxNeighbours = 256;

  void Look(const std::string& directory, const std::string& ours, uint64_t now_ns);
  bool IsOurs(const std::string& path) const;

  std::string root_;
  std::string own_;
  std::mutex mutex_;
  std::vector<std::string> services_;
  // Used by the looking thread.
  std::vector<std::string> excluded_;
  std::map<std::string, uint64_t> totals_us_;  // by path, at the last look
  std::map<std::string, uint64_t> seen_us_;
  uint64_t looked_ns_ = 0;
  double waiting_ = 0;
  double worst_ = 0;
};

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_IO_NEIGHBOURS_H_
