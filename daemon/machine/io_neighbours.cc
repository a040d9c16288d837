// SPDX-License-Identifier: Apache-2.0
#include "daemon/machine/io_neighbours.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/base/text.h"
#include "daemon/base/unique_fd.h"
#include "daemon/machine/host_memory.h"

namespace ppc {
namespace {

// ppcd's directory of runners' cgroups, which exist to load.
constexpr std::string_view kRunners = "/ppc.runners";

}  // namespace

std::string UnifiedCgroup(const SysRoots& roots, int pid) {
  const Result<std::string> text = ReadFile(roots.Proc("/" + std::to_string(pid) + "/cgroup"));
  if (!text) return "";
  constexpr std::string_view kPrefix = "0::";
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string_view line = Cut(&rest, '\n');
    if (line.starts_with(kPrefix)) return std::string(line.substr(kPrefix.size()));
  }
  return "";
}

IoNeighbours::IoNeighbours(const SysRoots& roots, int own_pid)
    : own_(UnifiedCgroup(roots, own_pid)) {
  for (const char* place : {"/fs/cgroup", "/fs/cgroup/unified"}) {
    const std::string path = roots.Sys(place);
    if (access((path + "/cgroup.controllers").c_str(), R_OK) == 0) root_ = path;
  }
}

void IoNeighbours::SetServices(std::vector<std::string> paths) {
  const std::lock_guard lock(mutex_);
  services_ = std::move(paths);
}

// A cgroup that contains one of our services is not counted as a neighbour.
bool IoNeighbours::IsOurs(const std::string& path) const {
  return std::ranges::any_of(excluded_, [&](const std::string& ours) {
    return IsBelow(path, ours) || IsBelow(ours, path);
  });
}

// Visits the children of a cgroup, except the one that leads to `ours`.
void IoNeighbours::Look(const std::string& directory, const std::string& ours, uint64_t now_ns) {
  const DirStream stream(opendir((root_ + directory).c_str()));
  while (const dirent* entry = stream ? readdir(stream.get()) : nullptr) {
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
    const std::string path = (directory == "/" ? "" : directory) + "/" + entry->d_name;
    if (IsBelow(ours, path) || IsOurs(path) || seen_us_.size() >= kMaxNeighbours) continue;
    const UniqueFd file(open((root_ + path + "/io.pressure").c_str(), O_RDONLY | O_CLOEXEC));
    uint64_t total_us = 0;
    if (!file.IsValid() || !ReadStallTotal(file, &total_us)) continue;
    seen_us_[path] = total_us;
    const auto before = totals_us_.find(path);
    if (before == totals_us_.end() || total_us <= before->second) continue;
    worst_ = std::max(worst_, static_cast<double>(total_us - before->second) * 1000 /
                                  static_cast<double>(now_ns - looked_ns_));
  }
}

double IoNeighbours::Waiting(uint64_t now_ns) {
  if (looked_ns_ != 0 && now_ns < looked_ns_ + kNsPerSec) return waiting_;
  {
    const std::lock_guard lock(mutex_);
    excluded_ = services_;
  }
  worst_ = 0;
  seen_us_.clear();
  if (!excluded_.empty() && !root_.empty() && !own_.empty()) {
    const size_t parent = own_.rfind('/');
    const std::string above = own_.substr(0, parent);
    if (above.ends_with(kRunners)) excluded_.push_back(above);
    for (size_t at = 1; at != std::string::npos && own_ != "/";) {
      const size_t next = own_.find('/', at);
      Look(at == 1 ? "/" : own_.substr(0, at - 1), own_, now_ns);
      at = next == std::string::npos ? next : next + 1;
    }
    if (own_ == "/") Look("/", "", now_ns);
  }
  totals_us_.swap(seen_us_);
  looked_ns_ = now_ns;
  return waiting_ = worst_;
}

}  // namespace ppc
