// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/file_table.h"

#include <cerrno>

namespace ppc {
namespace {

// Of one inode.
bool IsUnchanged(const FileInfo& a, const FileInfo& b) {
  return a.size == b.size && a.mtime_ns == b.mtime_ns;
}

}  // namespace

// Looking up waits for the disk, and whoever consumes the events waits for the lock: without a
// word of life several slow answers in a row would cost us the attachment.
void FileTable::NoteAnswer(uint64_t asked_ns) {
  if (backend_->NowNs() - asked_ns >= kSlowNs) backend_->RenewLease();
}

Result<FileInfo> FileTable::AskName(uint64_t file, std::string* path) {
  const uint64_t start = backend_->NowNs();
  Result<FileInfo> info = backend_->Resolve(file, path);
  NoteAnswer(start);
  return info;
}

Result<FileInfo> FileTable::AskNumber(const std::string& path) {
  const uint64_t start = backend_->NowNs();
  Result<FileInfo> info = backend_->Lookup(path);
  NoteAnswer(start);
  return info;
}

// A number not seen before: of the file that had another one until now, or of a new one.
void FileTable::Link(KnownFile* known) {
  const uint64_t number = known->info.file;
  known->first = known->current = number;
  const auto seen = by_inode_.find(InodeOf(known->info));
  const auto before = seen == by_inode_.end() ? by_id_.end() : by_id_.find(seen->second);
  if (before == by_id_.end() || !IsUnchanged(before->second.info, known->info)) return;
  KnownFile& first = by_id_.at(before->second.first);
  known->first = first.first;
  if (first.current != first.first) first.old.push_back(first.current);
  first.current = number;
  if (first.old.size() > kMaxOld) {
    by_id_.erase(first.old.front());
    first.old.pop_front();
  }
  if (first.native) (void)backend_->SetFileNative(number, true);
}

// Notes what the backend said of a file.
KnownFile* FileTable::Learn(const FileInfo& info, const std::string& path, uint64_t now) {
  const auto [entry, is_new] = by_id_.try_emplace(info.file);
  KnownFile* known = &entry->second;
  if (!is_new && known->path != path) {
    const auto named = by_path_.find(known->path);
    if (named != by_path_.end() && named->second == info.file) by_path_.erase(named);
  }
  known->info = info;
  known->path = path;
  known->checked_ns = now;
  if (is_new) Link(known);
  by_path_[path] = info.file;
  by_inode_[InodeOf(info)] = info.file;
  return known;
}

KnownFile* FileTable::GetLocked(uint64_t file, uint64_t now) {
  const uint64_t current = CurrentLocked(file);
  const auto it = by_id_.find(current);
  if (it != by_id_.end() && now < it->second.checked_ns + kFreshNs) return &it->second;
  std::string path;
  const Result<FileInfo> info = AskName(current, &path);
  if (info) return Learn(*info, path, now);
  if (it == by_id_.end()) return nullptr;
  // The inode may only have left the kernel's cache.
  path = it->second.path;
  const uint64_t first = it->second.first;
  const Result<FileInfo> renewed = AskNumber(path);
  // Without an answer it may still turn out to be there.
  if (!renewed) return nullptr;
  KnownFile* known = Learn(*renewed, path, now);
  if (known->first == first) return known;
  std::erase_if(by_id_, [first](const auto& entry) { return entry.second.first == first; });
  return nullptr;
}

bool FileTable::Copy(uint64_t file, uint64_t now_ns, FileCopy* out) {
  const std::lock_guard lock(mutex_);
  const KnownFile* known = GetLocked(file, now_ns);
  if (known == nullptr) return false;
  out->file = file;
  out->first = known->first;
  out->bytes = known->info.size;
  out->dev_major = known->info.dev_major;
  out->dev_minor = known->info.dev_minor;
  out->fresh_until_ns = known->checked_ns + kFreshNs;
  out->path = known->path;
  return true;
}

Result<FileInfo> FileTable::Find(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const uint64_t now = backend_->NowNs();
  const auto named = by_path_.find(path);
  const auto it = named == by_path_.end() ? by_id_.end() : by_id_.find(named->second);
  const KnownFile* known = nullptr;
  if (it != by_id_.end() && now < it->second.checked_ns + kFreshNs) {
    known = &it->second;
  } else {
    Result<FileInfo> info = AskNumber(path);
    if (!info) return info;
    known = Learn(*info, path, now);
  }
  FileInfo out = known->info;
  out.file = known->first;
  return out;
}

std::optional<uint64_t> FileTable::Refresh(uint64_t stale) {
  const std::lock_guard lock(mutex_);
  return RefreshLocked(stale);
}

std::optional<uint64_t> FileTable::RefreshLocked(uint64_t stale) {
  const auto it = by_id_.find(CurrentLocked(stale));
  if (it == by_id_.end()) return std::nullopt;
  if (it->second.info.file != stale) return it->second.info.file;
  const std::string path = it->second.path;
  const Result<FileInfo> info = AskNumber(path);
  if (!info) return std::nullopt;
  const uint64_t first = it->second.first;
  const KnownFile* known = Learn(*info, path, backend_->NowNs());
  if (known->first != first) return std::nullopt;  // another file under its name
  return known->info.file;
}

uint64_t FileTable::FirstOf(uint64_t file) const {
  const std::lock_guard lock(mutex_);
  const auto it = by_id_.find(file);
  return it == by_id_.end() ? file : it->second.first;
}

uint64_t FileTable::CurrentLocked(uint64_t file) const {
  const auto it = by_id_.find(file);
  return it == by_id_.end() ? file : by_id_.at(it->second.first).current;
}

uint64_t FileTable::CurrentOf(uint64_t file) const {
  const std::lock_guard lock(mutex_);
  return CurrentLocked(file);
}

// Not under the lock: to walk the page cache of a large file takes a while.
Result<Residency> FileTable::Resident(uint64_t file, uint64_t offset, uint64_t length,
                                      std::span<uint8_t> bitmap) {
  const uint64_t current = CurrentOf(file);
  Result<Residency> state = backend_->Resident(current, offset, length, bitmap);
  if (state || state.error().code != ESTALE) return state;
  // The pages stay when the inode above them goes.
  const std::optional<uint64_t> renewed = Refresh(current);
  return renewed ? backend_->Resident(*renewed, offset, length, bitmap) : state;
}

Status FileTable::SetNative(uint64_t file, bool native) {
  const std::lock_guard lock(mutex_);
  const auto it = by_id_.find(file);
  if (it != by_id_.end()) by_id_.at(it->second.first).native = native;
  const uint64_t current = CurrentLocked(file);
  Status done = backend_->SetFileNative(current, native);
  if (done || done.error().code != ESTALE) return done;
  const std::optional<uint64_t> renewed = RefreshLocked(current);
  return renewed ? backend_->SetFileNative(*renewed, native) : done;
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
  for (const auto& [file, known] : by_id_) {
    if (file == known.first) files.push_back(known.current);
  }
  return files;
}

size_t FileTable::Size() const {
  const std::lock_guard lock(mutex_);
  return by_id_.size();
}

void FileTable::Trim() {
  const std::lock_guard lock(mutex_);
  if (by_id_.size() <= kMaxFiles) return;
  // Files with several numbers would not be known as the same again.
  std::erase_if(by_id_, [this](const auto& entry) {
    const KnownFile& first = by_id_.at(entry.second.first);
    return first.current == first.first;
  });
  if (by_id_.size() > kMaxFiles) by_id_.clear();
  by_path_.clear();
  by_inode_.clear();
  for (const auto& [file, known] : by_id_)
    by_inode_[InodeOf(known.info)] = by_id_.at(known.first).current;
}

}  // namespace ppc
