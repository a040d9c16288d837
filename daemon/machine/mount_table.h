// SPDX-License-Identifier: Apache-2.0
// Owns reading the mount table (/proc/self/mountinfo).  Accesses no path in it, so a file system
// that does not answer delays no caller.
// Threads: any.
#ifndef PPC_DAEMON_MACHINE_MOUNT_TABLE_H_
#define PPC_DAEMON_MACHINE_MOUNT_TABLE_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "daemon/machine/roots.h"

namespace ppc {

struct MountEntry {
  int id = 0;
  int parent = 0;
  std::string dev;    // "major:minor"
  std::string point;  // absolute
  std::string type;
  std::string source;
};

// Every mount of this mount namespace; none if the table cannot be read.
std::vector<MountEntry> ReadMountTable(const SysRoots& roots);

// The mount of an absolute path, by its text alone: symbolic links, and mounts that hide a
// directory above, are not resolved.  The topmost of several on one mount point.  nullptr: none.
const MountEntry* FindMount(const std::vector<MountEntry>& table, const std::string& path);

// The type of the file system with this device, such as "ext4" or "fuse.s3fs"; "": not in the
// table.
std::string MountType(const SysRoots& roots, dev_t device);

// Fetches each open file as one stream, which out-of-order reads begin anew, and for which loads
// take the bandwidth: nothing is to be loaded there.
inline constexpr std::string_view kStreamed = "fuse.rclone";
inline constexpr const char* kStreamedLimit =
    "rclone fetches each open file as one stream, which loads would slow down: nothing is loaded "
    "ahead";

// An absolute path in the table's form: without "//", "/./" and a trailing slash.
std::string NormalPath(const std::string& path);

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_MOUNT_TABLE_H_
