// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/mount_probe.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <memory>

#include "daemon/base/dir_stream.h"
#include "daemon/base/files.h"
#include "daemon/machine/mount_table.h"

namespace ppc::control {
namespace {

std::vector<std::string> EntriesOf(const std::string& dir) {
  std::vector<std::string> names;
  const DirStream stream(opendir(dir.c_str()));
  if (!stream) return names;
  while (const dirent* entry = readdir(stream.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

uint64_t InodeOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

}  // namespace

MountProbe::MountProbe(const SysRoots& roots) : roots_(roots), class_dir_(roots.Sys("/fs/ppc")) {}

Status MountProbe::Complete(MountInfo& mount) const {
  for (const std::string& name : EntriesOf(class_dir_)) {
    const auto [end, ec] = std::from_chars(name.data(), name.data() + name.size(), mount.index);
    if (ec != std::errc() || *end != '\0') continue;
    const Result<std::string> text = ReadLine(class_dir_ + "/" + name + "/dev");
    if (!text || *text != mount.dev) continue;
    mount.node = InodeOf(class_dir_ + "/" + name);
    return Ok();
  }
  return Error{EINVAL, mount.path + " is not on a ppc mount (symbolic links are not followed); " +
                           "mount -t ppc BASE " + mount.path + " first"};
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
  if (Status status = Complete(mount); !status) return status.error();
  if (entry->point != mount.path) {
    return Error{EINVAL, mount.path + " lies inside a ppc mount; name the mount point itself, " +
                             entry->point};
  }
  return mount;
}

bool MountProbe::IsThere(const MountInfo& mount) const {
  const std::string dir = class_dir_ + "/" + std::to_string(mount.index);
  const Result<std::string> dev = ReadLine(dir + "/dev");
  return dev && *dev == mount.dev && InodeOf(dir) == mount.node;
}

std::vector<MountInfo> MountProbe::All() const {
  std::vector<MountInfo> mounts;
  for (const MountEntry& entry : ReadMountTable(roots_)) {
    if (entry.type != "ppc") continue;
    MountInfo mount{entry.point, 0, entry.dev, 0};
    if (Complete(mount)) mounts.push_back(std::move(mount));
  }
  return mounts;
}

Json MountProbe::Statistics(const MountInfo& mount) const {
  Json statistics = Json::object();
  const std::string dir = class_dir_ + "/" + std::to_string(mount.index);
  for (const std::string& name : EntriesOf(dir)) {
    const Result<std::string> text = ReadLine(dir + "/" + name);
    if (!text || text->empty()) continue;
    int64_t value = 0;
    const auto [end, ec] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (ec == std::errc() && *end == '\0') {
      statistics[name] = value;
    } else if (name != "dev") {
      statistics[name] = *text;
    }
  }
  return statistics;
}

}  // namespace ppc::control
