// SPDX-License-Identifier: Apache-2.0
// The files that are discovered instead of listed: opening them by inode number, and the kernel's
// list of the most recent ones.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <utility>

#include "daemon/backend/observer/file_discovery.h"
#include "daemon/backend/observer/observer_files.h"
#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "extras/discovery/discovered_files.h"
#include "extras/discovery/name_hints.h"

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

class NumberedFiles : public FileDiscovery {
 public:
  using IsAnothers = std::function<bool(const struct stat& info, const std::string& name)>;

  NumberedFiles(std::string root, ObserverPrograms* programs, size_t in_kernel,
                IsAnothers is_anothers)
      : root_(std::move(root)),
        programs_(programs),
        in_kernel_(in_kernel),
        is_anothers_(std::move(is_anothers)) {}

  bool Start(int fd) override;
  bool HasStarted() const override { return has_started_.load(std::memory_order_acquire); }
  uint64_t Discover(uint64_t ino, uint32_t dev, uint32_t generation) override;
  void NoteName(uint64_t file, uint64_t folder, std::string_view name) override {
    hints_.Note(file, folder, name);
  }
  void KeepName(uint64_t file) override { hints_.Keep(file); }
  Result<FileInfo> Resolve(uint64_t number, std::string* path) override;
  Result<UniqueFd> Open(uint64_t number, int flags) override;
  std::optional<FileInfo> Peek(uint64_t number) const override;
  std::optional<std::pair<dev_t, ino_t>> InodeOf(uint64_t number) const override;
  uint64_t NumberOf(dev_t dev, ino_t ino) const override {
    return HasStarted() && dev == dev_ ? files_.NumberOf(ino) : 0;
  }
  void Expect(uint64_t file) override;
  bool Forget(uint64_t ino, uint32_t dev) override;
  void Unlist() override { UnlistBut(0); }
  size_t Files() const override { return files_.Files(); }
  uint16_t Units(uint64_t file) const override { return files_.Units(file); }
  void SetUnits(uint64_t file, uint16_t units) override { files_.SetUnits(file, units); }

 private:
  struct Named {
    std::string whole;
    std::string name;  // below the root
    struct stat info {};
    bool is_below = false;
    bool is_named = true;  // `whole` leads to it
  };

  std::string Prefix() const { return root_ == "/" ? root_ : root_ + "/"; }
  Result<UniqueFd> OpenFile(const DiscoveredFiles::File& file, int flags) const;
  std::optional<Named> FindByHint(uint64_t number, const DiscoveredFiles::File& file) const;
  Result<Named> FindByNumber(uint64_t number);
  Status List(uint64_t number, const DiscoveredFiles::File& file);
  void UnlistBut(size_t most);

  const std::string root_;
  ObserverPrograms* const programs_;
  const size_t in_kernel_;
  const IsAnothers is_anothers_;
  DiscoveredFiles files_{DiscoveredFiles::kMostPlaces};
  NameHints hints_;
  std::atomic<bool> has_started_{false};
  // Written before has_started_.
  dev_t dev_ = 0;
  uint32_t key_dev_ = 0;
  int handle_type_ = 0;
  std::mutex listed_mutex_;
  std::deque<std::pair<uint64_t, uint64_t>> listed_;  // in the kernel: number, inode
};

bool NumberedFiles::Start(int fd) {
  Handle said;
  said.bytes = sizeof(said.content);
  int mount = 0;
  int generation = 0;
  struct stat info {};
  if (name_to_handle_at(fd, "", said.raw(), &mount, AT_EMPTY_PATH) != 0 ||
      (said.type != kIno32 && said.type != kIno64) || fstat(fd, &info) != 0 ||
      ioctl(fd, FS_IOC_GETVERSION, &generation) != 0) {
    return false;
  }
  Handle ours = HandleOf(said.type, {info.st_ino, static_cast<uint32_t>(generation)});
  if (ours.bytes != said.bytes || std::memcmp(&ours, &said, sizeof(ours)) != 0 ||
      !OpenHandle(root_, ours, O_PATH)) {
    return false;
  }
  dev_ = info.st_dev;
  key_dev_ = (major(info.st_dev) << 20) | minor(info.st_dev);
  handle_type_ = said.type;
  has_started_.store(true, std::memory_order_release);
  programs_->WantUnlisted();
  return true;
}

Result<UniqueFd> NumberedFiles::OpenFile(const DiscoveredFiles::File& file, int flags) const {
  const Handle handle = HandleOf(handle_type_, file);
  if (handle.type == 0) return Error{ESTALE, "an inode that no handle can say"};
  Result<UniqueFd> fd = OpenHandle(root_, handle, flags);
  if (!fd) return fd;
  struct stat info {};
  if (fstat(fd->Get(), &info) != 0 || info.st_dev != dev_ || info.st_ino != file.ino ||
      !S_ISREG(info.st_mode) || info.st_nlink == 0) {
    return Error{ESTALE, "a file of " + root_ + " is gone, or another one now"};
  }
  return fd;
}

Result<UniqueFd> NumberedFiles::Open(uint64_t number, int flags) {
  const std::optional<DiscoveredFiles::File> file = files_.Get(number);
  if (!file) return Error{ESTALE, "file number " + std::to_string(number) + ": not known any more"};
  Result<UniqueFd> fd = OpenFile(*file, flags);
  if (fd || (fd.error().code != ESTALE && fd.error().code != ENOENT)) return fd;
  programs_->RemoveInode({file->ino, key_dev_, 0});
  files_.Forget(number);
  return Error{ESTALE, fd.error().message};
}

