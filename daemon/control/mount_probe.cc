// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/mount_probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <memory>
#include <sstream>

#include "daemon/base/files.h"

namespace ppc::control {
namespace {

struct CloseDir {
  void operator()(DIR* dir) const { closedir(dir); }
};

std::vector<std::string> EntriesOf(const std::string& dir) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseDir> stream(opendir(dir.c_str()));
  if (!stream) return names;
  while (const dirent* entry = readdir(stream.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct FreeText {
  void operator()(char* text) const { std::free(text); }
};

// Device number and "is the root of a mount"; attributes that the file system
// has at hand are enough, a dead network server must not stop ppcd.
Result<struct statx> StatPath(const std::string& path) {
  struct statx info {};
  if (statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC, STATX_TYPE, &info) != 0) {
    return PosixError(path, errno);
  }
  return info;
}

uint64_t InodeOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

// mountinfo writes blanks and backslashes as \ooo.
std::string Unescape(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                               (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace

MountProbe::MountProbe(const SysRoots& roots)
    : class_dir_(roots.Sys("/fs/ppc")), mountinfo_(roots.Proc("/self/mountinfo")) {}

Status MountProbe::Complete(MountInfo& mount) const {
  for (const std::string& name : EntriesOf(class_dir_)) {
    const auto [end, ec] = std::from_chars(name.data(), name.data() + name.size(), mount.index);
    if (ec != std::errc() || *end != '\0') continue;
    const Result<std::string> text = ReadLine(class_dir_ + "/" + name + "/dev");
    if (!text || *text != mount.dev) continue;
    mount.node = InodeOf(class_dir_ + "/" + name);
    return Ok();
  }
  return Error{EINVAL,
               mount.path + " is not on a ppc mount; mount -t ppc BASE " + mount.path + " first"};
}

Result<MountInfo> MountProbe::Find(const std::string& path) const {
  if (path.empty() || path[0] != '/' || path.size() >= PATH_MAX ||
      path.find('\0') != std::string::npos) {
    return Error{EINVAL, "mount must be an absolute path, not '" + path.substr(0, 80) + "'"};
  }
  const std::unique_ptr<char, FreeText> real(realpath(path.c_str(), nullptr));
  if (!real) return PosixError(path, errno);
  const Result<struct statx> info = StatPath(real.get());
  if (!info) return info.error();
  MountInfo mount;
  mount.path = real.get();
  mount.dev = std::to_string(info->stx_dev_major) + ":" + std::to_string(info->stx_dev_minor);
  if (Status status = Complete(mount); !status) return status.error();
  const bool tells_root = (info->stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0;
  if (tells_root && (info->stx_attributes & STATX_ATTR_MOUNT_ROOT) == 0) {
    return Error{EINVAL, mount.path + " lies inside a ppc mount; name the mount point itself"};
  }
  return mount;
}

bool MountProbe::IsThere(const MountInfo& mount) const {
  const std::string dir = class_dir_ + "/" + std::to_string(mount.index);
  const Result<std::string> dev = ReadLine(dir + "/dev");
  return dev && *dev == mount.dev && InodeOf(dir) == mount.node;
}

std::vector<MountInfo> MountProbe::All() const {
  constexpr size_t kMaxMountInfoBytes = 16 << 20;
  std::vector<MountInfo> mounts;
  const Result<std::string> text = ReadFile(mountinfo_, kMaxMountInfoBytes);
  if (!text) return mounts;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    // ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS [tags...] - TYPE SOURCE SUPER
    const size_t separator = line.find(" - ");
    if (separator == std::string::npos || line.compare(separator + 3, 4, "ppc ") != 0) continue;
    std::istringstream fields(line);
    std::string id, parent, dev, root, point;
    fields >> id >> parent >> dev >> root >> point;
    MountInfo mount{Unescape(point), 0, dev, 0};
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
