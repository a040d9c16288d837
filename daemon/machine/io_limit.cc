// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/io_limit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "daemon/base/files.h"
#include "daemon/base/text.h"
#include "daemon/machine/mount_table.h"

namespace ppc {
namespace {

constexpr uint64_t kRequestBytes = 1 << 20;

// "8:16" at the start.
std::optional<BlockDevice> ParseDevice(std::string_view text) {
  BlockDevice device;
  const char* const end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, device.major);
  if (major.ec != std::errc() || major.ptr == end || *major.ptr != ':') return std::nullopt;
  const auto minor = std::from_chars(major.ptr + 1, end, device.minor);
  if (minor.ec != std::errc()) return std::nullopt;
  return device;
}

std::optional<BlockDevice> ReadDevice(const std::string& path) {
  const Result<std::string> text = ReadLine(path);
  return text ? ParseDevice(*text) : std::nullopt;
}

std::string DirectoryOf(const SysRoots& roots, BlockDevice device) {
  return roots.Sys("/dev/block/" + std::to_string(device.major) + ":" +
                   std::to_string(device.minor));
}

// The device that the mount table names for an anonymous one.
std::optional<BlockDevice> SourceOf(const SysRoots& roots, BlockDevice device) {
  const std::string number = std::to_string(device.major) + ":" + std::to_string(device.minor);
  for (const MountEntry& entry : ReadMountTable(roots)) {
    if (entry.dev != number || !entry.source.starts_with("/dev/")) continue;
    const std::string name = entry.source.substr(entry.source.rfind('/') + 1);
    return ReadDevice(roots.Sys("/class/block/" + name + "/dev"));
  }
  return std::nullopt;
}

void AddBelow(const SysRoots& roots, BlockDevice device, std::vector<BlockDevice>* out) {
  if (std::find(out->begin(), out->end(), device) != out->end()) return;
  out->push_back(device);
  const std::string directory = DirectoryOf(roots, device);
  std::error_code error;
  if (std::filesystem::exists(directory + "/partition", error)) {
    // The real directory of a partition lies in its disk's.
    const std::filesystem::path real = std::filesystem::canonical(directory, error);
    const auto disk = ReadDevice((real.parent_path() / "dev").string());
    if (!error && disk) AddBelow(roots, *disk, out);
  }
  for (std::filesystem::directory_iterator entry(directory + "/slaves", error), end;
       !error && entry != end; entry.increment(error)) {
    const auto lower = ReadDevice((entry->path() / "dev").string());
    if (lower) AddBelow(roots, *lower, out);
  }
}

// The value of "name" in "8:0 rbps=1048576 wbps=max riops=max", 0 if there is none.
uint64_t Field(std::string_view line, std::string_view name) {
  const size_t at = line.find(name);
  return at == std::string_view::npos ? 0 : LeadingNumber<uint64_t>(line.substr(at + name.size()));
}

void Tighten(uint64_t limit, BlockDevice device, IoLevel* level) {
  if (limit == 0 || (level->rate != 0 && limit >= level->rate)) return;
  level->rate = limit;
  level->device = device;
}

// Calls `line` with every line of a file about one of `devices`, and with that device.
template <typename Line>
void ForDevices(const UniqueFd& fd, const std::vector<BlockDevice>& devices, Line line) {
  char buffer[4096];
  const ssize_t got = fd.IsValid() ? pread(fd.Get(), buffer, sizeof(buffer), 0) : -1;
  if (got <= 0) return;
  for (std::string_view text(buffer, static_cast<size_t>(got)); !text.empty();) {
    const std::string_view one = Cut(&text, '\n');
    const std::optional<BlockDevice> device = ParseDevice(one);
    if (device && std::find(devices.begin(), devices.end(), *device) != devices.end())
      line(*device, one);
  }
}

UniqueFd OpenLimit(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace

std::vector<BlockDevice> DevicesBelow(const SysRoots& roots, BlockDevice device) {
  std::vector<BlockDevice> devices;
  if (device.major == 0) {
    const std::optional<BlockDevice> source = SourceOf(roots, device);
    if (source) AddBelow(roots, *source, &devices);
  } else {
    AddBelow(roots, device, &devices);
  }
  return devices;
}

uint64_t RequestBytes(const SysRoots& roots, BlockDevice device) {
  const Result<std::string> text = ReadLine(DirectoryOf(roots, device) + "/queue/max_sectors_kb");
  const uint64_t kib = text ? LeadingNumber<uint64_t>(*text) : 0;
  return kib == 0 ? kRequestBytes : std::min(kib * 1024, kRequestBytes);
}

void IoLimit::AddLevel(const std::string& directory) {
  Level level;
  level.max = OpenLimit(directory + "/io.max");
  level.bps = OpenLimit(directory + "/blkio.throttle.read_bps_device");
  level.iops = OpenLimit(directory + "/blkio.throttle.read_iops_device");
  struct stat st {};
  if (!level.max.IsValid() && !level.bps.IsValid() && !level.iops.IsValid()) return;
  if (stat(directory.c_str(), &st) != 0) return;
  level.id = st.st_ino;
  level.directory = directory;
  levels_.push_back(std::move(level));
}

IoLimit::IoLimit(SysRoots roots, const std::string& cgroup) : roots_(std::move(roots)) {
  const std::string top = roots_.Sys("/fs/cgroup");
  for (const char* hierarchy : {"/memory", "/unified", ""}) {
    const std::string root = top + hierarchy;
    if (cgroup != root && !cgroup.starts_with(root + "/")) continue;
    const std::string relative = cgroup.substr(root.size());
    // v1 keeps block I/O in a hierarchy of its own, mostly with the same paths.
    std::error_code error;
    const bool is_v1 = std::filesystem::exists(top + "/blkio", error);
    const std::string base = is_v1 ? top + "/blkio" : root;
    for (std::string at = base + relative; at.size() >= base.size();
         at = at.substr(0, at.rfind('/'))) {
      AddLevel(at);
    }
    return;
  }
}

std::vector<IoLevel> IoLimit::Read(BlockDevice device) {
  if (below_.empty() || !(device == device_)) {
    device_ = device;
    below_ = DevicesBelow(roots_, device);
    request_bytes_ = kRequestBytes;
    for (const BlockDevice& one : below_) {
      request_bytes_ = std::min(request_bytes_, RequestBytes(roots_, one));
    }
  }
  std::vector<IoLevel> levels;
  for (const Level& level : levels_) {
    IoLevel found{level.id, 0, {}, level.directory};
    ForDevices(level.max, below_, [&](BlockDevice one, std::string_view line) {
      Tighten(Field(line, " rbps="), one, &found);
      Tighten(Field(line, " riops=") * request_bytes_, one, &found);
    });
    ForDevices(level.bps, below_, [&](BlockDevice one, std::string_view line) {
      Tighten(Field(line, " "), one, &found);
    });
    ForDevices(level.iops, below_, [&](BlockDevice one, std::string_view line) {
      Tighten(Field(line, " ") * request_bytes_, one, &found);
    });
    levels.push_back(found);
  }
  return levels;
}

}  // namespace ppc
