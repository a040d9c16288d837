// SPDX-License-Identifier: Apache-2.0
// Owns the question "which ppc mount is this path": the device number that the
// mount table has for it against /sys/fs/ppc/N/dev.  Keeps no reference on a
// mount, and looks up no path that a client gives: the server of a file system
// above or below it may be dead, and ppcd has one thread.
// Threads: any.
#ifndef PPC_DAEMON_CONTROL_MOUNT_PROBE_H_
#define PPC_DAEMON_CONTROL_MOUNT_PROBE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/json.h"
#include "daemon/base/result.h"
#include "daemon/machine/roots.h"

namespace ppc::control {

struct MountInfo {
  std::string path;    // mount point
  unsigned index = 0;  // N of /dev/ppcN
  std::string dev;     // "major:minor"
  uint64_t node = 0;   // inode of /sys/fs/ppc/N: tells a later mount with the same numbers apart
};

class MountProbe {
 public:
  explicit MountProbe(const SysRoots& roots);

  // `path` must be the mount point of a mount of type ppc, as the mount table writes it: symbolic
  // links are not followed.
  Result<MountInfo> Find(const std::string& path) const;

  // False once the mount is gone (unmounted, its device removed).
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

#endif  // PPC_DAEMON_CONTROL_MOUNT_PROBE_H_
