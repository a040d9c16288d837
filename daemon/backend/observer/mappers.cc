// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/mappers.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace ppc {

void Mappers::Note(pid_t pid, uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (processes_.size() >= kMaxProcesses) processes_.clear();
  processes_[pid].seen_ns = now_ns;
}

// Lines: 7f1c000-7f1d000 rw-p 00000000 fe:00 1234   /models/x.safetensors
bool Mappers::ReadMaps(pid_t pid, std::vector<Area>* areas) const {
  std::ifstream maps(proc_ + "/" + std::to_string(pid) + "/maps");
  if (!maps) return false;
  areas->clear();
  for (std::string line; std::getline(maps, line);) {
    Area area;
    unsigned major = 0;
    unsigned minor = 0;
    int name_at = 0;
    const int got =
        std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %*4s %" SCNx64 " %x:%x %" SCNu64 " %n",
                    &area.start, &area.end, &area.offset, &major, &minor, &area.ino, &name_at);
    if (got != 6 || area.ino == 0) continue;
    area.dev = makedev(major, minor);
    const std::string path = line.substr(static_cast<size_t>(name_at));
    area.name = path.substr(path.rfind('/') + 1);
    areas->push_back(std::move(area));
  }
  return true;
}

std::vector<MappedPart> Mappers::Of(const InodeIndex::Identity& file, uint64_t offset,
                                    uint64_t length, uint64_t now_ns) {
  std::vector<MappedPart> parts;
  const std::lock_guard lock(mutex_);
  for (auto it = processes_.begin(); it != processes_.end();) {
    auto& [pid, process] = *it;
    bool is_gone = now_ns > process.seen_ns + kForgetNs;
    if (!is_gone && now_ns >= process.read_ns + kFreshNs) {
      process.read_ns = now_ns;
      is_gone = !ReadMaps(pid, &process.areas);
    }
    it = is_gone ? processes_.erase(it) : std::next(it);
  }
  for (const auto& [pid, process] : processes_) {
    for (const Area& area : process.areas) {
      // On some file systems the devices of stat() and maps differ: there the name has to do.
      if (area.ino != file.ino || (area.dev != file.dev && area.name != file.name)) continue;
      const uint64_t from = std::max(offset, area.offset);
      const uint64_t to = std::min(offset + length, area.offset + (area.end - area.start));
      if (from >= to) continue;
      parts.push_back(MappedPart{pid, area.start + (from - area.offset), from, to - from});
    }
  }
  return parts;
}

}  // namespace ppc
