// SPDX-License-Identifier: Apache-2.0
// Questions about extents, about copying without a buffer, and about the page cache.
#include <linux/aio_abi.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "answers.h"

namespace ppc::test {

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

int Seals(const std::string& path, const std::string&) {
  const Fd fd(path, O_RDONLY);
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  std::printf("seals %s %x\n", Error(seals < 0), seals < 0 ? 0U : static_cast<unsigned>(seals));
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

}  // namespace ppc::test
