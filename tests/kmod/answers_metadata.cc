// SPDX-License-Identifier: Apache-2.0
// Questions about names, attributes, handles and locks.
#include <dirent.h>
#include <linux/fs.h>
#include <linux/fsverity.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "answers.h"

namespace ppc::test {

namespace {

void Time(const char* what, const struct statx_timestamp& time) {
  std::printf("%s %lld.%09u\n", what, static_cast<long long>(time.tv_sec), time.tv_nsec);
}

// The bytes of a handle follow its head.
class Handle {
 public:
  Handle() { head()->handle_bytes = MAX_HANDLE_SZ; }
  struct file_handle* head() {
    return reinterpret_cast<struct file_handle*>(buffer_);
  }
  unsigned char* bytes() {
    return reinterpret_cast<unsigned char*>(buffer_) + sizeof(struct file_handle);
  }

 private:
  alignas(struct file_handle) char buffer_[sizeof(struct file_handle) + MAX_HANDLE_SZ] = {};
};

}  // namespace

// Everything of statx but the device and the mount, which are our own.
int Statx(const std::string& path, const std::string&) {
  struct statx s {};
  const int ret = statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW, 0xfff & ~0x1000, &s);
  Say("statx", ret < 0);
  std::printf("mask %x attributes %llx of %llx\n", s.stx_mask & ~0x1000U,
              static_cast<unsigned long long>(s.stx_attributes & ~STATX_ATTR_MOUNT_ROOT),
              static_cast<unsigned long long>(s.stx_attributes_mask));
  std::printf("mode %o links %u owner %u:%u inode %llu\n", s.stx_mode, s.stx_nlink, s.stx_uid,
              s.stx_gid, static_cast<unsigned long long>(s.stx_ino));
  std::printf("size %llu blocks %llu of %u\n", static_cast<unsigned long long>(s.stx_size),
              static_cast<unsigned long long>(s.stx_blocks), s.stx_blksize);
  Time("atime", s.stx_atime);
  Time("btime", s.stx_btime);
  Time("ctime", s.stx_ctime);
  Time("mtime", s.stx_mtime);
  return 0;
}

int MountId(const std::string& path, const std::string&) {
  struct statx s {};
  if (statx(AT_FDCWD, path.c_str(), 0, 0x1000, &s) < 0) return 1;
#ifdef STATX_MNT_ID
  std::printf("%llu\n", static_cast<unsigned long long>(s.stx_mnt_id));
#endif
  return 0;
}

int Attributes(const std::string& path, const std::string&) {
  const Fd fd(path, O_RDONLY | O_NONBLOCK);
  Say("open", !fd.ok());
  long flags = 0, version = 0;
  bool failed = ioctl(fd.get(), FS_IOC_GETFLAGS, &flags) < 0;
  std::printf("GETFLAGS %s %lx\n", Error(failed), flags);
  struct fsxattr x {};
  failed = ioctl(fd.get(), FS_IOC_FSGETXATTR, &x) < 0;
  std::printf("FSGETXATTR %s %x %u %u %u %u\n", Error(failed), x.fsx_xflags, x.fsx_extsize,
              x.fsx_nextents, x.fsx_projid, x.fsx_cowextsize);
  failed = ioctl(fd.get(), FS_IOC_GETVERSION, &version) < 0;
  std::printf("GETVERSION %s %lx\n", Error(failed), version);
  char label[FSLABEL_MAX] = {};
  failed = ioctl(fd.get(), FS_IOC_GETFSLABEL, label) < 0;
  std::printf("GETFSLABEL %s '%s'\n", Error(failed), label);
  int block = 0;
  failed = ioctl(fd.get(), FIGETBSZ, &block) < 0;
  std::printf("FIGETBSZ %s %d\n", Error(failed), block);
  int left = 0;
  failed = ioctl(fd.get(), FIONREAD, &left) < 0;
  std::printf("FIONREAD %s %d\n", Error(failed), left);
  alignas(fsverity_digest) char buffer[sizeof(fsverity_digest) + 64] = {};
  auto* verity = reinterpret_cast<fsverity_digest*>(buffer);
  verity->digest_size = 64;
  failed = ioctl(fd.get(), FS_IOC_MEASURE_VERITY, verity) < 0;
  std::printf("MEASURE_VERITY %s %llx\n", Error(failed),
              static_cast<unsigned long long>(Hash(buffer, failed ? 0 : sizeof(buffer))));
  std::array<char, 4096> descriptor{};
  struct fsverity_read_metadata_arg read {};
  read.metadata_type = FS_VERITY_METADATA_TYPE_DESCRIPTOR;
  read.length = descriptor.size();
  read.buf_ptr = reinterpret_cast<uint64_t>(descriptor.data());
  const int bytes = ioctl(fd.get(), FS_IOC_READ_VERITY_METADATA, &read);
  std::printf("READ_VERITY_METADATA %s %d %llx\n", Error(bytes < 0), bytes,
              static_cast<unsigned long long>(Hash(descriptor.data(), descriptor.size())));
  return 0;
}

