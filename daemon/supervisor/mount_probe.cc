// SPDX-License-Identifier: Apache-2.0
#include "daemon/supervisor/mount_probe.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <memory>
#include <string_view>

#include "daemon/base/files.h"
#include "daemon/base/text.h"
#include "daemon/machine/directory.h"
#include "daemon/machine/mount_table.h"

namespace ppc::control {
namespace {

// The module writes it with a prefix, so that `umount BASE` does not find our mount.
std::string BaseOf(const MountEntry& entry) {
  constexpr std::string_view kPrefix = "ppc:";
  return entry.source.starts_with(kPrefix) ? entry.source.substr(kPrefix.size()) : "";
}

uint64_t InodeOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

}  // namespace

MountProbe::MountProbe(const SysRoots& roots) : roots_(roots), class_dir_(roots.Sys("/fs/ppc")) {}

Status MountProbe::Complete(MountInfo& mount) const {
  for (const std::string& name : EntriesOf(class_dir_)) {
    const auto index = WholeNumber<decltype(mount.index)>(name);
    if (!index) continue;
    mount.index = *index;
    const Result<std::string> text = ReadLine(class_dir_ + "/" + name + "/dev");
    if (!text || *text != mount.dev) continue;
    mount.node = InodeOf(class_dir_ + "/" + name);
    return Ok();
  }
  return Error{ENODEV, mount.path + " is not on a ppc mount (symbolic links are not followed); " +
                           "mount -t ppc BASE " + mount.path + " first, or use --backend observer"};
}

Result<MountInfo> MountProbe::Find(const std::string& path) const {
  if (path.empty() || path[0] != '/' || path.size() >= PATH_MAX ||
      path.find('\0') != std::string::npos || (path + "/").find("/../") != std::string::npos) {
    return Error{EINVAL,
                 "mount must be an absolute path without '..', not '" + path.substr(0, 80) + "'"};
  }
  const std::vector<MountEntry> table = ReadMountTable(roots_);
  MountInfo mount;
  mount.path = NormalPath(path);
  const MountEntry* entry = FindMount(table, mount.path);
  if (entry != nullptr) mount.dev = entry->dev;
  if (entry != nullptr) mount.base = BaseOf(*entry);
  if (Status status = Complete(mount); !status) return status.error();
  if (entry->point != mount.path) {
    return Error{EINVAL, mount.path + " lies inside a ppc mount; name the mount point itself, " +
                             entry->point};
  }
  return mount;
}

Result<MountInfo> MountProbe::FindFor(const std::string& path, BackendKind kind) const {
  const bool takes_mount = kind == BackendKind::kAuto || kind == BackendKind::kKmod;
  Result<MountInfo> mount = Find(path);
  if (mount && takes_mount) return mount;
  if (mount) {
    return Error{EINVAL, mount->path + " is a ppc mount, which the module serves; use --backend " +
                             "kmod, or name the directory that it shows" +
                             (mount->base.empty() ? "" : ", " + mount->base)};
  }
  if (mount.error().code != ENODEV || kind == BackendKind::kKmod) return mount;
  const Result<Directory> found = FindDirectory(path, roots_, DirectoryWalk::kNever);
  if (!found) return found.error();
  // Every process would be a reader without a service.
  if (found->path == "/")
    return Error{EINVAL, "/ is all of this machine; name a directory of models"};
  MountInfo plain;
  plain.path = found->path;
  plain.dev = found->dev;
  plain.node = found->ino;
  plain.is_plain = true;
  return plain;
}

bool MountProbe::IsThere(const MountInfo& mount) const {
  if (mount.is_plain) return IsSameDirectory({mount.path, mount.dev, mount.node}, roots_);
  const std::string dir = class_dir_ + "/" + std::to_string(mount.index);
  const Result<std::string> dev = ReadLine(dir + "/dev");
  return dev && *dev == mount.dev && InodeOf(dir) == mount.node;
}

std::vector<MountInfo> MountProbe::All() const {
  std::vector<MountInfo> mounts;
  for (const MountEntry& entry : ReadMountTable(roots_)) {
    if (entry.type != "ppc") continue;
    MountInfo mount{.path = entry.point, .dev = entry.dev, .base = BaseOf(entry)};
    if (Complete(mount)) mounts.push_back(std::move(mount));
  }
  return mounts;
}

Json MountProbe::Statistics(const MountInfo& mount) const {
  Json statistics = Json::object();
  if (mount.is_plain) return statistics;
  const std::string dir = class_dir_ + "/" + std::to_string(mount.index);
  for (const std::string& name : EntriesOf(dir)) {
    const Result<std::string> text = ReadLine(dir + "/" + name);
    if (!text || text->empty()) continue;
    if (const auto value = WholeNumber<int64_t>(*text)) {
      statistics[name] = *value;
    } else if (name != "dev") {
      statistics[name] = *text;
    }
  }
  return statistics;
}

}  // namespace ppc::control
