// SPDX-License-Identifier: Apache-2.0
// Owns one memory cgroup as the kernel shows it: its identity, and the limits and use of it and of
// all its ancestors, v2 (memory.max, memory.high) and v1.
// Tells by the names of groups which of them belong to one tenant.
// Threads: Read by any.
#ifndef PPC_DAEMON_MACHINE_CGROUP_H_
#define PPC_DAEMON_MACHINE_CGROUP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/memory_source.h"
#include "daemon/machine/roots.h"

namespace ppc {

class Cgroup {
 public:
  // `path`: a directory below /sys/fs/cgroup, or in the form of /proc/PID/cgroup ("/a/b").
  static Result<Cgroup> Open(const std::string& path, const SysRoots& roots);

  // The tightest limit of this cgroup and its ancestors at `share` of each; nothing if unlimited.
  std::optional<MemoryReading> Read(double share, bool with_cache) const;
  // Use of it and its descendants, limited or not; 0 if not counted.
  uint64_t Used() const;
  // The directory above all limits of this cgroup and its ancestors; "" without a limit.  On v2
  // only the root may have processes beside groups with a memory controller.
  std::string Unlimited() const;
  static constexpr const char* kBurnPrefix = "ppc-burn-";
  // The place for groups that loads are charged to (BurnGroups).  v1: below this group.  v2: in a
  // directory of their own, which may not exist yet.  A v2 group with processes has no children
  // with a memory controller, so the directory lies beside the group, unless the group has such
  // children already.  The group's limit does not count the directory beside it; Read() and Used()
  // do.  "": nowhere.
  struct LoadPlace {
    std::string directory;
    bool is_beside = false;
  };
  const LoadPlace& load_place() const { return load_place_; }
  // The room that the group's own limit leaves for groups beside it; nothing without a limit, or if
  // these groups count in it.
  std::optional<uint64_t> RoomBeside() const;
  // NUMA nodes that cpuset.mems allows now, v2 or v1; empty = all.
  std::vector<int> AllowedNodes() const;
  // True if `other`, in the form of /proc/PID/cgroup, is this cgroup or below it.
  bool Contains(const std::string& other) const;

  const std::string& path() const { return path_; }          // directory
  const std::string& relative() const { return relative_; }  // below its hierarchy's root
  bool is_v1() const { return is_v1_; }
  uint64_t id() const { return id_; }  // inode of the directory
  // True if `event_id`, a cgroup2 id (0: none), is this cgroup; never true for v1, whose ids are of
  // another hierarchy.
  bool IsOfEvent(uint64_t event_id) const { return !is_v1_ && event_id != 0 && event_id == id_; }
  int fd() const { return directory_.Get(); }

 private:
  // One directory between the cgroup and the root, with open files.
  struct Level {
    UniqueFd limit;
    UniqueFd high;  // v2 only
    UniqueFd used;
    UniqueFd stat;
    std::string directory;
    bool is_v1 = false;
  };

  Cgroup() = default;
  static Level OpenLevel(const std::string& directory);
  static LoadPlace LoadPlaceOf(const Level& level, const std::string& root);
  static uint64_t Limit(const Level& level);
  uint64_t UsedOf(const Level& level) const;
  uint64_t CleanCache(const Level& level) const;

  UniqueFd directory_;
  UniqueFd mems_;     // cpuset.mems.effective of the nearest group that has one
  std::string root_;  // of the hierarchy, as visible here
  std::string path_;
  std::string relative_;  // below the hierarchy's root, starts with "/"
  uint64_t id_ = 0;
  bool is_v1_ = false;
  std::vector<Level> levels_;
  LoadPlace load_place_;
  bool is_counted_ = false;  // the first level is the group's own
};

// Owns telling which control groups belong to one tenant, by their names.
// Threads: any.
//
// The topmost group around this one that is one tenant's: a pod, a container, a systemd unit.
// Above it are slices and parents of container engines.  "": there are only these.  `cgroup`: in
// the form of /proc/PID/cgroup.
std::string TenantGroup(const std::string& cgroup);

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_CGROUP_H_
