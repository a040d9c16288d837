// SPDX-License-Identifier: Apache-2.0
// Asks a file or directory everything a read-only file system can be asked and prints the answers,
// so that those of two paths can be compared as text.
// usage: ppc-answers QUESTION PATH [ARGUMENT]      (questions: the table at the end)
#include <dirent.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/fsverity.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

// An open file, closed at the end.
class Fd {
 public:
  Fd(const std::string& path, int flags) : fd_(open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

const char* Error(bool failed) { return failed ? strerrorname_np(errno) : "ok"; }

void Say(const char* what, bool failed) { std::printf("%s %s\n", what, Error(failed)); }

uint64_t Hash(const void* data, size_t bytes, uint64_t hash = 14695981039346656037ULL) {
  const auto* at = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < bytes; ++i) hash = (hash ^ at[i]) * 1099511628211ULL;
  return hash;
}

void Time(const char* what, const struct statx_timestamp& time) {
  std::printf("%s %lld.%09u\n", what, static_cast<long long>(time.tv_sec), time.tv_nsec);
}

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

int Fiemap(const std::string& path, const std::string&) {
  constexpr unsigned kExtents = 64;
  const Fd fd(path, O_RDONLY);
  std::vector<char> buffer(sizeof(struct fiemap) + kExtents * sizeof(struct fiemap_extent));
  auto* map = reinterpret_cast<struct fiemap*>(buffer.data());
  map->fm_length = UINT64_MAX;
  map->fm_extent_count = kExtents;
  Say("FIEMAP", ioctl(fd.get(), FS_IOC_FIEMAP, map) < 0);
  for (unsigned i = 0; i < map->fm_mapped_extents; ++i) {
    const struct fiemap_extent& e = map->fm_extents[i];
    std::printf("%llu %llu %llu %x\n", static_cast<unsigned long long>(e.fe_logical),
                static_cast<unsigned long long>(e.fe_physical),
                static_cast<unsigned long long>(e.fe_length), e.fe_flags);
  }
  map->fm_flags = 0x80000000;
  Say("FIEMAP with a flag unknown", ioctl(fd.get(), FS_IOC_FIEMAP, map) < 0);
  return 0;
}

int Seek(const std::string& path, const std::string&) {
  const Fd fd(path, O_RDONLY);
  struct stat s {};
  fstat(fd.get(), &s);
  off_t data = 0;
  while (true) {
    data = lseek(fd.get(), data, SEEK_DATA);
    if (data < 0) break;
    const off_t hole = lseek(fd.get(), data, SEEK_HOLE);
    std::printf("data %lld to %lld\n", static_cast<long long>(data), static_cast<long long>(hole));
    data = hole;
  }
  Say("last", true);
  for (const auto& [at, whence] :
       std::initializer_list<std::pair<off_t, int>>{{-1, SEEK_SET},
                                                    {s.st_size + 5, SEEK_SET},
                                                    {INT64_MAX, SEEK_SET},
                                                    {1, SEEK_CUR},
                                                    {-3, SEEK_END},
                                                    {s.st_size, SEEK_DATA},
                                                    {s.st_size, SEEK_HOLE},
                                                    {-1, SEEK_DATA},
                                                    {0, 17}}) {
    const off_t pos = lseek(fd.get(), at, whence);
    std::printf("seek %lld by %d: %lld %s\n", static_cast<long long>(at), whence,
                static_cast<long long>(pos), Error(pos < 0));
  }
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

// source PATH OUTDIR: as the source of everything that copies without a buffer.
int Source(const std::string& path, const std::string& out_dir) {
  const Fd in(path, O_RDONLY);
  const Fd out(out_dir + "/source.out", O_RDWR | O_CREAT | O_TRUNC);
  off_t at = 4097;
  ssize_t n = sendfile(out.get(), in.get(), &at, 100000);
  std::printf("sendfile %zd at %lld %s\n", n, static_cast<long long>(at), Error(n < 0));
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) < 0) return 1;
  at = 12345;
  n = splice(in.get(), &at, pipes[1], nullptr, 30000, 0);
  std::vector<char> buffer(65536);
  const ssize_t got = n <= 0 ? 0 : read(pipes[0], buffer.data(), buffer.size());
  std::printf("splice %s hash %llx\n", Error(n < 0),
              static_cast<unsigned long long>(Hash(buffer.data(), got > 0 ? 4096 : 0)));
  Say("splice into it", splice(pipes[0], nullptr, in.get(), nullptr, 10, 0) < 0);
  close(pipes[0]);
  close(pipes[1]);
  at = 0;
  n = copy_file_range(out.get(), &at, in.get(), nullptr, 100, 0);
  Say("copy_file_range into it", n < 0);
  n = readahead(in.get(), 0, 1 << 20);
  Say("readahead", n < 0);
  Say("fadvise", (errno = posix_fadvise(in.get(), 0, 0, POSIX_FADV_WILLNEED)) != 0);
  Say("fadvise unknown", (errno = posix_fadvise(in.get(), 0, 0, 77)) != 0);
  Say("sync_file_range", sync_file_range(in.get(), 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE) < 0);
  Say("fallocate", fallocate(in.get(), 0, 0, 10) < 0);
  Say("ftruncate", ftruncate(in.get(), 0) < 0);
  Say("fsync", fsync(in.get()) < 0);
  std::fill(buffer.begin(), buffer.end(), 0);
  struct iovec vectors[2] = {{buffer.data(), 100}, {buffer.data() + 200, 3000}};
  n = preadv(in.get(), vectors, 2, 77);
  std::printf("preadv %zd hash %llx\n", n,
              static_cast<unsigned long long>(Hash(buffer.data(), buffer.size())));
  for (const int flags : {RWF_NOWAIT, RWF_HIPRI, RWF_DSYNC, RWF_APPEND, 0x4000}) {
    n = preadv2(in.get(), vectors, 2, 77, flags);
    std::printf("preadv2 %x %zd %s\n", flags, n, Error(n < 0));
  }
  n = pread(in.get(), buffer.data(), 10, -1);
  Say("pread at -1", n < 0);
  n = pread(in.get(), buffer.data(), 10, INT64_MAX - 20);
  std::printf("pread far %zd %s\n", n, Error(n < 0));
  n = syscall(SYS_read, in.get(), 16L, 10UL);
  Say("read to nowhere", n < 0);
  return 0;
}

