// SPDX-License-Identifier: Apache-2.0
// Application commands of ppcdev.
#include "app.h"

#include <fcntl.h>
#include <numaif.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>

namespace ppc::test {

namespace {

constexpr size_t kPage = 4096;

// FNV-1a over 64-bit words, whatever the sizes of the pieces; order matters, so it shows
// misplaced data.
class Hasher {
 public:
  void Add(const char* data, size_t bytes) {
    total_ += bytes;
    for (; bytes > 0 && filled_ > 0; ++data, --bytes) Byte(*data);
    for (; bytes >= sizeof(word_); data += sizeof(word_), bytes -= sizeof(word_)) {
      std::memcpy(&word_, data, sizeof(word_));
      Mix();
    }
    word_ = 0;
    for (; bytes > 0; ++data, --bytes) Byte(*data);
  }
  void Print(const char* verb) {
    while (filled_ > 0) Byte(0);
    std::printf("%s bytes=%llu hash=%016llx\n", verb, static_cast<unsigned long long>(total_),
                static_cast<unsigned long long>(hash_));
  }

 private:
  void Byte(char byte) {
    word_ |= static_cast<uint64_t>(static_cast<unsigned char>(byte)) << (8 * filled_);
    if (++filled_ < sizeof(word_)) return;
    Mix();
    word_ = 0;
    filled_ = 0;
  }
  void Mix() { hash_ = (hash_ ^ word_) * 1099511628211ULL; }

  uint64_t hash_ = 14695981039346656037ULL, word_ = 0, total_ = 0;
  size_t filled_ = 0;
};

struct FreeAligned {
  void operator()(char* p) const { std::free(p); }
};

}  // namespace

App::~App() {
  Munmap();
  Close();
}

Outcome App::Run(const Words& words, bool* known) {
  const std::string& verb = words.verb();
  *known = true;
  if (verb == "open") return Open(words);
  if (verb == "close") return Close();
  if (verb == "read" || verb == "sum") return Read(words);
  if (verb == "mmap") return Mmap(words);
  if (verb == "munmap") return Munmap();
  if (verb == "touch") return Touch(words);
  if (verb == "msum") return MapSum(words);
  if (verb == "mincore") return Mincore();
  if (verb == "advise") return Advise(words);
  if (verb == "mlock") return mlock(map_ + words.Number(1), words.Number(2)) ? errno : 0;
  if (verb == "munlock") return munlock(map_ + words.Number(1), words.Number(2)) ? errno : 0;
  if (verb == "mprotect") return Mprotect(words);
  if (verb == "seek") return Seek(words);
  if (verb == "splice") return Splice(words);
  if (verb == "bind" || verb == "prefer") return Bind(words);
  *known = false;
  return 0;
}

Outcome App::Open(const Words& words) {
  Close();
  int flags = O_RDONLY | O_CLOEXEC;
  if (words.Has("rdwr")) flags = O_RDWR | O_CLOEXEC;
  if (words.Has("direct")) flags |= O_DIRECT;
  if (words.Has("creat")) flags |= O_CREAT;
  fd_ = open(words.Text(1).c_str(), flags, 0644);
  return fd_ < 0 ? errno : 0;
}

// read OFFSET LENGTH [STEP] | sum [STEP]: prints bytes and hash of what was read.
Outcome App::Read(const Words& words) {
  const bool whole = words.verb() == "sum";
  uint64_t at = whole ? 0 : words.Number(1);
  const uint64_t end = whole ? UINT64_MAX : at + words.Number(2);
  const size_t step = words.Number(whole ? 1 : 3, 1 << 20);
  const std::unique_ptr<char, FreeAligned> buffer(
      static_cast<char*>(std::aligned_alloc(kPage, (step + kPage - 1) / kPage * kPage)));
  Hasher hash;
  while (at < end) {
    const size_t want = end - at < step ? end - at : step;
    const ssize_t n = words.Has("nowait") ? [&] {
      iovec vector{buffer.get(), want};
      return preadv2(fd_, &vector, 1, static_cast<off_t>(at), RWF_NOWAIT);
    }() : pread(fd_, buffer.get(), want, static_cast<off_t>(at));
    if (n < 0) return errno;
    if (n == 0) break;
    hash.Add(buffer.get(), static_cast<size_t>(n));
    at += static_cast<uint64_t>(n);
  }
  hash.Print("read");
  return 0;
}

Outcome App::Mmap(const Words& words) {
  Munmap();
  struct stat status {};
  if (fstat(fd_, &status) < 0) return errno;
  int flags = words.Has("shared") ? MAP_SHARED : MAP_PRIVATE;
  if (words.Has("populate")) flags |= MAP_POPULATE;
  const int protection = PROT_READ | (words.Has("write") ? PROT_WRITE : 0);
  void* map = mmap(nullptr, static_cast<size_t>(status.st_size), protection, flags, fd_, 0);
  if (map == MAP_FAILED) return errno;
  map_ = static_cast<char*>(map);
  map_bytes_ = static_cast<size_t>(status.st_size);
  return 0;
}

Outcome App::Munmap() {
  if (map_) munmap(map_, map_bytes_);
  map_ = nullptr;
  return 0;
}

Outcome App::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  return 0;
}

