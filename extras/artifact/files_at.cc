// SPDX-License-Identifier: Apache-2.0
#include "extras/artifact/files_at.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>

#include "daemon/base/clock.h"
#include "daemon/base/files.h"
#include "daemon/base/unique_fd.h"

namespace ppc::artifact {

Result<std::vector<std::string>> NamesAt(int directory, const std::string& path) {
  UniqueFd fd(openat(directory, path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.IsValid()) return PosixError(path, errno);
  const DirStream stream(fdopendir(fd.Get()));
  if (!stream) return PosixError(path, errno);
  (void)fd.Release();
  std::vector<std::string> names;
  for (errno = 0; const dirent* entry = readdir(stream.get()); errno = 0) {  // NOLINT: own stream
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) return PosixError(path, errno);
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> ReadFileAt(int directory, const std::string& path, size_t max_bytes) {
  const UniqueFd fd(openat(directory, path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.IsValid()) return PosixError(path, errno);
  std::string text;
  std::array<char, 65536> buffer;
  while (text.size() <= max_bytes) {
    const ssize_t got = read(fd.Get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return PosixError(path, errno);
    if (got == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return PosixError(path, EFBIG);
}

Status WriteFileAt(int directory, const std::string& path, std::string_view text, mode_t mode) {
  const UniqueFd fd(
      openat(directory, path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!fd.IsValid()) return PosixError(path, errno);
  Status status = WriteAll(fd.Get(), text.data(), text.size());
  if (status && fsync(fd.Get()) != 0) status = PosixError("fsync " + path, errno);
  if (!status) unlinkat(directory, path.c_str(), 0);
  return status;
}

int MakeDirectories(const std::string& path, mode_t mode) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    if (mkdir(path.substr(0, end).c_str(), mode) != 0 && errno != EEXIST) return errno;
    if (end == std::string::npos) return 0;
  }
}

int SyncFileAt(int directory, const std::string& path) {
  const UniqueFd fd(openat(directory, path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  return fd.IsValid() && fsync(fd.Get()) == 0 ? 0 : errno;
}

int SyncDirectoryAt(int directory, const std::string& path) {
  const UniqueFd fd(openat(directory, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd.IsValid() && fsync(fd.Get()) == 0 ? 0 : errno;
}

bool MayBeShared(int fd) {
  constexpr std::array<uint32_t, 10> kLocal = {
      EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,  BTRFS_SUPER_MAGIC,     TMPFS_MAGIC,
      RAMFS_MAGIC,      F2FS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, 0x2fc12fc1,  // ZFS
      0xca451a4e,                                                             // bcachefs
      0x52654973};                                                            // ReiserFS
  struct statfs info {};
  if (fstatfs(fd, &info) != 0) return true;
  return std::find(kLocal.begin(), kLocal.end(), static_cast<uint32_t>(info.f_type)) ==
         kLocal.end();
}

bool IsOlderThan(int directory, const std::string& path, int64_t seconds) {
  struct stat info {};
  return fstatat(directory, path.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
         info.st_mtim.tv_sec < time(nullptr) - seconds;
}

void RemoveTreeAt(int directory, const std::string& name) {
  if (unlinkat(directory, name.c_str(), 0) == 0 || errno != EISDIR) return;
  const UniqueFd fd(
      openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.IsValid()) return;
  if (const Result<std::vector<std::string>> names = NamesAt(fd.Get(), "."); names) {
    for (const std::string& child : *names) RemoveTreeAt(fd.Get(), child);
  }
  unlinkat(directory, name.c_str(), AT_REMOVEDIR);
}

int LockWithin(int fd, int operation, int patience_ms) {
  constexpr int kBetweenTriesMs = 50;
  while (flock(fd, operation | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK || patience_ms <= 0) return errno;
    poll(nullptr, 0, kBetweenTriesMs);
    patience_ms -= kBetweenTriesMs;
  }
  return 0;
}

std::string RandomName() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<uint8_t, 8> bytes{};
  (void)!getentropy(bytes.data(), bytes.size());
  std::string name;
  for (const uint8_t byte : bytes) {
    name += kDigits[byte >> 4];
    name += kDigits[byte & 15];
  }
  return name;
}

int64_t ModifiedNs(const struct stat& info) {
  return static_cast<int64_t>(info.st_mtim.tv_sec) * static_cast<int64_t>(kNsPerSec) +
         info.st_mtim.tv_nsec;
}

}  // namespace ppc::artifact
