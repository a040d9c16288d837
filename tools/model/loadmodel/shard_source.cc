// SPDX-License-Identifier: Apache-2.0
// How a worker gets at the bytes of a shard: a mapping, or read().
// Threads: one.
#include "tools/model/loadmodel/shard_source.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "daemon/base/unique_fd.h"
#include "tools/model/common/model_dir.h"
#include "tools/model/loadmodel/config.h"

namespace ppc::bench {
namespace {

// What O_DIRECT asks of offsets, lengths and memory on any disk of today.
constexpr uint64_t kDirectAlign = 4096;

class MappedShard : public ShardSource {
 public:
  MappedShard(std::string path, UniqueFd fd, uint8_t* map, uint64_t bytes)
      : path_(std::move(path)), fd_(std::move(fd)), map_(map), bytes_(bytes) {}
  MappedShard(const MappedShard&) = delete;
  MappedShard& operator=(const MappedShard&) = delete;
  ~MappedShard() override { ::munmap(map_, bytes_); }

  Result<ShardHeader> Header() override {
    const Result<uint64_t> length = ParseHeaderLength(map_, bytes_, path_);
    if (!length.ok()) return length.error();
    return ParseHeader({reinterpret_cast<const char*>(map_) + 8, *length}, bytes_, path_);
  }
  Result<const uint8_t*> Fetch(uint64_t offset, uint64_t) override { return map_ + offset; }

 private:
  std::string path_;
  UniqueFd fd_;
  uint8_t* map_;
  uint64_t bytes_;
};

class ReadShard : public ShardSource {
 public:
  ReadShard(std::string path, UniqueFd fd, uint64_t file_bytes)
      : path_(std::move(path)),
        fd_(std::move(fd)),
        file_bytes_(file_bytes),
        buffer_(
            static_cast<uint8_t*>(std::aligned_alloc(kDirectAlign, kPieceBytes + 2 * kDirectAlign)),
            &std::free) {}

  Result<ShardHeader> Header() override {
    // The buffered descriptor of the moment: headers are not aligned.
    const UniqueFd plain(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!plain.IsValid()) return PosixError(path_, errno);
    return ReadHeader(plain.Get(), path_);
  }

  // Reads whole aligned blocks in every mode, so that the modes differ in nothing else.
  Result<const uint8_t*> Fetch(uint64_t offset, uint64_t bytes) override {
    const uint64_t begin = offset / kDirectAlign * kDirectAlign;
    const uint64_t end = (offset + bytes + kDirectAlign - 1) / kDirectAlign * kDirectAlign;
    const uint64_t need = std::min(end, file_bytes_) - begin;
    for (uint64_t done = 0; done < need;) {
      const ssize_t got = ::pread(fd_.Get(), buffer_.get() + done, end - begin - done,
                                  static_cast<off_t>(begin + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return PosixError("reading " + path_, errno);
      if (got == 0) return Error{EIO, "reading " + path_ + ": the file became shorter"};
      done += static_cast<uint64_t>(got);
    }
    return buffer_.get() + (offset - begin);
  }

 private:
  std::string path_;
  UniqueFd fd_;
  uint64_t file_bytes_;
  std::unique_ptr<uint8_t, decltype(&std::free)> buffer_;
};

}  // namespace

Result<std::unique_ptr<ShardSource>> ShardSource::Open(const std::string& path, ReadMode mode) {
  const int flags = O_RDONLY | O_CLOEXEC | (mode == ReadMode::kDirect ? O_DIRECT : 0);
  UniqueFd fd(::open(path.c_str(), flags));
  if (!fd.IsValid()) return PosixError(path, errno);
  struct stat info {};
  if (::fstat(fd.Get(), &info) != 0) return PosixError(path, errno);
  const auto bytes = static_cast<uint64_t>(info.st_size);
  if (bytes < 8) return Error{EBADMSG, path + ": shorter than 8 bytes; not a safetensors file?"};
  if (mode != ReadMode::kMmap)
    return std::unique_ptr<ShardSource>(std::make_unique<ReadShard>(path, std::move(fd), bytes));
  void* map = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd.Get(), 0);
  if (map == MAP_FAILED) return PosixError("mapping " + path, errno);
  return std::unique_ptr<ShardSource>(
      std::make_unique<MappedShard>(path, std::move(fd), static_cast<uint8_t*>(map), bytes));
}

Status DropShard(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.IsValid()) return PosixError(path, errno);
  const int failed = ::posix_fadvise(fd.Get(), 0, 0, POSIX_FADV_DONTNEED);
  if (failed != 0) return PosixError("posix_fadvise " + path, failed);
  return Ok();
}

}  // namespace ppc::bench