// touch OFFSET LENGTH [STEP] [write]: one byte each STEP.
Outcome App::Touch(const Words& words) {
  const uint64_t first = words.Number(1), end = first + words.Number(2);
  const uint64_t step = words.Option("step", kPage);
  const bool write = words.Has("write");
  unsigned sum = 0;
  for (uint64_t at = first; at < end && at < map_bytes_; at += step) {
    volatile char* byte = map_ + at;
    if (write) *byte = 'W';
    sum += static_cast<unsigned char>(*byte);
  }
  std::printf("touch sum=%u\n", sum);
  return 0;
}

Outcome App::MapSum(const Words& words) {
  const uint64_t first = words.Number(1);
  const uint64_t bytes = words.Number(2, map_bytes_ - first);
  Hasher hash;
  hash.Add(map_ + first, bytes);
  hash.Print("msum");
  return 0;
}

Outcome App::Mincore() {
  std::vector<unsigned char> pages((map_bytes_ + kPage - 1) / kPage);
  if (mincore(map_, map_bytes_, pages.data()) < 0) return errno;
  uint64_t resident = 0;
  for (const unsigned char page : pages) resident += (page & 1) * kPage;
  std::printf("mincore resident=%llu\n", static_cast<unsigned long long>(resident));
  return 0;
}

// advise f|m random|sequential|normal|willneed|dontneed [OFFSET LENGTH]
Outcome App::Advise(const Words& words) {
  const std::string advice = words.Text(2);
  const auto offset = static_cast<off_t>(words.Number(3));
  const auto length = static_cast<off_t>(words.Number(4));
  if (words.Text(1) == "m") {
    const int value = advice == "random"       ? MADV_RANDOM
                      : advice == "sequential" ? MADV_SEQUENTIAL
                      : advice == "willneed"   ? MADV_WILLNEED
                      : advice == "dontneed"   ? MADV_DONTNEED
                                               : MADV_NORMAL;
    return madvise(map_ + offset, length ? static_cast<size_t>(length) : map_bytes_, value) ? errno
                                                                                            : 0;
  }
  const int value = advice == "random"       ? POSIX_FADV_RANDOM
                    : advice == "sequential" ? POSIX_FADV_SEQUENTIAL
                    : advice == "willneed"   ? POSIX_FADV_WILLNEED
                    : advice == "dontneed"   ? POSIX_FADV_DONTNEED
                                             : POSIX_FADV_NORMAL;
  return posix_fadvise(fd_, offset, length, value);
}

Outcome App::Seek(const Words& words) {
  const std::string whence = words.Text(1);
  const off_t at = lseek(fd_, static_cast<off_t>(words.Number(2)),
                         whence == "data"   ? SEEK_DATA
                         : whence == "hole" ? SEEK_HOLE
                         : whence == "end"  ? SEEK_END
                         : whence == "cur"  ? SEEK_CUR
                                            : SEEK_SET);
  if (at < 0) return errno;
  std::printf("seek pos=%lld\n", static_cast<long long>(at));
  return 0;
}

// splice OFFSET LENGTH: file -> pipe -> hash.
Outcome App::Splice(const Words& words) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) < 0) return errno;
  auto at = static_cast<loff_t>(words.Number(1));
  const loff_t end = at + static_cast<loff_t>(words.Number(2));
  Hasher hash;
  std::vector<char> buffer(65536);
  int error = 0;
  while (at < end) {
    const ssize_t n = splice(fd_, &at, pipe_fds[1], nullptr,
                             std::min<size_t>(static_cast<size_t>(end - at), 65536), 0);
    if (n < 0) error = errno;
    if (n <= 0) break;
    for (ssize_t left = n; left > 0;) {
      const ssize_t got = read(pipe_fds[0], buffer.data(), static_cast<size_t>(left));
      if (got <= 0) break;
      hash.Add(buffer.data(), static_cast<size_t>(got));
      left -= got;
    }
  }
  close(pipe_fds[0]);
  close(pipe_fds[1]);
  if (error) return error;
  hash.Print("read");
  return 0;
}

Outcome App::Mprotect(const Words& words) {
  const int protection = PROT_READ | (words.Has("write") ? PROT_WRITE : 0);
  return mprotect(map_, map_bytes_, protection) ? errno : 0;
}

// bind NODE | prefer NODE: of this thread.
Outcome App::Bind(const Words& words) {
  const unsigned long mask = 1UL << words.Number(1);
  const int policy = words.verb() == "bind" ? MPOL_BIND : MPOL_PREFERRED;
  return set_mempolicy(policy, &mask, 64) ? errno : 0;
}

}  // namespace ppc::test
