// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string_view>
#include <vector>

#include "daemon/base/files.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/mount_table.h"

namespace ppc {
namespace {

bool IsOneOf(const std::string& type, std::initializer_list<std::string_view> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

// File systems without files on a disk or a server.
bool IsMadeUp(const std::string& type) {
  return IsOneOf(type,
                 {"autofs",  "binfmt_misc", "bpf",      "cgroup",    "cgroup2",    "configfs",
                  "debugfs", "devpts",      "efivarfs", "fusectl",   "mqueue",     "nsfs",
                  "proc",    "pstore",      "ramfs",    "rootfs",    "rpc_pipefs", "securityfs",
                  "sysfs",   "tracefs",     "devtmpfs", "hugetlbfs", "tmpfs"});
}

// File systems that answer at once, from memory or a local disk.
bool IsLocal(const std::string& type) {
  return IsMadeUp(type) ||
         IsOneOf(type, {"bcachefs", "btrfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs",
                        "iso9660", "jfs", "overlay", "squashfs", "udf", "vfat", "xfs"});
}

// True if every mount that the walk to `path` may cross is local.
bool IsWalkLocal(const std::vector<MountEntry>& table, const std::string& path) {
  return std::all_of(table.begin(), table.end(), [&](const MountEntry& entry) {
    const std::string below = entry.point == "/" ? "/" : entry.point + "/";
    return !(path + "/").starts_with(below) || IsLocal(entry.type);
  });
}

Status CheckFileSystem(const std::string& path, const MountEntry* mount) {
  if (mount == nullptr || mount->type == "ppc") return Ok();
  if (IsMadeUp(mount->type)) {
    return Error{EINVAL, path + " is on " + mount->type +
                             ", where there is nothing to load; name a directory on a disk or a "
                             "network file system"};
  }
  if (mount->type == "zfs") {
    return Error{EINVAL, path +
                             " is on zfs, which keeps its files outside the page cache; name a "
                             "directory on another file system"};
  }
  return Ok();
}

// Invalid with errno; EAGAIN: the answer might take long.
UniqueFd OpenDirectory(const std::string& path, bool may_wait) {
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS | (may_wait ? 0 : RESOLVE_CACHED);
  return OpenAt2(AT_FDCWD, path, how);
}

Status WhyNot(const std::string& path, int code) {
  switch (code) {
    case ENOENT:
      return Error{ENOENT, path + " does not exist; name a directory that does"};
    case ENOTDIR:
      return Error{ENOTDIR, path + " is not a directory; name the directory that the files lie in"};
    case ELOOP:
      return Error{ELOOP, path + " leads through a symbolic link; name the directory itself"};
    default:
      return PosixError("open " + path, code);
  }
}

Status Identify(int fd, Directory* directory) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return PosixError("look at " + directory->path, errno);
  directory->dev = std::to_string(major(info.st_dev)) + ":" + std::to_string(minor(info.st_dev));
  directory->ino = info.st_ino;
  return Ok();
}

}  // namespace

Result<Directory> FindDirectory(const std::string& path, const SysRoots& roots,
                                DirectoryWalk walk) {
  if (path.empty() || path[0] != '/' || path.size() >= PATH_MAX ||
      path.find('\0') != std::string::npos || (path + "/").find("/../") != std::string::npos) {
    return Error{EINVAL, "a directory must be an absolute path without '..', not '" +
                             path.substr(0, 80) + "'"};
  }
  Directory directory{NormalPath(path), "", 0};
  const std::vector<MountEntry> table = ReadMountTable(roots);
  Status known = CheckFileSystem(directory.path, FindMount(table, directory.path));
  if (!known) return known.error();
  const bool may_wait = walk == DirectoryWalk::kWait || IsWalkLocal(table, directory.path);
  const UniqueFd fd = OpenDirectory(directory.path, may_wait);
  if (!fd.IsValid() && !may_wait && (errno == EAGAIN || errno == EINVAL)) return directory;
  Status identified = fd.IsValid() ? Identify(fd.Get(), &directory) : WhyNot(directory.path, errno);
  if (!identified) return identified.error();
  return directory;
}

bool IsSameDirectory(const Directory& directory, const SysRoots& roots) {
  const std::vector<MountEntry> table = ReadMountTable(roots);
  const UniqueFd fd = OpenDirectory(directory.path, IsWalkLocal(table, directory.path));
  if (!fd.IsValid()) return errno != ENOENT && errno != ENOTDIR && errno != ELOOP;
  Directory now{directory.path, "", 0};
  if (directory.ino == 0 || !Identify(fd.Get(), &now)) return true;
  return now.dev == directory.dev && now.ino == directory.ino;
}

}  // namespace ppc
