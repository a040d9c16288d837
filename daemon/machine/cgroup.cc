// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>

#include "daemon/base/cpu_set.h"
#include "daemon/base/files.h"
#include "daemon/base/text.h"

namespace ppc {
namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();
// v1 writes "no limit" as LONG_MAX rounded down to pages.
constexpr uint64_t kUnlimitedV1 = uint64_t{1} << 62;

UniqueFd OpenFile(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
}

bool IsDirectory(const std::string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
}

// Reads a number without allocating; "max" and failures are kUnlimited.
uint64_t ReadNumber(const UniqueFd& fd) {
  char text[32];
  const ssize_t got = fd.IsValid() ? pread(fd.Get(), text, sizeof(text), 0) : -1;
  uint64_t value = kUnlimited;
  if (got > 0) {
    const auto parsed = std::from_chars(text, text + got, value);
    if (parsed.ec != std::errc()) return kUnlimited;
  }
  return value;
}

// Parses "name 123\n" lines; 0 if absent.
uint64_t StatField(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    std::string_view line = Cut(&text, '\n');
    if (Cut(&line, ' ') == name) return LeadingNumber<uint64_t>(line);
  }
  return 0;
}

uint64_t CleanCacheIn(const UniqueFd& stat_file, bool v1) {
  char text[16384];
  const ssize_t got = pread(stat_file.Get(), text, sizeof(text), 0);
  if (got <= 0) return 0;
  const std::string_view stat(text, static_cast<size_t>(got));
  const uint64_t file = StatField(stat, v1 ? "total_cache" : "file");
  const uint64_t shmem = StatField(stat, v1 ? "total_shmem" : "shmem");
  const uint64_t dirty = StatField(stat, v1 ? "total_dirty" : "file_dirty") +
                         StatField(stat, v1 ? "total_writeback" : "file_writeback");
  return file > shmem + dirty ? file - shmem - dirty : 0;
}

std::string WithoutTrailingSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

struct Place {
  std::string root;
  std::string directory;
  bool is_v1 = false;
};

// Finds the directory that `path` means and the root of its hierarchy.
std::optional<Place> Locate(const std::string& path, const SysRoots& roots) {
  const std::string top = roots.Sys("/fs/cgroup");
  // The memory controller's own hierarchy first: hybrid machines have the limits there.
  for (const std::string& root : {top + "/memory", top, top + "/unified"}) {
    if (!IsDirectory(root)) continue;
    const bool is_v1 = root.ends_with("/memory");
    if (is_v1 && access((root + "/memory.limit_in_bytes").c_str(), R_OK) != 0) continue;
    if (path.starts_with(root + "/") || path == root) {
      if (IsDirectory(path)) return Place{root, path, is_v1};
    } else if (!path.starts_with(top)) {
      const std::string directory = WithoutTrailingSlash(root + path);
      if (IsDirectory(directory)) return Place{root, directory, is_v1};
    }
  }
  return std::nullopt;
}

// Groups that contain groups of many tenants.
bool IsParent(std::string_view name) {
  constexpr std::array<std::string_view, 11> kEngines = {
      "kubepods", "burstable",     "besteffort",     "kubelet",           "docker", "lxc", "ecs",
      "machine",  "libpod_parent", "condor.service", "containerd.service"};
  const bool is_of_kubernetes = name.starts_with("kubepods") || name.starts_with("kubelet");
  const bool is_pod = is_of_kubernetes && name.find("-pod") != std::string_view::npos;
  return (name.ends_with(".slice") && !is_pod) || name.ends_with("slurmstepd.scope") ||
         std::ranges::find(kEngines, name) != kEngines.end();
}

// A top-level name without a known suffix may be an unknown container engine's.
bool IsUnit(std::string_view name) {
  return name.ends_with(".slice") || name.ends_with(".scope") || name.ends_with(".service") ||
         name.starts_with("lxc.payload");
}

}  // namespace

Cgroup::Level Cgroup::OpenLevel(const std::string& directory) {
  Level level;
  level.directory = directory;
  level.limit = OpenFile(directory + "/memory.limit_in_bytes");
  level.is_v1 = level.limit.IsValid();
  if (level.is_v1) {
    level.used = OpenFile(directory + "/memory.usage_in_bytes");
  } else {
    level.limit = OpenFile(directory + "/memory.max");
    level.high = OpenFile(directory + "/memory.high");
    level.used = OpenFile(directory + "/memory.current");
  }
  level.stat = OpenFile(directory + "/memory.stat");
  return level;
}

