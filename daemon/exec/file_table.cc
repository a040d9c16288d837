// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/file_table.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace ppc {

// Looking up waits for the disk, and the thread that consumes the events waits for the lock:
// without a word of life several slow answers in a row would cost us the attachment.
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

// Notes what the backend said of a file.
void FileTable::Learn(const FileInfo& info, const std::string& path, uint64_t now) {
  const std::lock_guard lock(mutex_);
  const auto [entry, is_new] = by_id_.try_emplace(info.file);
  KnownFile* known = &entry->second;
  known->is_asked = false;
  known->checked_ns = known->used_ns = now;
  // Without a name it is one that was not opened for a while.
  const bool is_same = !is_new && (known->path == path || path.empty());
  if (!is_same && !is_new) Unname(*known);
  known->info = info;
  if (!is_same) known->path = path;
  // The name may have been another file's: its copy of it must not be the key any more.
  if (known->path.empty()) return;
  const auto named = by_path_.find(known->path);
  if (named != by_path_.end() && named->second == info.file) return;
  if (named != by_path_.end()) by_path_.erase(named);
  by_path_.emplace(known->path, info.file);
}

// mutex_ held.
void FileTable::Unname(const KnownFile& known) {
  const auto named = by_path_.find(known.path);
  if (named != by_path_.end() && named->second == known.info.file) by_path_.erase(named);
}

bool FileTable::Ask(uint64_t file, uint64_t now) {
  std::string path;
  const Result<FileInfo> info = AskName(file, &path);
  if (info) {
    Learn(*info, path, now);
    return true;
  }
  const std::lock_guard lock(mutex_);
  const auto it = by_id_.find(file);
  if (it == by_id_.end()) return false;
  it->second.is_asked = false;
  if (info.error().code != ESTALE) return false;
  Unname(it->second);
  by_id_.erase(it);
  return false;
}

void FileTable::Renew(uint64_t file) { (void)Ask(file, backend_->NowNs()); }

template <typename Use>
bool FileTable::WithKnown(uint64_t file, uint64_t now_ns, Use use) {
  {
    const std::lock_guard lock(mutex_);
    const auto it = by_id_.find(file);
    if (it == by_id_.end()) return false;
    KnownFile& known = it->second;
    const bool is_old = now_ns >= known.checked_ns + kFreshNs;
    if (is_old && !renew_) return false;
    known.used_ns = now_ns;
    use(known, is_old ? now_ns + kRenewalNs : known.checked_ns + kFreshNs);
    if (!is_old || std::exchange(known.is_asked, true)) return true;
  }
  if (renew_(file)) return true;
  const std::lock_guard lock(mutex_);
  const auto it = by_id_.find(file);
  if (it != by_id_.end()) it->second.is_asked = false;
  return true;
}

bool FileTable::Peek(uint64_t file, uint64_t now_ns, FileCopy* out) {
  return WithKnown(file, now_ns, [&](const KnownFile& known, uint64_t fresh_until_ns) {
    out->file = file;
    out->bytes = known.info.size;
    out->dev_major = known.info.dev_major;
    out->dev_minor = known.info.dev_minor;
    out->fresh_until_ns = fresh_until_ns;
    out->path = known.path;
  });
}

bool FileTable::InfoOf(uint64_t file, uint64_t now_ns, FileInfo* out) {
  const auto use = [&](const KnownFile& known, uint64_t) { *out = known.info; };
  if (WithKnown(file, now_ns, use)) return true;
  // For one of very many files to load, the size would be read from the disk first.
  if (const std::optional<FileInfo> peeked = backend_->Peek(file)) {
    *out = *peeked;
    return true;
  }
  return Ask(file, now_ns) && WithKnown(file, now_ns, use);
}

bool FileTable::Copy(uint64_t file, uint64_t now_ns, FileCopy* out) {
  if (Peek(file, now_ns, out)) return true;
  return Ask(file, now_ns) && Peek(file, now_ns, out);
}

Result<FileInfo> FileTable::Find(const std::string& path) {
  const uint64_t now = backend_->NowNs();
  {
    const std::lock_guard lock(mutex_);
    const auto named = by_path_.find(path);
    const auto it = named == by_path_.end() ? by_id_.end() : by_id_.find(named->second);
    const bool is_fresh = it != by_id_.end() && now < it->second.checked_ns + kFreshNs &&
                          it->second.checked_ns >= anew_ns_.load(std::memory_order_relaxed);
    if (is_fresh) return it->second.info;
  }
  Result<FileInfo> info = AskNumber(path);
  if (info) Learn(*info, path, now);
  return info;
}

bool FileTable::SizeOf(uint64_t file, uint64_t* bytes) {
  FileInfo info;
  if (!InfoOf(file, backend_->NowNs(), &info)) return false;
  *bytes = info.size;
  return true;
}

bool FileTable::FindPath(const std::string& path, uint64_t* file, uint64_t* bytes) {
  if (renew_) {
    std::unique_lock lock(mutex_);
    const auto named = by_path_.find(path);
    *file = named == by_path_.end() ? 0 : named->second;
    lock.unlock();
    if (*file != 0 && SizeOf(*file, bytes)) return true;
  }
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

uint64_t FileTable::Bytes() const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [file, known] : by_id_) bytes += known.info.size;
  return bytes;
}

void FileTable::Trim() {
  const std::lock_guard lock(mutex_);
  if (by_id_.size() > kMaxFiles) ForgetOldest();
}

// mutex_ held.
void FileTable::ForgetOldest() {
  std::vector<std::pair<uint64_t, uint64_t>> by_use;
  by_use.reserve(by_id_.size());
  for (const auto& [file, known] : by_id_) by_use.emplace_back(known.used_ns, file);
  const auto kept = by_use.end() - static_cast<std::ptrdiff_t>(kMaxFiles - kMaxFiles / 10);
  std::ranges::nth_element(by_use, kept);
  for (auto old = by_use.begin(); old != kept; ++old) {
    const auto it = by_id_.find(old->second);
    Unname(it->second);
    by_id_.erase(it);
    if (forgotten_.size() < kMaxForgotten) forgotten_.push_back(old->second);
  }
}

std::vector<uint64_t> FileTable::TakeForgotten() {
  const std::lock_guard lock(mutex_);
  return std::exchange(forgotten_, {});
}

void FileTable::KeepForgotten(std::span<const uint64_t> files) {
  const std::lock_guard lock(mutex_);
  const size_t room = kMaxForgotten - std::min(kMaxForgotten, forgotten_.size());
  const auto kept = files.first(std::min(files.size(), room));
  forgotten_.insert(forgotten_.end(), kept.begin(), kept.end());
}

}  // namespace ppc