// What changes something, or is only for file systems on a disk of their own: for a mount alone,
// a plain file system would do it.
int Ioctls(const std::string& path, const std::string&) {
  const Fd fd(path, O_RDONLY | O_NONBLOCK);
  long flags = FS_NODUMP_FL;
  Say("SETFLAGS", ioctl(fd.get(), FS_IOC_SETFLAGS, &flags) < 0);
  struct fsxattr x {};
  Say("FSSETXATTR", ioctl(fd.get(), FS_IOC_FSSETXATTR, &x) < 0);
  long version = 1;
  Say("SETVERSION", ioctl(fd.get(), _IOW('v', 2, long), &version) < 0);
  char label[FSLABEL_MAX] = "x";
  Say("SETFSLABEL", ioctl(fd.get(), FS_IOC_SETFSLABEL, label) < 0);
  struct fstrim_range range {};
  range.len = UINT64_MAX;
  Say("FITRIM", ioctl(fd.get(), FITRIM, &range) < 0);
  int block = 0;
  Say("FIBMAP", ioctl(fd.get(), FIBMAP, &block) < 0);
  struct fsverity_enable_arg enable {};
  enable.version = 1;
  enable.hash_algorithm = 1;
  enable.block_size = 4096;
  Say("ENABLE_VERITY", ioctl(fd.get(), FS_IOC_ENABLE_VERITY, &enable) < 0);
  Say("unknown", ioctl(fd.get(), _IO('P', 0xee), 0) < 0);
  return 0;
}

// Every name with its cookie; then back to cookies of every part of the directory.
int Directory(const std::string& path, const std::string&) {
  DIR* dir = opendir(path.c_str());
  if (!dir) return 1;
  struct Entry {
    long cookie;
    std::string name;
    ino_t inode;
  };
  std::vector<Entry> entries;
  long cookie = telldir(dir);
  while (const dirent* entry = readdir(dir)) {
    entries.push_back({cookie, entry->d_name, entry->d_ino});
    cookie = telldir(dir);
  }
  uint64_t hash = 0;
  for (const Entry& e : entries) {
    hash = Hash(&e.cookie, sizeof(e.cookie), hash);
    hash = Hash(e.name.data(), e.name.size(), hash);
    // the parent of a root is the mount's own affair
    if (e.name != "..") hash = Hash(&e.inode, sizeof(e.inode), hash);
  }
  std::printf("entries %zu hash %llx\n", entries.size(), static_cast<unsigned long long>(hash));
  size_t wrong = 0;
  for (size_t i = 0; i < 500 && !entries.empty(); ++i) {
    const Entry& e = entries[(i * 7919) % entries.size()];
    seekdir(dir, e.cookie);
    const dirent* entry = readdir(dir);
    wrong += !entry || e.name != entry->d_name;
  }
  rewinddir(dir);
  const dirent* first = readdir(dir);
  wrong += !first || entries.empty() || entries[0].name != first->d_name;
  std::printf("wrong after seekdir %zu\n", wrong);
  closedir(dir);
  const Fd fd(path, O_RDONLY | O_DIRECTORY);
  char byte = 0;
  Say("read", read(fd.get(), &byte, 1) < 0);
  Say("mmap", mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd.get(), 0) == MAP_FAILED);
  return 0;
}

int NameToHandle(const std::string& path, const std::string&) {
  Handle handle;
  int mount = 0;
  if (name_to_handle_at(AT_FDCWD, path.c_str(), handle.head(), &mount, 0) < 0) {
    std::printf("%s\n", Error(true));
    return 0;
  }
  std::printf("%d ", handle.head()->handle_type);
  for (unsigned i = 0; i < handle.head()->handle_bytes; ++i) std::printf("%02x", handle.bytes()[i]);
  std::printf("\n");
  return 0;
}

