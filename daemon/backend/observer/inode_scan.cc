// SPDX-License-Identifier: Apache-2.0
// Owns the looks at the registered directories: which files are new, and which have another name.
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "daemon/backend/observer/inode_index.h"
#include "daemon/base/clock.h"

namespace ppc {
namespace {

bool IsDotEntry(const std::string& name) { return name == "." || name == ".."; }

// What model files are read for does not count as their use.
UniqueFd OpenForReading(int directory, const char* name) {
  constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;
  UniqueFd fd(openat(directory, name, kFlags | O_NOATIME));
  if (!fd.IsValid() && errno == EPERM) fd.Reset(openat(directory, name, kFlags));
  return fd;
}

}  // namespace

Status InodeIndex::ListDirectory(uint32_t directory, std::vector<Fresh>* fresh) {
  const std::string path =
      directory == 0 ? "" : PathOf(dirs_[directory].parent, dirs_[directory].name);
  Result<UniqueFd> fd = OpenBelow(path, O_RDONLY | O_DIRECTORY);
  if (!fd) return fd.error();
  struct stat info {};
  if (fstat(fd->Get(), &info) != 0) return PosixError("stat " + path, errno);
  dirs_[directory].mtime_ns = ModifiedNs(info);
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(fdopendir(fd->Get()), closedir);
  if (listing == nullptr) return PosixError("list " + path, errno);
  const int at = fd->Release();  // closedir closes it
  while (const dirent* found = readdir(listing.get())) {
    if (IsDotEntry(found->d_name)) continue;
    struct stat child {};
    if (fstatat(at, found->d_name, &child, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (child.st_dev != info.st_dev && S_ISDIR(child.st_mode)) continue;  // another file system
    if (S_ISDIR(child.st_mode)) {
      const ObserverPrograms::Root root{child.st_dev, child.st_ino};
      if (std::find(below_.begin(), below_.end(), root) != below_.end()) continue;
      if (dirs_.size() >= kMaxDirectories) BeFull(at);
      if (HasMet()) return Ok();
      if (dirs_.size() < kMaxDirectories) {
        const auto [entry, is_new] = dir_numbers_.try_emplace({directory, found->d_name},
                                                              static_cast<uint32_t>(dirs_.size()));
        if (is_new) dirs_.push_back(Directory{directory, found->d_name, 0});
      }
      continue;
    }
    if (!S_ISREG(child.st_mode)) continue;
    const uint64_t known = files_.NumberOf(child.st_dev, child.st_ino);
    if (known != 0 && KeepName(known, directory, at, found->d_name)) continue;
    if (IsMetInode(child.st_dev, child.st_ino)) continue;
    UniqueFd file = OpenForReading(at, found->d_name);
    if (!file.IsValid()) continue;
    if (files_.Size() + fresh->size() >= limits_.listed) BeFull(file.Get());
    if (HasMet()) return Ok();
    fresh->push_back(Fresh{std::move(file), directory, found->d_name, child});
    if (fresh->size() < kBatch) continue;
    Status learnt = Learn(*fresh);
    fresh->clear();
    if (!learnt) return learnt;
  }
  return Ok();
}

// A file was met under this name: it has moved, unless the name that we know is as good (a hard
// link).  False: it is another one, which has the inode of a file that is gone.
bool InodeIndex::KeepName(uint64_t number, uint32_t parent, int directory, const char* name) {
  std::optional<InodeTable::File> file = files_.Get(number);
  if (!file || (file->parent == parent && file->name == name)) return true;
  const Result<UniqueFd> fd = OpenBelow(PathOf(*file), O_PATH | O_NOFOLLOW);
  struct stat info {};
  if (fd && fstat(fd->Get(), &info) == 0 && info.st_ino == file->ino && info.st_dev == file->dev)
    return true;
  const std::optional<uint32_t> was = programs_->GenerationOf(file->key);
  const UniqueFd found = OpenForReading(directory, name);
  int is = 0;
  const bool is_known = was && found.IsValid() && ioctl(found.Get(), FS_IOC_GETVERSION, &is) == 0;
  if (is_known && static_cast<uint32_t>(is) != *was) {
    Forget(number);
    return false;
  }
  file->parent = parent;
  file->name = name;
  files_.Change(number, *file);
  return true;
}

Result<bool> InodeIndex::Scan(uint64_t deadline_ns) {
  std::vector<Fresh> fresh;
  // Grows while it is walked.  Between two directories others may have the index.
  for (uint32_t at = 0;; ++at) {
    const std::lock_guard lock(mutex_);
    while (at < dirs_.size() && (dirs_[at].mtime_ns != 0 || dirs_[at].is_others)) ++at;
    const bool is_done = at >= dirs_.size() || IsFull();
    if (is_done || MonotonicNs() >= deadline_ns) {
      const Status learnt = Learn(fresh);
      if (!learnt && !IsFull()) return learnt.error();
      return is_done || IsFull();
    }
    const Status listed = ListDirectory(at, &fresh);
    if (!listed && at == 0 && !IsFull()) return listed.error();
    // One that cannot be listed (gone, no permission) is not tried over and over.
    if (!listed) dirs_[at].mtime_ns = 1;
  }
}

// What has not been listed comes first: with thousands of directories a look at each takes longer
// than a part, on a cold disk always.
Result<bool> InodeIndex::Rescan(uint64_t deadline_ns) {
  Result<bool> listed = Scan(deadline_ns);
  if (!listed || !*listed || IsFull()) return listed;
  for (;; ++next_look_) {
    std::unique_lock lock(mutex_);
    if (next_look_ >= dirs_.size()) break;
    if (MonotonicNs() >= deadline_ns) return false;
    if (dirs_[next_look_].is_others) continue;
    const int64_t known_ns = dirs_[next_look_].mtime_ns;
    const std::string path =
        next_look_ == 0 ? "" : PathOf(dirs_[next_look_].parent, dirs_[next_look_].name);
    lock.unlock();
    const Result<UniqueFd> fd = OpenBelow(path, O_PATH | O_DIRECTORY);
    struct stat info {};
    if (!fd || fstat(fd->Get(), &info) != 0 || ModifiedNs(info) == known_ns) continue;
    lock.lock();
    dirs_[next_look_].mtime_ns = 0;
  }
  next_look_ = 0;
  return Scan(deadline_ns);
}

}  // namespace ppc