uint64_t NumberedFiles::Discover(uint64_t ino, uint32_t dev, uint32_t generation) {
  if (!HasStarted() || dev != key_dev_) return 0;
  DiscoveredFiles::File gone;
  const uint64_t number = files_.Discover({ino, generation}, MonotonicNs(), &gone);
  if (gone.ino != 0) programs_->RemoveInode({gone.ino, key_dev_, 0});
  return number;
}

// Opens by the kernel's hint, if that names the file.  A directory replaced by a link must not make
// this wait for another file system.
std::optional<NumberedFiles::Named> NumberedFiles::FindByHint(
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
      info.st_dev != dev_ || !S_ISREG(info.st_mode)) {
    return std::nullopt;
  }
  return named;
}

// EAGAIN: its name is not in memory.
Result<NumberedFiles::Named> NumberedFiles::FindByNumber(uint64_t number) {
  const Result<UniqueFd> fd = Open(number, O_PATH);
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

Result<FileInfo> NumberedFiles::Resolve(uint64_t number, std::string* path) {
  const std::optional<DiscoveredFiles::File> file = files_.Get(number);
  if (!file) return Error{ESTALE, "file number " + std::to_string(number) + ": not known any more"};
  std::optional<Named> named = FindByHint(number, *file);
  if (!named) {
    Result<Named> found = FindByNumber(number);
    if (!found) return found.error();
    named = *std::move(found);
  }
  const struct stat& info = named->info;
  // Its name is not in memory: the event is reported only if the file is known to be ours.
  if (!named->is_named && files_.IsConfirmed(number)) return ObserverFiles::InfoOf(number, info);
  if (!named->is_named)
    return Error{EAGAIN, "the name of a file of " + root_ + " is not known now"};
  if (is_anothers_(info, named->name) || !named->is_below) {
    files_.Refuse(number, MonotonicNs());
    return Error{ESTALE, named->whole + " is not one of " + root_};
  }
  const Status listed = List(number, *file);
  if (!listed) {
    files_.Refuse(number, MonotonicNs());
    return Error{ESTALE, listed.error().message};
  }
  if (path != nullptr) *path = std::move(named->name);
  return ObserverFiles::InfoOf(number, info);
}

Status NumberedFiles::List(uint64_t number, const DiscoveredFiles::File& file) {
  if (!files_.Confirm(number, /*is_listed=*/true)) return Ok();
  obs_inode inode{};
  inode.file = number;
  inode.dir = programs_->Directory();
  inode.generation = file.generation;
  const obs_inode_key key{file.ino, key_dev_, 0};
  UnlistBut(in_kernel_ - 1);
  Status added = programs_->AddInode(key, inode);
  if (!added && added.error().code == ENOSPC) {  // other directories have filled the list
    UnlistBut(in_kernel_ / 2);
    added = programs_->AddInode(key, inode);
  }
  const std::lock_guard lock(listed_mutex_);
  if (added) listed_.emplace_back(number, file.ino);
  return added;
}

// Keeps at most `most` files.
void NumberedFiles::UnlistBut(size_t most) {
  const std::lock_guard lock(listed_mutex_);
  while (listed_.size() > most) {
    const auto [number, ino] = listed_.front();
    listed_.pop_front();
    // Its place may be reused by now.
    if (files_.NumberOf(ino) == number) (void)files_.Confirm(number, /*is_listed=*/false);
    programs_->RemoveInode({ino, key_dev_, 0});
  }
}

std::optional<FileInfo> NumberedFiles::Peek(uint64_t number) const {
  const std::optional<DiscoveredFiles::File> file = files_.Get(number);
  if (!file || !files_.IsConfirmed(number)) return std::nullopt;
  return FileInfo{.file = number,
                  .size = Backend::kUnknownSize,
                  .ino = file->ino,
                  .dev_major = major(dev_),
                  .dev_minor = minor(dev_)};
}

std::optional<std::pair<dev_t, ino_t>> NumberedFiles::InodeOf(uint64_t number) const {
  const std::optional<DiscoveredFiles::File> file = files_.Get(number);
  if (!file) return std::nullopt;
  return std::pair<dev_t, ino_t>{dev_, file->ino};
}

bool NumberedFiles::Forget(uint64_t ino, uint32_t dev) {
  if (!HasStarted() || dev != key_dev_) return false;
  const uint64_t number = files_.NumberOf(ino);
  if (number == 0) return false;
  programs_->RemoveInode({ino, dev, 0});
  files_.Forget(number);
  return true;
}

void NumberedFiles::Expect(uint64_t file) {
  if (const std::optional<DiscoveredFiles::File> discovered = files_.Get(file))
    (void)List(file, *discovered);
}

}  // namespace

std::unique_ptr<FileDiscovery> MakeFileDiscovery(
    const std::string& root, ObserverPrograms* programs, size_t in_kernel,
    std::function<bool(const struct stat& info, const std::string& name)> is_anothers) {
  return std::make_unique<NumberedFiles>(root, programs, in_kernel, std::move(is_anothers));
}

}  // namespace ppc
