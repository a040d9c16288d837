// SPDX-License-Identifier: Apache-2.0
// The system calls of the rival loaders.
// Threads: any.
#include "bench/rivals/io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "daemon/base/unique_fd.h"

namespace ppc::bench {
namespace {

class SystemFile : public IoFile {
 public:
  SystemFile(std::string path, UniqueFd fd, uint64_t bytes)
      : path_(std::move(path)), fd_(std::move(fd)), bytes_(bytes) {}

  uint64_t bytes() const override { return bytes_; }

  Result<uint64_t> Read(uint64_t offset, std::span<uint8_t> to) override {
    uint64_t done = 0;
    while (done < to.size()) {
      const ssize_t got =
          ::pread(fd_.Get(), to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return PosixError("reading " + path_, errno);
      if (got == 0) break;
      done += static_cast<uint64_t>(got);
      if (offset + done >= bytes_) break;  // O_DIRECT: what follows would not be aligned
    }
    return done;
  }

  Status WillNeed(uint64_t offset, uint64_t bytes) override {
    return Advise(offset, bytes, POSIX_FADV_WILLNEED);
  }
  Status DontNeed(uint64_t offset, uint64_t bytes) override {
    return Advise(offset, bytes, POSIX_FADV_DONTNEED);
  }

 private:
  Status Advise(uint64_t offset, uint64_t bytes, int advice) {
    const int failed =
        ::posix_fadvise(fd_.Get(), static_cast<off_t>(offset), static_cast<off_t>(bytes), advice);
    if (failed != 0) return PosixError("posix_fadvise " + path_, failed);
    return Ok();
  }

  std::string path_;
  UniqueFd fd_;
  uint64_t bytes_;
};

class SystemIo : public Io {
 public:
  Result<std::unique_ptr<IoFile>> Open(const std::string& path, bool is_direct) override {
    UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | (is_direct ? O_DIRECT : 0)));
    if (!fd.IsValid() && errno == EINVAL && is_direct)
      return Error{EINVAL, path + ": its file system cannot O_DIRECT; use one on a disk"};
    if (!fd.IsValid()) return PosixError(path, errno);
    struct stat info {};
    if (::fstat(fd.Get(), &info) != 0) return PosixError(path, errno);
    return std::unique_ptr<IoFile>(
        std::make_unique<SystemFile>(path, std::move(fd), static_cast<uint64_t>(info.st_size)));
  }
};

}  // namespace

std::unique_ptr<Io> MakeSystemIo() { return std::make_unique<SystemIo>(); }

}  // namespace ppc::bench
