// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/file_table.h"

#include <cerrno>

namespace ppc {

KnownFile* FileTable::GetLocked(uint64_t file, uint64_t now) {
  const auto it = by_id_.find(file);
  if (it != by_id_.end() && now < it->second.checked_ns + kFreshNs) return &it->second;
  KnownFile known;
  const Result<FileInfo> info = backend_->Resolve(file, &known.path);
  if (!info) {
    if (it == by_id_.end()) return nullptr;
    // The inode may only have left the kernel's cache: the name then has a new number, and who
    // holds the old one goes on with it (see Refresh).
    const std::string path = it->second.path;
    const Result<FileInfo> renewed = backend_->Lookup(path);
    if (renewed && renewed->size == it->second.info.size && renewed->ino == it->second.info.ino &&
        renewed->mtime_ns == it->second.info.mtime_ns) {
      by_id_[renewed->file] = KnownFile{*renewed, path, now};
      by_path_[path] = renewed->file;
      KnownFile* old = &by_id_[file];
      old->checked_ns = now;
      return old;
    }
    by_path_.erase(path);
    by_id_.erase(file);
    return nullptr;
  }
  if (it != by_id_.end() && it->second.path != known.path) by_path_.erase(it->second.path);
  known.info = *info;
  known.checked_ns = now;
  by_path_[known.path] = file;
  return &(by_id_[file] = std::move(known));
}

const KnownFile* FileTable::Get(uint64_t file) {
  const std::lock_guard lock(mutex_);
  return GetLocked(file, backend_->NowNs());
}

bool FileTable::Copy(uint64_t file, uint64_t now_ns, FileCopy* out) {
  const std::lock_guard lock(mutex_);
  const KnownFile* known = GetLocked(file, now_ns);
  if (known == nullptr) return false;
  out->file = file;
  out->bytes = known->info.size;
  out->fresh_until_ns = known->checked_ns + kFreshNs;
  out->path = known->path;
  return true;
}

Result<FileInfo> FileTable::Find(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const uint64_t now = backend_->NowNs();
  const auto known = by_path_.find(path);
  if (known != by_path_.end()) {
    const auto it = by_id_.find(known->second);
    if (it != by_id_.end() && now < it->second.checked_ns + kFreshNs) return it->second.info;
  }
  Result<FileInfo> info = backend_->Lookup(path);
  if (!info) return info;
  by_id_[info->file] = KnownFile{*info, path, now};
  by_path_[path] = info->file;
  return info;
}

std::optional<uint64_t> FileTable::Refresh(uint64_t stale) {
  const std::lock_guard lock(mutex_);
  const auto it = by_id_.find(stale);
  if (it == by_id_.end()) return std::nullopt;
  const Result<FileInfo> info = backend_->Lookup(it->second.path);
  if (!info || info->file == stale) return std::nullopt;
  const std::string path = it->second.path;
  by_id_[info->file] = KnownFile{*info, path, backend_->NowNs()};
  by_path_[path] = info->file;
  return info->file;
}

bool FileTable::SizeOf(uint64_t file, uint64_t* bytes) {
  const std::lock_guard lock(mutex_);
  const KnownFile* known = GetLocked(file, backend_->NowNs());
  if (known == nullptr) return false;
  *bytes = known->info.size;
  return true;
}

bool FileTable::FindPath(const std::string& path, uint64_t* file, uint64_t* bytes) {
  const Result<FileInfo> info = Find(path);
  if (!info) return false;
  *file = info->file;
  *bytes = info->size;
  return true;
}

std::vector<uint64_t> FileTable::Files() const {
  const std::lock_guard lock(mutex_);
  std::vector<uint64_t> files;
  files.reserve(by_id_.size());
  for (const auto& [file, known] : by_id_) files.push_back(file);
  return files;
}

size_t FileTable::Size() const {
  const std::lock_guard lock(mutex_);
  return by_id_.size();
}

void FileTable::Trim() {
  const std::lock_guard lock(mutex_);
  if (by_id_.size() <= kMaxFiles) return;
  by_id_.clear();
  by_path_.clear();
}

}  // namespace ppc