// openhandle MOUNT "TYPE HEX": what is behind it.
int OpenHandle(const std::string& path, const std::string& text) {
  Handle handle;
  const size_t blank = text.find(' ');
  if (blank == std::string::npos) return 2;
  handle.head()->handle_type = static_cast<int>(std::strtol(text.c_str(), nullptr, 10));
  handle.head()->handle_bytes = 0;
  for (size_t at = blank + 1; at + 1 < text.size(); at += 2) {
    if (handle.head()->handle_bytes == MAX_HANDLE_SZ) return 2;
    handle.bytes()[handle.head()->handle_bytes++] =
        static_cast<unsigned char>(std::strtoul(text.substr(at, 2).c_str(), nullptr, 16));
  }
  const Fd mount(path, O_RDONLY | O_DIRECTORY);
  const Fd fd(open_by_handle_at(mount.get(), handle.head(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.ok()) {
    std::printf("%s\n", Error(true));
    return 0;
  }
  struct stat s {};
  fstat(fd.get(), &s);
  std::vector<char> buffer(65536);
  const ssize_t n = S_ISDIR(s.st_mode) ? 0 : read(fd.get(), buffer.data(), buffer.size());
  std::printf("inode %llu mode %o bytes %zd hash %llx\n", static_cast<unsigned long long>(s.st_ino),
              s.st_mode, n, static_cast<unsigned long long>(Hash(buffer.data(), n > 0 ? n : 0)));
  char link[4096] = {};
  const std::string self = "/proc/self/fd/" + std::to_string(fd.get());
  std::printf("path %s\n", readlink(self.c_str(), link, sizeof(link) - 1) < 0 ? "?" : link);
  return 0;
}

// locks PATH: what another process would get, too.
int Locks(const std::string& path, const std::string&) {
  const Fd fd(path, O_RDONLY);
  const Fd other(path, O_RDONLY);
  Say("flock shared", flock(fd.get(), LOCK_SH | LOCK_NB) < 0);
  Say("flock shared by another", flock(other.get(), LOCK_SH | LOCK_NB) < 0);
  Say("flock exclusive", flock(fd.get(), LOCK_EX | LOCK_NB) < 0);
  Say("unlock", flock(other.get(), LOCK_UN) < 0);
  Say("flock exclusive", flock(fd.get(), LOCK_EX | LOCK_NB) < 0);
  Say("flock shared by another", flock(other.get(), LOCK_SH | LOCK_NB) < 0);
  Say("unlock", flock(fd.get(), LOCK_UN) < 0);
  struct flock lock {};
  lock.l_type = F_RDLCK;
  lock.l_whence = SEEK_SET;
  lock.l_len = 100;
  Say("read lock", fcntl(fd.get(), F_SETLK, &lock) < 0);
  std::fflush(stdout);
  if (fork() == 0) {
    struct flock query {};
    query.l_type = F_WRLCK;
    query.l_whence = SEEK_SET;
    query.l_start = 50;
    query.l_len = 100;
    const bool failed = fcntl(other.get(), F_GETLK, &query) < 0;
    std::printf("seen by another %s type %d at %lld\n", Error(failed), query.l_type,
                static_cast<long long>(query.l_start));
    std::fflush(stdout);
    _exit(0);
  }
  wait(nullptr);
  Say("open file description lock", [&] {
    struct flock ofd {};
    ofd.l_type = F_RDLCK;
    ofd.l_whence = SEEK_SET;
    return fcntl(fd.get(), F_OFD_SETLK, &ofd) < 0;
  }());
  lock.l_type = F_WRLCK;
  Say("write lock", fcntl(fd.get(), F_SETLK, &lock) < 0);
  return 0;
}

int Leases(const std::string& path, const std::string&) {
  const Fd fd(path, O_RDONLY);
  Say("read lease", fcntl(fd.get(), F_SETLEASE, F_RDLCK) < 0);
  Say("write lease", fcntl(fd.get(), F_SETLEASE, F_WRLCK) < 0);
  std::printf("lease %d\n", fcntl(fd.get(), F_GETLEASE));
  return 0;
}

}  // namespace ppc::test
