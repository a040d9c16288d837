// SPDX-License-Identifier: Apache-2.0
#include "extras/poll/polled_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/base/clock.h"

namespace ppc {
namespace {

int64_t NsOf(const statx_timestamp& time) {
  return time.tv_sec * static_cast<int64_t>(kNsPerSec) + time.tv_nsec;
}

std::string WithSlash(std::string path) {
  if (path.empty() || path.back() != '/') path += '/';
  return path;
}

}  // namespace

Result<FileStat> StatFile(int dir, const std::string& path) {
  struct statx raw {};
  const int flags = path.empty() ? AT_EMPTY_PATH : 0;
  if (statx(dir, path.c_str(), flags, STATX_BASIC_STATS | STATX_BTIME, &raw) != 0) {
    return PosixError("stat " + path, errno);
  }
  FileStat stat;
  stat.id = {raw.stx_dev_major, raw.stx_dev_minor, raw.stx_ino,
             (raw.stx_mask & STATX_BTIME) != 0 ? NsOf(raw.stx_btime) : 0};
  stat.size = raw.stx_size;
  stat.mtime_ns = NsOf(raw.stx_mtime);
  stat.uid = raw.stx_uid;
  stat.is_regular = S_ISREG(raw.stx_mode);
  return stat;
}

PolledFiles::PolledFiles(std::string root)
    : root_files_(root), prefix_(WithSlash(std::move(root))) {}

const PolledFiles::File* PolledFiles::Get(uint64_t file) const {
  return file == 0 || file > files_.size() ? nullptr : &files_[file - 1];
}

bool PolledFiles::IsBelowRoot(const std::string& absolute) const {
  return absolute.starts_with(prefix_);
}

uint64_t PolledFiles::Learn(const FileStat& stat, const std::string& path) {
  const auto known = numbers_.find(stat.id);
  if (known != numbers_.end()) {
    File& file = files_[known->second - 1];
    file.stat = stat;
    if (!path.empty()) file.path = path;
    return known->second;
  }
  if (path.empty() || files_.size() >= kMaxFiles) return 0;
  files_.push_back(File{stat, path, {}});
  return numbers_[stat.id] = files_.size();
}

FileInfo PolledFiles::InfoOf(uint64_t file) const {
  const FileStat& stat = files_[file - 1].stat;
  return FileInfo{.file = file,
                  .size = stat.size,
                  .ino = stat.id.ino,
                  .mtime_ns = stat.mtime_ns,
                  .dev_major = stat.id.dev_major,
                  .dev_minor = stat.id.dev_minor};
}

Result<FileInfo> PolledFiles::Lookup(const std::string& path) {
  const Result<std::string> target = root_files_.FollowLinks(path);
  if (!target) return target.error();
  const Result<UniqueFd> fd = root_files_.Open(*target);
  if (!fd) return fd.error();
  const Result<FileStat> stat = StatFile(fd->Get(), "");
  if (!stat) return stat.error();
  if (!stat->is_regular) return PosixError("look up " + path, EISDIR);
  const std::lock_guard lock(mutex_);
  const uint64_t file = Learn(*stat, *target);
  if (file == 0) return PosixError("look up " + path, ENFILE);
  return InfoOf(file);
}

Result<UniqueFd> PolledFiles::Open(uint64_t file, FileStat* stat) {
  std::string path;
  FileIdentity id;
  {
    const std::lock_guard lock(mutex_);
    const File* known = Get(file);
    if (known == nullptr) return PosixError("file number " + std::to_string(file), ESTALE);
    path = known->path;
    id = known->stat.id;
  }
  Result<UniqueFd> fd = root_files_.Open(path);
  if (!fd && fd.error().code == ENOENT) return PosixError(path, ESTALE);
  if (!fd) return fd;
  const Result<FileStat> found = StatFile(fd->Get(), "");
  if (!found) return found.error();
  if (found->id != id) return PosixError(path, ESTALE);
  const std::lock_guard lock(mutex_);
  files_[file - 1].stat = *found;
  if (stat != nullptr) *stat = *found;
  return fd;
}

Result<FileInfo> PolledFiles::Resolve(uint64_t file, std::string* path) {
  const Result<UniqueFd> fd = Open(file, nullptr);
  if (!fd) return fd.error();
  const std::lock_guard lock(mutex_);
  if (path != nullptr) *path = files_[file - 1].path;
  return InfoOf(file);
}

uint64_t PolledFiles::Find(const FileStat& stat, const std::string& absolute) {
  if (!stat.is_regular) return 0;
  std::string path;
  if (IsBelowRoot(absolute)) path = absolute.substr(prefix_.size());
  const std::lock_guard lock(mutex_);
  return Learn(stat, path);
}

uint64_t PolledFiles::SizeOf(uint64_t file) const {
  const std::lock_guard lock(mutex_);
  const File* known = Get(file);
  return known == nullptr ? 0 : known->stat.size;
}

// --------------------------------------------------------------------- belief

// Marks units that are covered partly too.
void PolledFiles::MarkPresent(uint64_t file, uint64_t offset, uint64_t length) {
  const std::lock_guard lock(mutex_);
  if (Get(file) == nullptr || length == 0) return;
  File& known = files_[file - 1];
  const uint64_t units = (known.stat.size + kUnitBytes - 1) / kUnitBytes;
  known.present.resize(units);
  const uint64_t end = std::min((offset + length + kUnitBytes - 1) / kUnitBytes, units);
  for (uint64_t unit = offset / kUnitBytes; unit < end; ++unit) known.present[unit] = true;
}

// Marks only units that are covered whole, or to the end of the file.
void PolledFiles::MarkAbsent(uint64_t file, uint64_t offset, uint64_t length) {
  const std::lock_guard lock(mutex_);
  if (Get(file) == nullptr) return;
  File& known = files_[file - 1];
  const bool to_end = offset + length >= known.stat.size;
  const uint64_t end =
      to_end ? known.present.size()
             : std::min<uint64_t>((offset + length) / kUnitBytes, known.present.size());
  for (uint64_t unit = (offset + kUnitBytes - 1) / kUnitBytes; unit < end; ++unit)
    known.present[unit] = false;
}

uint64_t PolledFiles::PresentBytes(uint64_t file, uint64_t offset, uint64_t length) const {
  const std::lock_guard lock(mutex_);
  const File* known = Get(file);
  if (known == nullptr) return 0;
  const uint64_t end = std::min(offset + length, known->stat.size);
  uint64_t bytes = 0;
  for (uint64_t at = offset; at < end;) {
    const uint64_t unit = at / kUnitBytes;
    const uint64_t next = std::min((unit + 1) * kUnitBytes, end);
    if (unit < known->present.size() && known->present[unit]) bytes += next - at;
    at = next;
  }
  return bytes;
}

bool PolledFiles::IsPresent(uint64_t file, uint64_t offset) const {
  const std::lock_guard lock(mutex_);
  const File* known = Get(file);
  const uint64_t unit = offset / kUnitBytes;
  return known != nullptr && unit < known->present.size() && known->present[unit];
}

}  // namespace ppc
