// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/mappers.h"

#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <fstream>
#include <string_view>

namespace ppc {

namespace {

std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Lines: 7f1c000-7f1d000 rw-p 00000000 fe:00 1234   /models/x.safetensors
bool ReadMaps(pid_t pid, const std::string& proc, std::vector<MappedArea>* areas) {
  std::ifstream maps(proc + "/" + std::to_string(pid) + "/maps");
  if (!maps) return false;
  areas->clear();
  for (std::string line; std::getline(maps, line);) {
    MappedArea area;
    unsigned major = 0;
    unsigned minor = 0;
    int name_at = 0;
    const int got =
        std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %*4s %" SCNx64 " %x:%x %" SCNu64 " %n",
                    &area.start, &area.end, &area.offset, &major, &minor, &area.ino, &name_at);
    if (got != 6 || area.ino == 0) continue;
    area.dev = makedev(major, minor);
    area.path = line.substr(static_cast<size_t>(name_at));
    areas->push_back(std::move(area));
  }
  return true;
}

}  // namespace

bool IsStillMapped(const MappedPart& part, const std::string& proc) {
  std::array<char, 64> range{};
  std::snprintf(range.data(), range.size(), "/map_files/%" PRIx64 "-%" PRIx64, part.start,
                part.end);
  std::array<char, PATH_MAX> target{};
  const std::string link = proc + "/" + std::to_string(part.pid) + range.data();
  const ssize_t length = readlink(link.c_str(), target.data(), target.size());
  if (length >= 0) return std::string_view(target.data(), static_cast<size_t>(length)) == part.path;
  if (errno != EPERM && errno != EACCES) return false;
  std::vector<MappedArea> areas;
  if (!ReadMaps(part.pid, proc, &areas)) return false;
  return std::ranges::any_of(areas, [&part](const MappedArea& area) {
    return area.start == part.start && area.end == part.end && area.path == part.path;
  });
}

void Mappers::Note(pid_t pid, uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (processes_.size() >= kMaxProcesses) processes_.clear();
  processes_[pid].seen_ns = now_ns;
}

bool Mappers::Enter() {
  std::unique_lock lock(mutex_);
  if (!left_.wait_for(lock, most_wait_, [this] { return inside_ < kMostInside; })) return false;
  ++inside_;
  return true;
}

void Mappers::Leave() {
  {
    const std::lock_guard lock(mutex_);
    --inside_;
  }
  left_.notify_all();
}

void Mappers::Read(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) {
    auto areas = std::make_shared<std::vector<MappedArea>>();
    const bool is_there = ReadMaps(pid, proc_, areas.get());
    {
      const std::lock_guard lock(mutex_);
      const auto known = processes_.find(pid);
      if (known == processes_.end()) continue;
      known->second.read_since.reset();
      known->second.areas = std::move(areas);
      if (!is_there) processes_.erase(known);
    }
    left_.notify_all();
  }
}

// mutex_ held.  False for a process whose reader seems to hang.
bool Mappers::IsBeingRead() const {
  const auto now = std::chrono::steady_clock::now();
  return std::ranges::any_of(processes_, [&](const auto& entry) {
    return entry.second.read_since && now < *entry.second.read_since + most_wait_;
  });
}

std::vector<MappedPart> Mappers::Of(const Visit& visit, const ObserverFiles::Identity& file,
                                    uint64_t offset, uint64_t length, uint64_t now_ns) {
  std::vector<pid_t> old;
  std::unique_lock lock(mutex_);
  std::erase_if(processes_, [now_ns](const auto& entry) {
    return !entry.second.read_since && now_ns > entry.second.seen_ns + kForgetNs;
  });
  for (auto& [pid, process] : processes_) {
    if (!visit.IsInside() || process.read_since || now_ns < process.read_ns + kFreshNs) continue;
    process.read_ns = now_ns;
    process.read_since = std::chrono::steady_clock::now();
    old.push_back(pid);
  }
  lock.unlock();
  Read(old);
  lock.lock();
  left_.wait_for(lock, most_wait_, [this] { return !IsBeingRead(); });
  std::vector<std::pair<pid_t, std::shared_ptr<const std::vector<MappedArea>>>> known;
  for (const auto& [pid, process] : processes_) {
    if (process.areas != nullptr) known.emplace_back(pid, process.areas);
  }
  lock.unlock();
  std::vector<MappedPart> parts;
  for (const auto& [pid, areas] : known) {
    for (const MappedArea& area : *areas) {
      // On some file systems the devices of stat() and maps differ: there the name decides.
      if (area.ino != file.ino || (area.dev != file.dev && NameOf(area.path) != file.name))
        continue;
      const uint64_t from = std::max(offset, area.offset);
      const uint64_t to = std::min(offset + length, area.offset + (area.end - area.start));
      if (from >= to) continue;
      parts.push_back(MappedPart{pid, area.start + (from - area.offset), from, to - from,
                                 area.start, area.end, area.path});
    }
  }
  return parts;
}

}  // namespace ppc
