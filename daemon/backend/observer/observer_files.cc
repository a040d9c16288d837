// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/observer/observer_files.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/base/log.h"

namespace ppc {
namespace {

constexpr long kBcachefsMagic = 0xca451a4e;

// On btrfs, inodes of two subvolumes may agree in device, number and generation.
bool SharesNumbers(int fd) {
  struct statfs fs {};
  if (fstatfs(fd, &fs) != 0) return false;
  return fs.f_type == BTRFS_SUPER_MAGIC || fs.f_type == kBcachefsMagic;
}

// An address range in which each of several files has one page mapped.
class Window {
 public:
  explicit Window(size_t files)
      : bytes_(files * kStride),
        base_(
            mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window() {
    if (base_ != MAP_FAILED) munmap(base_, bytes_);
  }
  bool Map(size_t index, int fd) {
    if (base_ == MAP_FAILED) return false;
    void* const at = static_cast<char*>(base_) + index * kStride;
    return mmap(at, kPageBytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
  }
  std::optional<size_t> IndexOf(uint64_t address) const {
    const auto base = reinterpret_cast<uintptr_t>(base_);
    if (address < base || address >= base + bytes_) return std::nullopt;
    return (address - base) / kStride;
  }

 private:
  static constexpr size_t kStride = 2 * kPageBytes;
  const size_t bytes_;
  void* const base_;
};

}  // namespace

ObserverFiles::ObserverFiles(std::string root, ObserverPrograms* programs, Limits limits)
    : root_(std::move(root)),
      below_root_(root_),
      programs_(programs),
      limits_(limits),
      discovery_(MakeFileDiscovery(root_, programs_, limits.in_kernel,
                                   [this](const struct stat& info, const std::string& name) {
                                     return IsAnothers(info, name);
                                   })) {
  dirs_.push_back(Directory{});
}

ObserverFiles::~ObserverFiles() {
  for (uint64_t number = 1; number <= files_.Numbers(); ++number) {
    if (const auto file = files_.Get(number)) programs_->RemoveInode(file->key);
  }
  if (discovery_ != nullptr) discovery_->Unlist();
  for (const uint32_t dev : devices_) programs_->RemoveDevice(dev);
}

int64_t ObserverFiles::ModifiedNs(const struct stat& info) {
  return info.st_mtim.tv_sec * static_cast<int64_t>(kNsPerSec) + info.st_mtim.tv_nsec;
}

std::string ObserverFiles::PathOf(uint32_t parent, std::string_view name) const {
  std::string path(name);
  for (uint32_t at = parent; at != 0; at = dirs_[at].parent) path = dirs_[at].name + "/" + path;
  return path;
}

uint32_t ObserverFiles::DirectoryOf(const std::string& path) {
  uint32_t at = 0;
  size_t from = 0;
  for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', from)) {
    const std::string name = path.substr(from, slash - from);
    from = slash + 1;
    if (name.empty() || name == ".") continue;
    const auto [entry, is_new] =
        dir_numbers_.try_emplace({at, name}, static_cast<uint32_t>(dirs_.size()));
    if (is_new) dirs_.push_back(Directory{at, name, 0});
    at = entry->second;
  }
  return at;
}

// -------------------------------------------------------------------- learning

Status ObserverFiles::Learn(std::span<NewFile> new_files) {
  if (new_files.empty()) return Ok();
  if (!programs_->CanLearn()) {
    for (NewFile& file : new_files) {
      const Result<uint64_t> added = Add(&file, nullptr);
      if (!added && added.error().code == ENOSPC) StartDiscovery(file.fd.Get());
      if (!added) return added.error();
    }
    return Ok();
  }
  Window window(new_files.size());
  for (size_t i = 0; i < new_files.size(); ++i) {
    if (!window.Map(i, new_files[i].fd.Get())) ++unseen_;
  }
  const Result<std::vector<obs_vma>> seen = programs_->OwnMappings();
  if (!seen) return seen.error();
  for (const obs_vma& vma : *seen) {
    const std::optional<size_t> index = window.IndexOf(vma.start);
    if (!index || *index >= new_files.size()) continue;
    const Result<uint64_t> added = Add(&new_files[*index], &vma);
    if (!added && added.error().code == ENOSPC) StartDiscovery(new_files[*index].fd.Get());
    if (!added) return added.error();
  }
  return Ok();
}

Status ObserverFiles::NoteDevice(uint32_t dev) {
  if (std::find(devices_.begin(), devices_.end(), dev) != devices_.end()) return Ok();
  Status added = programs_->AddDevice(dev);
  if (added) devices_.push_back(dev);
  return added;
}

// `seen` nullptr: no way to ask the page cache, so stat() is believed.
Result<uint64_t> ObserverFiles::Add(NewFile* found, const obs_vma* seen) {
  const dev_t dev = found->info.st_dev;
  const uint64_t known = files_.NumberOf(dev, found->info.st_ino);
  const uint64_t number = known != 0 ? known : files_.NextNumber();
  obs_inode_key key{};
  obs_inode inode{};
  if (seen != nullptr) {
    key = {seen->ino, seen->dev, seen->subvolume};
    inode.addr = seen->addr;
    inode.generation = seen->generation;
    inode.by_addr = seen->subvolume == 0 && SharesNumbers(found->fd.Get());
  } else {
    key = {found->info.st_ino, (major(dev) << 20) | minor(dev), 0};
    int generation = 0;
    if (ioctl(found->fd.Get(), FS_IOC_GETVERSION, &generation) == 0) {
      inode.generation = static_cast<uint32_t>(generation);
    }
  }
  inode.file = number;
  inode.dir = programs_->Directory();
  Status listed = programs_->AddInode(key, inode);
  if (!listed && listed.error().code == EEXIST) listed = Ok();  // a deeper directory's
  if (listed) listed = NoteDevice(key.dev);
  if (!listed) return listed.error();
  const InodeTable::File file{found->parent, found->name, dev, found->info.st_ino, key};
  if (known == 0) return files_.Add(file);
  const obs_inode_key before = files_.Get(known)->key;
  if (std::memcmp(&before, &key, sizeof(key)) != 0) programs_->RemoveInode(before);
  files_.Change(known, file);
  return known;
}

void ObserverFiles::Forget(uint64_t number) {
  const std::optional<InodeTable::File> file = files_.Get(number);
  if (!file) return;
  programs_->RemoveInode(file->key);
  // List the directory again, even if its time has not changed.
  dirs_[file->parent].mtime_ns = 0;
  files_.Remove(number);
}

bool ObserverFiles::OnChangedInode(uint64_t ino, uint32_t dev) {
  // Its next reader discovers a new file.
  if (discovery_ != nullptr && discovery_->Forget(ino, dev)) return true;
  std::unique_lock lock(mutex_);
  uint64_t number = 1;
  std::optional<InodeTable::File> file;
  for (; number <= files_.Numbers(); ++number) {
    file = files_.Get(number);
    if (file && file->key.ino == ino && file->key.dev == dev) break;
  }
  if (number > files_.Numbers()) return true;
  switch (Relearn(number, *file, &lock)) {
    case RelearnResult::kLearnt:
      break;
    case RelearnResult::kChanged:  // the next event reports it again
      break;
    case RelearnResult::kOtherFile:  // also if only its generation differs
      Forget(number);
      return false;
  }
  return true;
}

ObserverFiles::RelearnResult ObserverFiles::Relearn(uint64_t number, const InodeTable::File& file,
                                                    std::unique_lock<std::mutex>* lock) {
  const auto [parent, of_table, dev, ino, key] = file;
  const std::string name(of_table);
  const std::string path = PathOf(file);
  lock->unlock();
  Result<UniqueFd> fd = OpenBelow(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat info {};
  const bool is_same =
      fd && fstat(fd->Get(), &info) == 0 && info.st_ino == ino && info.st_dev == dev;
  lock->lock();
  const std::optional<InodeTable::File> now = files_.Get(number);
  if (!now || now->parent != parent || now->name != name) return RelearnResult::kChanged;
  if (!is_same) return RelearnResult::kOtherFile;
  NewFile file_now{std::move(*fd), parent, name, info};
  const Status learnt = Learn(std::span(&file_now, 1));
  if (!learnt) Log(LogLevel::kDebug, learnt.error().message);
  return RelearnResult::kLearnt;
}

// ----------------------------------------------------------------------- names

FileInfo ObserverFiles::InfoOf(uint64_t file, const struct stat& info) {
  return FileInfo{.file = file,
                  .size = static_cast<uint64_t>(info.st_size),
                  .ino = info.st_ino,
                  .mtime_ns = ModifiedNs(info),
                  .dev_major = major(info.st_dev),
                  .dev_minor = minor(info.st_dev)};
}

Result<FileInfo> ObserverFiles::Resolve(uint64_t file, std::string* path) {
  if (discovery_ != nullptr && FileDiscovery::IsDiscovered(file))
    return discovery_->Resolve(file, path);
  const Error stale{ESTALE, "file number " + std::to_string(file) + ": the file is gone"};
  std::unique_lock lock(mutex_);
  const std::optional<InodeTable::File> known = files_.Get(file);
  if (!known) return stale;
  const std::string name = PathOf(*known);
  lock.unlock();
  const Result<UniqueFd> fd = OpenBelow(name, O_PATH | O_NOFOLLOW);
  struct stat info {};
  const bool is_there = fd && fstat(fd->Get(), &info) == 0;
  lock.lock();
  if (!is_there || info.st_ino != known->ino || info.st_dev != known->dev) {
    Forget(file);
    return stale;
  }
  if (path != nullptr) *path = name;
  return InfoOf(file, info);
}

Result<FileInfo> ObserverFiles::Lookup(const std::string& path) {
  // Without the lock: thousands of files are looked up concurrently.
  const Result<UniqueFd> place = OpenBelow(path, O_PATH);
  if (!place) return place.error();
  struct stat info {};
  if (fstat(place->Get(), &info) != 0) return PosixError("look up " + path, errno);
  if (!S_ISREG(info.st_mode)) return Error{EINVAL, path + " is no regular file"};
  std::unique_lock lock(mutex_);
  const uint64_t known = files_.NumberOf(info.st_dev, info.st_ino);
  if (known != 0) return InfoOf(known, info);
  lock.unlock();
  const uint64_t discovered =
      discovery_ == nullptr ? 0 : discovery_->NumberOf(info.st_dev, info.st_ino);
  if (discovered != 0 && discovery_->Open(discovered, O_PATH)) return InfoOf(discovered, info);
  // Resolves symbolic links that stay below the root to the file's own name.
  char base[PATH_MAX];
  const std::string whole = LinkTarget("/proc/self/fd/" + std::to_string(place->Get()));
  if (realpath(root_.c_str(), base) == nullptr || whole.empty()) return PosixError(path, ESTALE);
  const std::string prefix = std::strcmp(base, "/") == 0 ? "/" : std::string(base) + "/";
  if (!whole.starts_with(prefix)) return PosixError("look up " + path, ELOOP);
  const std::string own = whole.substr(prefix.size());
  Result<UniqueFd> fd = OpenBelow(own, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!fd) return fd.error();
  lock.lock();
  if (const uint64_t added = files_.NumberOf(info.st_dev, info.st_ino); added != 0)
    return InfoOf(added, info);
  NewFile file{std::move(*fd), DirectoryOf(own), own.substr(own.rfind('/') + 1), info};
  const Status learnt = Learn(std::span(&file, 1));
  if (!learnt) return learnt.error();
  const uint64_t found = files_.NumberOf(info.st_dev, info.st_ino);
  if (found != 0) return InfoOf(found, info);
  return Error{ENOTSUP, path + ": the page cache does not know its inode (direct I/O?)"};
}

Result<UniqueFd> ObserverFiles::Open(uint64_t file) {
  if (discovery_ != nullptr && FileDiscovery::IsDiscovered(file)) {
    Result<UniqueFd> fd = discovery_->Open(file, O_RDONLY | O_NONBLOCK | O_NOATIME);
    if (!fd && fd.error().code == EPERM) fd = discovery_->Open(file, O_RDONLY | O_NONBLOCK);
    return fd;
  }
  std::string name;
  Identity wanted;
  {
    const std::lock_guard lock(mutex_);
    const std::optional<InodeTable::File> known = files_.Get(file);
    if (!known) return Error{ESTALE, "file number " + std::to_string(file) + ": the file is gone"};
    name = PathOf(*known);
    wanted = {known->dev, known->ino, std::string(known->name)};
  }
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK;
  Result<UniqueFd> fd = OpenBelow(name, kFlags | O_NOATIME);
  if (!fd && fd.error().code == EPERM) fd = OpenBelow(name, kFlags);
  if (!fd && fd.error().code != ENOENT) return fd;
  struct stat info {};
  if (!fd || fstat(fd->Get(), &info) != 0 || info.st_ino != wanted.ino ||
      info.st_dev != wanted.dev) {
    const std::lock_guard lock(mutex_);
    Forget(file);  // it may have another name now; its next reader causes a look-up
    return Error{ESTALE, name + " is gone, or another file now"};
  }
  return fd;
}

std::optional<ObserverFiles::Identity> ObserverFiles::IdentityOf(uint64_t file) const {
  if (discovery_ != nullptr && FileDiscovery::IsDiscovered(file)) {
    const auto inode = discovery_->InodeOf(file);
    return inode ? std::optional(Identity{inode->first, inode->second, ""}) : std::nullopt;
  }
  const std::lock_guard lock(mutex_);
  const std::optional<InodeTable::File> known = files_.Get(file);
  if (!known) return std::nullopt;
  return Identity{known->dev, known->ino, std::string(known->name)};
}

size_t ObserverFiles::Files() const {
  const std::lock_guard lock(mutex_);
  return files_.Size() + (discovery_ == nullptr ? 0 : discovery_->Files());
}

uint64_t ObserverFiles::Unseen() const {
  const std::lock_guard lock(mutex_);
  return unseen_;
}

}  // namespace ppc