// copyrange PATH OUTFILE
int CopyRange(const std::string& path, const std::string& out_path) {
  const Fd in(path, O_RDONLY);
  const Fd out(out_path, O_RDWR | O_CREAT | O_TRUNC);
  const ssize_t n = copy_file_range(in.get(), nullptr, out.get(), nullptr, 50000, 0);
  std::printf("%zd %s\n", n, Error(n < 0));
  return 0;
}

// Residency by mincore and, where the kernel has it, cachestat.
int Cached(const std::string& path, const std::string&) {
  const Fd fd(path, O_RDONLY);
  struct stat s {};
  fstat(fd.get(), &s);
  const auto bytes = static_cast<size_t>(s.st_size);
  void* map = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (map == MAP_FAILED) return 1;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> present((bytes + page - 1) / page);
  const bool failed = mincore(map, bytes, present.data()) < 0;
  size_t count = 0;
  for (const unsigned char p : present) count += p & 1;
  std::printf("mincore %s %zu\n", Error(failed), count);
  munmap(map, bytes);
  struct {
    uint64_t offset, length;
  } range{0, 0};
  struct {
    uint64_t cache, dirty, writeback, evicted, recently_evicted;
  } stat{};
  const long ret = syscall(451, fd.get(), &range, &stat, 0);
  std::printf("cachestat %s %llu\n", Error(ret < 0), static_cast<unsigned long long>(stat.cache));
  return 0;
}

// async PATH COMMAND: eight direct reads at once; COMMAND runs between submitting and reaping them.
int Async(const std::string& path, const std::string& command) {
  constexpr long kReads = 8, kBytes = 65536;
  const Fd fd(path, O_RDONLY | O_DIRECT);
  aio_context_t context = 0;
  if (syscall(SYS_io_setup, kReads, &context) < 0) return 1;
  const std::unique_ptr<char, decltype(&std::free)> buffer(
      static_cast<char*>(std::aligned_alloc(4096, kReads * kBytes)), std::free);
  std::vector<iocb> requests(kReads);
  std::vector<iocb*> pointers;
  for (long i = 0; i < kReads; ++i) {
    iocb& request = requests[i];
    request.aio_lio_opcode = IOCB_CMD_PREAD;
    request.aio_fildes = static_cast<uint32_t>(fd.get());
    request.aio_buf = reinterpret_cast<uintptr_t>(buffer.get() + i * kBytes);
    request.aio_nbytes = kBytes;
    request.aio_offset = i * kBytes;
    pointers.push_back(&request);
  }
  const long submitted = syscall(SYS_io_submit, context, kReads, pointers.data());
  std::vector<io_event> events(kReads);
  timespec now{};
  long ready = syscall(SYS_io_getevents, context, 0L, kReads, events.data(), &now);
  std::printf("submitted %ld ready %ld\n", submitted, ready);
  std::fflush(stdout);
  if (std::system(command.c_str()) != 0) return 1;
  ready += syscall(SYS_io_getevents, context, kReads - ready, kReads - ready, events.data() + ready,
                   nullptr);
  int64_t bytes = 0;
  for (const io_event& event : events) bytes += event.res;
  std::printf("ready %ld bytes %lld hash %llx\n", ready, static_cast<long long>(bytes),
              static_cast<unsigned long long>(Hash(buffer.get(), kReads * kBytes)));
  syscall(SYS_io_destroy, context);
  return 0;
}

struct Question {
  const char* name;
  int (*ask)(const std::string& path, const std::string& argument);
};

constexpr Question kQuestions[] = {
    {"statx", Statx},         {"mountid", MountId},     {"attributes", Attributes},
    {"ioctls", Ioctls},       {"fiemap", Fiemap},       {"seek", Seek},
    {"directory", Directory}, {"handle", NameToHandle}, {"openhandle", OpenHandle},
    {"locks", Locks},         {"leases", Leases},       {"source", Source},
    {"copyrange", CopyRange}, {"cached", Cached},       {"async", Async},
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: ppc-answers QUESTION PATH [ARGUMENT]\n");
    return 2;
  }
  for (const Question& question : kQuestions) {
    if (question.name == std::string(argv[1]))
      return question.ask(argv[2], argc > 3 ? argv[3] : "");
  }
  std::fprintf(stderr, "ppc-answers: unknown question '%s'\n", argv[1]);
  return 2;
}