Result<Cgroup> Cgroup::Open(const std::string& path, const SysRoots& roots) {
  if (path.empty() || path[0] != '/' || path.find("/../") != std::string::npos ||
      path.ends_with("/..")) {
    return Error{EINVAL, "cgroup \"" + path + "\" must be an absolute path without \"..\""};
  }
  const std::optional<Place> place = Locate(WithoutTrailingSlash(path), roots);
  if (!place) {
    return Error{ENOENT, "cgroup " + path + " does not exist below " + roots.Sys("/fs/cgroup")};
  }
  Cgroup group;
  group.root_ = place->root;
  group.path_ = place->directory;
  group.is_v1_ = place->is_v1;
  group.relative_ = place->directory.substr(place->root.size());
  if (group.relative_.empty()) group.relative_ = "/";
  group.directory_ = UniqueFd(open(group.path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat st {};
  if (!group.directory_.IsValid() || fstat(group.directory_.Get(), &st) != 0) {
    return PosixError("open cgroup " + group.path_, errno);
  }
  group.id_ = st.st_ino;
  // v1 keeps cpusets in a hierarchy of their own, mostly with the same paths.
  group.mems_ =
      OpenFile(roots.Sys("/fs/cgroup/cpuset" + group.relative_) + "/cpuset.effective_mems");
  for (std::string at = group.path_; at.size() >= place->root.size();) {
    if (!group.mems_.IsValid()) group.mems_ = OpenFile(at + "/cpuset.mems.effective");
    Level level = OpenLevel(at);
    if (level.limit.IsValid() && level.used.IsValid()) {
      group.is_counted_ |= at == group.path_;
      if (group.levels_.empty()) group.load_place_ = LoadPlaceOf(level, place->root);
      group.levels_.push_back(std::move(level));
    }
    at = at.substr(0, at.rfind('/'));
  }
  return group;
}

Cgroup::LoadPlace Cgroup::LoadPlaceOf(const Level& level, const std::string& root) {
  const std::string& directory = level.directory;
  struct stat st {};
  if (level.is_v1) return {directory, false};
  if (stat(directory.c_str(), &st) != 0) return {};
  const std::string name = "/" + std::string(kBurnPrefix) + std::to_string(st.st_ino);
  const Result<std::string> children = ReadLine(directory + "/cgroup.subtree_control");
  if (children && children->find("memory") != std::string::npos) return {directory + name, false};
  if (directory.size() <= root.size()) return {};
  return {directory.substr(0, directory.rfind('/')) + name, true};
}

// kUnlimited if there is none.
uint64_t Cgroup::Limit(const Level& level) {
  // Beyond memory.high the kernel throttles, which is worse than not loading.
  const uint64_t limit = std::min(ReadNumber(level.limit), ReadNumber(level.high));
  return level.is_v1 && limit >= kUnlimitedV1 ? kUnlimited : limit;
}

// Includes memory charged beside it (BurnGroups).  kUnlimited: not known.
uint64_t Cgroup::UsedOf(const Level& level) const {
  const uint64_t used = ReadNumber(level.used);
  if (used == kUnlimited || !load_place_.is_beside || &level != &levels_.front()) return used;
  const uint64_t beside = ReadNumber(OpenFile(load_place_.directory + "/memory.current"));
  return used + (beside == kUnlimited ? 0 : beside);
}

uint64_t Cgroup::CleanCache(const Level& level) const {
  const uint64_t own = CleanCacheIn(level.stat, level.is_v1);
  if (!load_place_.is_beside || &level != &levels_.front()) return own;
  return own + CleanCacheIn(OpenFile(load_place_.directory + "/memory.stat"), level.is_v1);
}

std::optional<MemoryReading> Cgroup::Read(double share, bool with_cache) const {
  std::optional<MemoryReading> tightest;
  const Level* binding = nullptr;
  for (const Level& level : levels_) {
    const uint64_t limit = Limit(level);
    const uint64_t used = limit == kUnlimited ? kUnlimited : UsedOf(level);
    if (used == kUnlimited) continue;
    MemoryReading reading;
    reading.limit = limit;
    reading.used = used;
    reading.threshold = static_cast<uint64_t>(static_cast<double>(limit) * share);
    reading.is_cgroup = true;
    if (!tightest || reading.Slack() < tightest->Slack()) {
      tightest = reading;
      binding = &level;
    }
  }
  if (tightest && with_cache) tightest->cache = CleanCache(*binding);
  return tightest;
}

std::optional<uint64_t> Cgroup::RoomBeside() const {
  if (!load_place_.is_beside) return std::nullopt;
  const uint64_t limit = Limit(levels_.front());
  const uint64_t used = ReadNumber(levels_.front().used);
  if (limit == kUnlimited || used == kUnlimited) return std::nullopt;
  return limit > used ? limit - used : 0;
}

std::string Cgroup::Unlimited() const {
  std::string above;
  for (size_t i = 0; i < levels_.size(); ++i) {
    if (Limit(levels_[i]) == kUnlimited) continue;
    // The root has no limits, except the root of a namespace, whose own limits are not visible.
    const bool is_root_seen = !is_v1_ && levels_.back().directory != root_;
    if (is_root_seen) return root_;
    if (is_v1_ && i + 1 < levels_.size()) above = levels_[i + 1].directory;
  }
  return above;
}

uint64_t Cgroup::Used() const {
  const uint64_t used = is_counted_ ? UsedOf(levels_.front()) : 0;
  return used == kUnlimited ? 0 : used;
}

std::vector<int> Cgroup::AllowedNodes() const {
  char text[1024];
  const ssize_t got = mems_.IsValid() ? pread(mems_.Get(), text, sizeof(text), 0) : -1;
  if (got <= 0) return {};
  const Result<CpuList> nodes = ParseCpuList(Trim(std::string(text, static_cast<size_t>(got))));
  return nodes ? *nodes : std::vector<int>();
}

bool Cgroup::Contains(const std::string& other) const { return IsBelow(other, relative_); }

std::string TenantGroup(const std::string& cgroup) {
  for (size_t at = 0; at < cgroup.size();) {
    const size_t end = std::min(cgroup.find('/', at + 1), cgroup.size());
    const std::string_view name = std::string_view(cgroup).substr(at + 1, end - at - 1);
    if (!name.empty() && !IsParent(name)) {
      const bool may_be_parent = at == 0 && !IsUnit(name) && end < cgroup.size();
      return cgroup.substr(0, may_be_parent ? cgroup.find('/', end + 1) : end);
    }
    at = end;
  }
  return "";
}

}  // namespace ppc
