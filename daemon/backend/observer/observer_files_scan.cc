// SPDX-License-Identifier: Apache-2.0
// Owns scanning the registered directory for new and renamed files, and the registered directories
// below.
#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "daemon/backend/observer/observer_files.h"
#include "daemon/base/clock.h"
#include "daemon/base/log.h"

namespace ppc {
namespace {

bool IsDotEntry(const std::string& name) { return name == "." || name == ".."; }

// O_NOATIME: learning an inode does not count as use of the file.
UniqueFd OpenForReading(int directory, const char* name) {
  const UniqueFd place(openat(directory, name, O_PATH | O_CLOEXEC | O_NOFOLLOW));
  if (!place.IsValid()) return UniqueFd();
  Result<UniqueFd> fd = OpenPlain(place.Get(), O_RDONLY | O_NOATIME);
  if (!fd && fd.error().code == EPERM) fd = OpenPlain(place.Get(), O_RDONLY);
  return fd ? std::move(*fd) : UniqueFd();
}

}  // namespace

Status ObserverFiles::ListDirectory(uint32_t directory, std::vector<NewFile>* new_files) {
  std::unique_lock lock(mutex_);
  const std::string path =
      directory == 0 ? "" : PathOf(dirs_[directory].parent, dirs_[directory].name);
  lock.unlock();
  Result<UniqueFd> fd = OpenBelow(path, O_RDONLY | O_DIRECTORY);
  if (!fd) return fd.error();
  struct stat info {};
  if (fstat(fd->Get(), &info) != 0) return PosixError("stat " + path, errno);
  lock.lock();
  dirs_[directory].mtime_ns = ModifiedNs(info);
  lock.unlock();
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(fdopendir(fd->Get()), closedir);
  if (listing == nullptr) return PosixError("list " + path, errno);
  const int at = fd->Release();  // closedir closes it
  std::vector<Entry> entries;
  for (bool has_more = true; has_more;) {
    entries.clear();
    while (entries.size() < kBatch) {
      const dirent* const found = readdir(listing.get());
      has_more = found != nullptr;
      if (!has_more) break;
      if (IsDotEntry(found->d_name)) continue;
      Entry entry{found->d_name, {}, {}};
      if (fstatat(at, found->d_name, &entry.info, AT_SYMLINK_NOFOLLOW) == 0)
        entries.push_back(std::move(entry));
    }
    if (!NoteEntries(directory, at, info.st_dev, &entries)) return Ok();
    for (Entry& entry : entries) entry.fd = OpenForReading(at, entry.name.c_str());
    const Result<bool> taken = TakeEntries(directory, &entries, new_files);
    if (!taken) return taken.error();
    if (!*taken) return Ok();
  }
  return Ok();
}

// Notes directories, and new names of known files; the remaining entries may be new files.
bool ObserverFiles::NoteEntries(uint32_t directory, int at, dev_t dev,
                                std::vector<Entry>* entries) {
  const std::lock_guard lock(mutex_);
  std::erase_if(*entries, [&](const Entry& entry) {
    const struct stat& info = entry.info;
    if (HasDiscovered()) return true;
    if (S_ISDIR(info.st_mode)) {
      if (info.st_dev != dev) return true;  // on another file system
      const ObserverPrograms::Root root{info.st_dev, info.st_ino};
      if (std::find(deeper_roots_.begin(), deeper_roots_.end(), root) != deeper_roots_.end())
        return true;
      if (dirs_.size() >= kMaxDirectories) StartDiscovery(at);
      if (HasDiscovered() || dirs_.size() >= kMaxDirectories) return true;
      const auto [known, is_new] =
          dir_numbers_.try_emplace({directory, entry.name}, static_cast<uint32_t>(dirs_.size()));
      if (is_new) dirs_.push_back(Directory{directory, entry.name, 0});
      return true;
    }
    if (!S_ISREG(info.st_mode)) return true;
    const uint64_t known = files_.NumberOf(info.st_dev, info.st_ino);
    if (known != 0 && KeepName(known, directory, at, entry.name.c_str())) return true;
    return discovery_ != nullptr && discovery_->NumberOf(info.st_dev, info.st_ino) != 0;
  });
  return !HasDiscovered();
}

Result<bool> ObserverFiles::TakeEntries(uint32_t directory, std::vector<Entry>* entries,
                                        std::vector<NewFile>* new_files) {
  const std::lock_guard lock(mutex_);
  for (Entry& entry : *entries) {
    struct stat& info = entry.info;
    // The name leads to another file now, or a look-up has added the file meanwhile.
    if (!entry.fd.IsValid() || fstat(entry.fd.Get(), &info) != 0 || !S_ISREG(info.st_mode) ||
        files_.NumberOf(info.st_dev, info.st_ino) != 0) {
      continue;
    }
    if (files_.Size() + new_files->size() >= limits_.listed) StartDiscovery(entry.fd.Get());
    if (HasDiscovered()) return false;
    new_files->push_back(NewFile{std::move(entry.fd), directory, entry.name, info});
    if (new_files->size() < kBatch) continue;
    Status learnt = Learn(*new_files);
    new_files->clear();
    if (!learnt) return learnt.error();
  }
  return true;
}

// A file was discovered under this name: it has moved, unless its known name is still valid (a hard
// link).  False: a new file that reuses the inode of a removed one.
bool ObserverFiles::KeepName(uint64_t number, uint32_t parent, int directory, const char* name) {
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

Result<bool> ObserverFiles::Scan(uint64_t deadline_ns) {
  std::vector<NewFile> new_files;
  // dirs_ grows during the walk.
  for (uint32_t at = 0;; ++at) {
    std::unique_lock lock(mutex_);
    while (at < dirs_.size() && (dirs_[at].mtime_ns != 0 || dirs_[at].has_other_owner)) ++at;
    const bool is_done = at >= dirs_.size() || IsFull();
    if (is_done || MonotonicNs() >= deadline_ns) {
      const Status learnt = Learn(new_files);
      if (!learnt && !IsFull()) return learnt.error();
      return is_done || IsFull();
    }
    lock.unlock();
    const Status listed = ListDirectory(at, &new_files);
    lock.lock();
    if (!listed && at == 0 && !IsFull()) return listed.error();
    // A directory that cannot be listed (removed, no permission) is not retried.
    if (!listed) dirs_[at].mtime_ns = 1;
  }
}

// Unlisted directories come first: checking thousands of directories takes longer than one part, on
// a cold disk always.
Result<bool> ObserverFiles::Rescan(uint64_t deadline_ns) {
  Result<bool> listed = Scan(deadline_ns);
  if (!listed || !*listed || IsFull()) return listed;
  for (;; ++next_look_) {
    std::unique_lock lock(mutex_);
    if (next_look_ >= dirs_.size()) break;
    if (MonotonicNs() >= deadline_ns) return false;
    if (dirs_[next_look_].has_other_owner) continue;
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

// mutex_ held.
void ObserverFiles::StartDiscovery(int fd) {
  if (IsFull() || (discovery_ != nullptr && discovery_->Start(fd))) return;
  // The kernel's list takes them all until it is full.
  if (files_.Size() < kObsMaxInodes / 2) return;
  is_incomplete_.store(true, std::memory_order_relaxed);
  Log(LogLevel::kWarning, root_ +
                              " has more files than can be listed, and its file system opens "
                              "none by number: the others keep the kernel's own read-ahead");
}

// Whether a discovered file is listed, or lies in a directory that is registered itself.
bool ObserverFiles::IsAnothers(const struct stat& info, const std::string& name) {
  bool is_listed = false;
  {
    const std::lock_guard lock(mutex_);
    is_listed = files_.NumberOf(info.st_dev, info.st_ino) != 0;
  }
  if (is_listed) OnUnlistedInode(info.st_ino, (major(info.st_dev) << 20) | minor(info.st_dev));
  return is_listed || IsBelowOther(name);
}

void ObserverFiles::OnUnlistedInode(uint64_t ino, uint32_t dev) {
  std::unique_lock lock(mutex_);
  const uint64_t number = files_.NumberOf(makedev(dev >> 20, dev & 0xfffff), ino);
  const std::optional<InodeTable::File> file = files_.Get(number);
  if (file && file->key.ino == ino && file->key.dev == dev) (void)Relearn(number, *file, &lock);
}

// ------------------------------------------------------------------ directories below

bool ObserverFiles::IsBelowOther(const std::string& path) {
  const std::vector<ObserverPrograms::Root> roots = programs_->DeeperRoots();
  if (roots.empty()) return false;
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    struct stat info {};
    if (stat((root_ + "/" + path.substr(0, slash)).c_str(), &info) != 0) continue;
    const ObserverPrograms::Root root{info.st_dev, info.st_ino};
    if (std::find(roots.begin(), roots.end(), root) != roots.end()) return true;
  }
  return false;
}

bool ObserverFiles::RefreshDeeperRoots() {
  const std::vector<ObserverPrograms::Root> roots = programs_->DeeperRoots();
  const std::lock_guard lock(mutex_);
  if (roots == deeper_roots_) return false;
  deeper_roots_ = roots;
  for (size_t at = 1; at < dirs_.size(); ++at) {  // a parent comes before its children
    Directory& dir = dirs_[at];
    struct stat info {};
    const std::string path = root_ + "/" + PathOf(dir.parent, dir.name);
    dir.has_other_owner =
        dirs_[dir.parent].has_other_owner ||
        (stat(path.c_str(), &info) == 0 &&
         std::find(roots.begin(), roots.end(), ObserverPrograms::Root{info.st_dev, info.st_ino}) !=
             roots.end());
  }
  for (uint64_t number = 1; number <= files_.Numbers(); ++number) {
    const std::optional<InodeTable::File> file = files_.Get(number);
    if (file && dirs_[file->parent].has_other_owner) Forget(number);
  }
  // Directories that were another's are listed again; discovered files are found again through
  // theirs.
  for (Directory& dir : dirs_) dir.mtime_ns = 0;
  if (discovery_ != nullptr) discovery_->Unlist();
  return true;
}

}  // namespace ppc
