// SPDX-License-Identifier: Apache-2.0
// Owns the question "which ppc mount is this path": the device number that the
// mount table has for it against /sys/fs/ppc/N/dev; and, where it is none, whether
// it is a directory that a policy can have without one.  Keeps no reference on
// either, and looks up no path where that might take a while: the server of a file
// system above or below it may be dead, and ppcd has one thread.
// Threads: any.
#ifndef PPC_DAEMON_SUPERVISOR_MOUNT_PROBE_H_
#define PPC_DAEMON_SUPERVISOR_MOUNT_PROBE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/backend/backend_kind.h"
#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/machine/roots.h"

namespace ppc::control {

struct MountInfo {
  std::string path;       // mount point
  unsigned index = 0;     // N of /dev/ppcN
  std::string dev;        // "major:minor"
  uint64_t node = 0;      // inode of /sys/fs/ppc/N: tells a later mount with the same numbers apart
  std::string base = "";  // what the mount shows
  // A directory without a mount of ours: path, dev, and its own inode as node; these two only
  // where they were looked up.
  bool is_plain = false;

  // Tells two at one time apart.
  std::string Key() const { return is_plain ? path : "/dev/ppc" + std::to_string(index); }
  // The same mount or directory, not a later one in its place.
  bool IsSame(const MountInfo& other) const {
    const bool is_unknown = is_plain && (node == 0 || other.node == 0);
    return Key() == other.Key() &&
           (is_unknown || (node == other.node && (!is_plain || dev == other.dev)));
  }
};

class MountProbe {
 public:
  explicit MountProbe(const SysRoots& roots);

  // `path` must be the mount point of a mount of type ppc, as the mount table writes it: symbolic
  // links are not followed.  ENODEV: it is on no ppc mount.
  Result<MountInfo> Find(const std::string& path) const;

  // What a backend of this kind can be opened on: the mount, or a plain directory.
  Result<MountInfo> FindFor(const std::string& path, BackendKind kind) const;

  // False once the mount is gone (unmounted, its device removed), or the directory.
  bool IsThere(const MountInfo& mount) const;

  // Every mount of type ppc of this mount namespace.
  std::vector<MountInfo> All() const;

  // Integers of /sys/fs/ppc/N/, {} when there are none.
  Json Statistics(const MountInfo& mount) const;

 private:
  // Fills in the rest of a mount that is known by path and device number.
  Status Complete(MountInfo& mount) const;

  SysRoots roots_;
  std::string class_dir_;
};

}  // namespace ppc::control

#endif  // PPC_DAEMON_SUPERVISOR_MOUNT_PROBE_H_
