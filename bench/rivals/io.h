// SPDX-License-Identifier: Apache-2.0
// The system calls of the rival loaders, behind an interface so that tests see what is asked for,
// in which order and by which thread. Threads: any; Io::Open and all methods of one IoFile may be
// called at once.
#ifndef PPC_BENCH_RIVALS_IO_H_
#define PPC_BENCH_RIVALS_IO_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "daemon/base/result.h"

namespace ppc::bench {

// What O_DIRECT asks of offsets, lengths and memory on any disk of today.
inline constexpr uint64_t kDirectAlign = 4096;

class IoFile {
 public:
  virtual ~IoFile() = default;

  virtual uint64_t bytes() const = 0;
  // Bytes read, fewer than asked for only at the end of the file.
  virtual Result<uint64_t> Read(uint64_t offset, std::span<uint8_t> to) = 0;
  // posix_fadvise; bytes 0: to the end of the file.
  virtual Status WillNeed(uint64_t offset, uint64_t bytes) = 0;
  virtual Status DontNeed(uint64_t offset, uint64_t bytes) = 0;
};

class Io {
 public:
  virtual ~Io() = default;
  virtual Result<std::unique_ptr<IoFile>> Open(const std::string& path, bool is_direct) = 0;
};

std::unique_ptr<Io> MakeSystemIo();

}  // namespace ppc::bench

#endif  // PPC_BENCH_RIVALS_IO_H_
