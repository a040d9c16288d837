// SPDX-License-Identifier: Apache-2.0
#include "daemon/backend/root_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string_view>
#include <utility>

#include "daemon/base/files.h"

namespace ppc {
namespace {

open_how Beneath(uint64_t flags) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS;
  return how;
}

const std::string& NameOf(const std::string& path) {
  static const std::string itself = ".";
  return path.empty() ? itself : path;
}

std::string PathOfDescriptor(int fd) { return LinkTarget("/proc/self/fd/" + std::to_string(fd)); }

char KindOf(const dirent& entry) {
  switch (entry.d_type) {
    case DT_REG:
      return 'f';
    case DT_DIR:
      return 'd';
    case DT_LNK:
      return 'l';
    default:
      return '?';
  }
}

}  // namespace

Result<UniqueFd> OpenPlain(int place, int flags) {
  struct stat st {};
  if (fstat(place, &st) != 0) return PosixError("stat a file", errno);
  if (S_ISLNK(st.st_mode)) return PosixError("open a symbolic link", ELOOP);
  if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
    return Error{EINVAL, "neither a regular file nor a directory"};
  const std::string link = "/proc/self/fd/" + std::to_string(place);
  // O_NONBLOCK: no holder of a lease may keep us.
  UniqueFd fd(open(link.c_str(), flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd.IsValid()) return PosixError("open a file", errno);
  return fd;
}

RootFiles::RootFiles(std::string root, std::optional<dev_t> device)
    : root_(std::move(root)), device_(device) {
  struct stat st {};
  if (device_ || stat(root_.c_str(), &st) != 0) return;
  device_ = st.st_dev;
  inode_ = st.st_ino;
}

Result<UniqueFd> RootFiles::OpenRoot() const {
  UniqueFd root(open(root_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.IsValid()) return PosixError("open " + root_, errno);
  if (!device_) return root;
  struct stat st {};
  if (fstat(root.Get(), &st) != 0) return PosixError("stat " + root_, errno);
  if (st.st_dev != *device_ || (inode_ != 0 && st.st_ino != inode_))
    return Error{ENODEV, root_ + " is another " + (inode_ != 0 ? "directory" : "mount") + " now"};
  return root;
}

Result<UniqueFd> RootFiles::Open(const std::string& path, int flags) const {
  const Result<UniqueFd> root = OpenRoot();
  if (!root) return root.error();
  const int kind = flags & (O_NOFOLLOW | O_DIRECTORY);
  UniqueFd place =
      OpenAt2(root->Get(), NameOf(path), Beneath(static_cast<uint64_t>(O_PATH | kind)));
  if (!place.IsValid()) return PosixError("open " + path + " below " + root_, errno);
  if ((flags & O_PATH) != 0) return place;
  Result<UniqueFd> fd = OpenPlain(place.Get(), flags & ~O_NOFOLLOW);
  if (!fd) return Error{fd.error().code, path + " below " + root_ + ": " + fd.error().message};
  return fd;
}

Result<size_t> ReadAt(int fd, const std::string& path, uint64_t offset, std::span<uint8_t> buffer) {
  size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t got =
        pread(fd, buffer.data() + done, buffer.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return PosixError("read " + path, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

Result<size_t> RootFiles::Read(const std::string& path, uint64_t offset,
                               std::span<uint8_t> buffer) const {
  const Result<UniqueFd> fd = Open(path);
  return fd ? ReadAt(fd->Get(), path, offset, buffer) : fd.error();
}

Status RootFiles::List(const std::string& path, const Backend::DirEntry& entry) const {
  Result<UniqueFd> fd = Open(path);
  if (!fd) return fd.error();
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(fdopendir(fd->Get()), closedir);
  if (dir == nullptr) return PosixError("list " + path, errno);
  (void)fd->Release();  // closedir closes it
  while (const dirent* found = readdir(dir.get())) {
    const std::string_view name = found->d_name;
    if (name == "." || name == "..") continue;
    if (!entry(found->d_name, KindOf(*found))) break;
  }
  return Ok();
}

Result<std::string> RootFiles::FollowLinks(const std::string& path) const {
  const Result<UniqueFd> root = OpenRoot();
  if (!root) return root.error();
  const UniqueFd fd = OpenAt2(root->Get(), NameOf(path), Beneath(O_PATH));
  // EXDEV: it leads out.
  if (!fd.IsValid()) return PosixError("look up " + path, errno == EXDEV ? ELOOP : errno);
  std::string base = PathOfDescriptor(root->Get());
  if (!base.ends_with('/')) base += '/';
  const std::string whole = PathOfDescriptor(fd.Get());
  if (!whole.starts_with(base)) return PosixError("look up " + path, ELOOP);
  return whole.substr(base.size());
}

}  // namespace ppc
