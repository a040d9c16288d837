// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/kmod/kmod_files.h"

#include <algorithm>

namespace ppc {
namespace {

// Both are of one inode.
bool IsUnchanged(const FileInfo& a, const FileInfo& b) {
  return a.size == b.size && a.mtime_ns == b.mtime_ns;
}

Result<FileInfo> Under(uint64_t file, FileInfo info) {
  info.file = file;
  return info;
}

}  // namespace

// mutex_ held.
void KmodFiles::MakeCurrent(Known* first, uint64_t number) {
  if (first->current == number) return;
  std::erase(first->old, number);
  if (first->current != first->first) first->old.push_back(first->current);
  first->current = number;
  if (first->old.size() <= kMaxOld) return;
  by_number_.erase(first->old.front());
  first->old.pop_front();
}

// mutex_ held.  A number not seen before: true if it is that of a file that had another one until
// now, false if it is a new one's.
bool KmodFiles::Link(Known* known) {
  known->first = known->current = known->info.file;
  const auto seen = by_inode_.find(InodeOf(known->info));
  const auto before = seen == by_inode_.end() ? by_number_.end() : by_number_.find(seen->second);
  if (before == by_number_.end() || !IsUnchanged(before->second.info, known->info)) return false;
  known->first = before->second.first;
  return true;
}

uint64_t KmodFiles::Learn(const FileInfo& info, const std::string& path) {
  uint64_t first = info.file;
  bool is_native = false;
  {
    const std::lock_guard lock(mutex_);
    const auto [entry, is_new] = by_number_.try_emplace(info.file);
    Known* known = &entry->second;
    known->info = info;
    known->path = path;
    const bool is_renewed = is_new && Link(known);
    by_inode_[InodeOf(info)] = info.file;
    first = known->first;
    Known& kept = by_number_.at(first);
    is_native = is_renewed && kept.native;
    // The module's last word; answers to two threads may come out of order.
    MakeCurrent(&kept, info.file);
  }
  if (is_native) (void)module_.set_native(info.file, true);
  return first;
}

void KmodFiles::Forget(uint64_t first) {
  const std::lock_guard lock(mutex_);
  std::erase_if(by_number_, [first](const auto& entry) { return entry.second.first == first; });
}

uint64_t KmodFiles::CurrentLocked(uint64_t file) const {
  const auto it = by_number_.find(file);
  return it == by_number_.end() ? file : by_number_.at(it->second.first).current;
}

uint64_t KmodFiles::CurrentOf(uint64_t file) const {
  const std::lock_guard lock(mutex_);
  return CurrentLocked(file);
}

uint64_t KmodFiles::FileOf(uint64_t number) {
  {
    const std::lock_guard lock(mutex_);
    const auto it = by_number_.find(number);
    if (it != by_number_.end()) return it->second.first;
  }
  std::string path;
  const Result<FileInfo> info = module_.resolve(number, &path);
  return info ? Learn(*info, path) : number;
}

Result<FileInfo> KmodFiles::Resolve(uint64_t file, std::string* path) {
  std::string name;
  const Result<FileInfo> info = module_.resolve(CurrentOf(file), &name);
  if (info) {
    const uint64_t first = Learn(*info, name);
    if (path != nullptr) *path = std::move(name);
    return Under(first, *info);
  }
  uint64_t first = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto it = by_number_.find(CurrentLocked(file));
    if (it == by_number_.end()) return info;
    name = it->second.path;
    first = it->second.first;
  }
  // The inode may only have left the kernel's cache.  Without an answer it may still turn out to be
  // there.
  const Result<FileInfo> renewed = module_.look_up(name);
  if (!renewed) return info;
  if (Learn(*renewed, name) != first) {
    Forget(first);  // another file has its name
    return info;
  }
  if (path != nullptr) *path = std::move(name);
  return Under(first, *renewed);
}

Result<FileInfo> KmodFiles::Lookup(const std::string& path) {
  const Result<FileInfo> info = module_.look_up(path);
  if (!info) return info;
  return Under(Learn(*info, path), *info);
}

std::optional<uint64_t> KmodFiles::Refresh(uint64_t stale) {
  std::string path;
  uint64_t first = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto it = by_number_.find(CurrentLocked(stale));
    if (it == by_number_.end()) return std::nullopt;
    if (it->first != stale) return it->first;
    path = it->second.path;
    first = it->second.first;
  }
  const Result<FileInfo> info = module_.look_up(path);
  if (!info || Learn(*info, path) != first) return std::nullopt;
  return info->file;
}

Status KmodFiles::SetNative(uint64_t file, bool native) {
  {
    const std::lock_guard lock(mutex_);
    const auto it = by_number_.find(file);
    if (it != by_number_.end()) by_number_.at(it->second.first).native = native;
  }
  return WithCurrentNumber(file,
                           [&](uint64_t number) { return module_.set_native(number, native); });
}

size_t KmodFiles::Size() const {
  const std::lock_guard lock(mutex_);
  return by_number_.size();
}

void KmodFiles::Trim() {
  const std::lock_guard lock(mutex_);
  if (by_number_.size() <= kMaxNumbers) return;
  // Files with several numbers would not be known as the same again.
  std::erase_if(by_number_, [this](const auto& entry) {
    const Known& first = by_number_.at(entry.second.first);
    return first.current == first.first && first.old.empty();
  });
  if (by_number_.size() > kMaxNumbers) by_number_.clear();
  by_inode_.clear();
  for (const auto& [number, known] : by_number_) {
    by_inode_[InodeOf(known.info)] = by_number_.at(known.first).current;
  }
}

}  // namespace ppc
