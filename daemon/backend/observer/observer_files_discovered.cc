// SPDX-License-Identifier: Apache-2.0
// Owns the files that are discovered instead of listed: opening them by inode number, and the
// kernel's list of the most recent ones; and the registered directories below.
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "daemon/backend/observer/observer_files.h"
#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/base/log.h"

namespace ppc {
namespace {

// Handle types of ext4, f2fs and others, and of xfs.
constexpr int kIno32 = 1;
constexpr int kIno64 = 0x81;

struct Handle {
  unsigned bytes = 0;
  int type = 0;
  unsigned char content[16] = {};

  file_handle* raw() { return reinterpret_cast<file_handle*>(this); }
};
static_assert(offsetof(Handle, content) == sizeof(file_handle));

// type 0: the handle cannot hold the inode number.
Handle HandleOf(int type, const DiscoveredFiles::File& file) {
  Handle handle;
  size_t at = type == kIno32 ? sizeof(uint32_t) : sizeof(uint64_t);
  const auto low = static_cast<uint32_t>(file.ino);
  if (type == kIno32 && file.ino != low) return handle;
  std::memcpy(handle.content, &file.ino, at);  // little-endian, as every supported machine
  std::memcpy(handle.content + at, &file.generation, sizeof(file.generation));
  handle.bytes = static_cast<unsigned>(at + sizeof(file.generation));
  handle.type = type;
  return handle;
}

Result<UniqueFd> OpenHandle(const std::string& root, Handle handle, int flags) {
  const UniqueFd base(open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!base.IsValid()) return PosixError("open " + root, errno);
  UniqueFd fd(open_by_handle_at(base.Get(), handle.raw(), flags | O_CLOEXEC));
  if (!fd.IsValid()) return PosixError("open a file of " + root + " by its number", errno);
  return fd;
}

}  // namespace

// mutex_ held.
void ObserverFiles::StartDiscovery(int fd) {
  if (IsFull()) return;
  Handle said;
  said.bytes = sizeof(said.content);
  int mount = 0;
  int generation = 0;
  struct stat info {};
  bool can_open = name_to_handle_at(fd, "", said.raw(), &mount, AT_EMPTY_PATH) == 0 &&
                  (said.type == kIno32 || said.type == kIno64) && fstat(fd, &info) == 0 &&
                  ioctl(fd, FS_IOC_GETVERSION, &generation) == 0;
  if (can_open) {
    Handle ours = HandleOf(said.type, {info.st_ino, static_cast<uint32_t>(generation)});
    can_open = ours.bytes == said.bytes && std::memcmp(&ours, &said, sizeof(ours)) == 0 &&
               OpenHandle(root_, ours, O_PATH).ok();
  }
  if (!can_open) {
    // The kernel's list takes them all until it is full.
    if (files_.Size() < kObsMaxInodes / 2) return;
    is_incomplete_.store(true, std::memory_order_relaxed);
    Log(LogLevel::kWarning, root_ +
                                " has more files than can be listed, and its file system opens "
                                "none by number: the others keep the kernel's own read-ahead");
    return;
  }
  discovered_dev_ = info.st_dev;
  discovered_key_dev_ = (major(info.st_dev) << 20) | minor(info.st_dev);
  handle_type_ = said.type;
  has_discovered_.store(true, std::memory_order_release);
  programs_->WantUnlisted();
}

Result<UniqueFd> ObserverFiles::OpenDiscovered(const DiscoveredFiles::File& file, int flags) const {
  const Handle handle = HandleOf(handle_type_, file);
  if (handle.type == 0) return Error{ESTALE, "an inode that no handle can say"};
  Result<UniqueFd> fd = OpenHandle(root_, handle, flags);
  if (!fd) return fd;
  struct stat info {};
  if (fstat(fd->Get(), &info) != 0 || info.st_dev != discovered_dev_ || info.st_ino != file.ino ||
      !S_ISREG(info.st_mode) || info.st_nlink == 0) {
    return Error{ESTALE, "a file of " + root_ + " is gone, or another one now"};
  }
  return fd;
}

Result<UniqueFd> ObserverFiles::OpenDiscovered(uint64_t number, int flags) {
  const std::optional<DiscoveredFiles::File> file = discovered_->Get(number);
  if (!file) return Error{ESTALE, "file number " + std::to_string(number) + ": not known any more"};
  Result<UniqueFd> fd = OpenDiscovered(*file, flags);
  if (fd || (fd.error().code != ESTALE && fd.error().code != ENOENT)) return fd;
  programs_->RemoveInode({file->ino, discovered_key_dev_, 0});
  discovered_->Forget(number);
  return Error{ESTALE, fd.error().message};
}

uint64_t ObserverFiles::Discover(uint64_t ino, uint32_t dev, uint32_t generation) {
  if (!has_discovered_.load(std::memory_order_acquire) || dev != discovered_key_dev_) return 0;
  DiscoveredFiles::File gone;
  const uint64_t number = discovered_->Discover({ino, generation}, MonotonicNs(), &gone);
  if (gone.ino != 0) programs_->RemoveInode({gone.ino, discovered_key_dev_, 0});
  return number;
}

// Opens by the kernel's hint, if that names the file.  A directory replaced by a link must not make
// this wait for another file system.
std::optional<ObserverFiles::Named> ObserverFiles::FindByHint(
    uint64_t number, const DiscoveredFiles::File& file) const {
  Named named{.whole = {}, .name = hints_.PathOf(number), .info = {}, .is_below = true};
  if (named.name.empty()) return std::nullopt;
  named.whole = Prefix() + named.name;
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS;
  const UniqueFd fd = OpenAt2(AT_FDCWD, named.whole, how);
  const struct stat& info = named.info;
  if (!fd.IsValid() || fstat(fd.Get(), &named.info) != 0 || info.st_ino != file.ino ||
      info.st_dev != discovered_dev_ || !S_ISREG(info.st_mode)) {
    return std::nullopt;
  }
  return named;
}

// EAGAIN: its name is not in memory.
Result<ObserverFiles::Named> ObserverFiles::FindByNumber(uint64_t number) {
  const Result<UniqueFd> fd = OpenDiscovered(number, O_PATH);
  if (!fd) return fd.error();
  Named named{.whole = LinkTarget("/proc/self/fd/" + std::to_string(fd->Get()))};
  if (named.whole.empty() || fstat(fd->Get(), &named.info) != 0)
    return PosixError("a file of " + root_, errno);
  struct stat again {};
  named.is_named = stat(named.whole.c_str(), &again) == 0 && again.st_ino == named.info.st_ino;
  named.is_below = named.whole.starts_with(Prefix());
  if (!named.is_named || !named.is_below) return named;
  named.name = named.whole.substr(Prefix().size());
  hints_.Learn(number, named.name);
  return named;
}

Result<FileInfo> ObserverFiles::ResolveDiscovered(uint64_t number, std::string* path) {
  const std::optional<DiscoveredFiles::File> file = discovered_->Get(number);
  if (!file) return Error{ESTALE, "file number " + std::to_string(number) + ": not known any more"};
  std::optional<Named> named = FindByHint(number, *file);
  if (!named) {
    Result<Named> found = FindByNumber(number);
    if (!found) return found.error();
    named = *std::move(found);
  }
  const struct stat& info = named->info;
  // Its name is not in memory: the event is reported only if the file is known to be ours.
  if (!named->is_named && discovered_->IsConfirmed(number)) return InfoOf(number, info);
  if (!named->is_named)
    return Error{EAGAIN, "the name of a file of " + root_ + " is not known now"};
  bool is_listed = false;
  {
    const std::lock_guard lock(mutex_);
    is_listed = files_.NumberOf(info.st_dev, info.st_ino) != 0;
  }
  if (is_listed) OnUnlistedInode(file->ino, discovered_key_dev_);
  if (!named->is_below || is_listed || IsBelowOther(named->name)) {
    discovered_->Refuse(number, MonotonicNs());
    return Error{ESTALE, named->whole + " is not one of " + root_};
  }
  const Status listed = ListDiscovered(number, *file);
  if (!listed) {
    discovered_->Refuse(number, MonotonicNs());
    return Error{ESTALE, listed.error().message};
  }
  if (path != nullptr) *path = std::move(named->name);
  return InfoOf(number, info);
}

Status ObserverFiles::ListDiscovered(uint64_t number, const DiscoveredFiles::File& file) {
  if (!discovered_->Confirm(number, /*is_listed=*/true)) return Ok();
  obs_inode inode{};
  inode.file = number;
  inode.dir = programs_->Directory();
  inode.generation = file.generation;
  const obs_inode_key key{file.ino, discovered_key_dev_, 0};
  UnlistDiscovered(limits_.in_kernel - 1);
  Status added = programs_->AddInode(key, inode);
  if (!added && added.error().code == ENOSPC) {  // other directories have filled the list
    UnlistDiscovered(limits_.in_kernel / 2);
    added = programs_->AddInode(key, inode);
  }
  const std::lock_guard lock(listed_mutex_);
  if (added) listed_.emplace_back(number, file.ino);
  return added;
}

// Keeps at most `most` files.
void ObserverFiles::UnlistDiscovered(size_t most) {
  const std::lock_guard lock(listed_mutex_);
  while (listed_.size() > most) {
    const auto [number, ino] = listed_.front();
    listed_.pop_front();
    // Its place may be reused by now.
    if (discovered_->NumberOf(ino) == number)
      (void)discovered_->Confirm(number, /*is_listed=*/false);
    programs_->RemoveInode({ino, discovered_key_dev_, 0});
  }
}

std::optional<FileInfo> ObserverFiles::Peek(uint64_t number) const {
  if (!DiscoveredFiles::IsDiscovered(number) || !discovered_->IsConfirmed(number))
    return std::nullopt;
  const std::optional<DiscoveredFiles::File> file = discovered_->Get(number);
  if (!file) return std::nullopt;
  return FileInfo{.file = number,
                  .size = Backend::kUnknownSize,
                  .ino = file->ino,
                  .dev_major = major(discovered_dev_),
                  .dev_minor = minor(discovered_dev_)};
}

void ObserverFiles::Expect(uint64_t file) {
  if (!DiscoveredFiles::IsDiscovered(file)) return;
  if (const std::optional<DiscoveredFiles::File> discovered = discovered_->Get(file))
    (void)ListDiscovered(file, *discovered);
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
  UnlistDiscovered(0);
  return true;
}

}  // namespace ppc
