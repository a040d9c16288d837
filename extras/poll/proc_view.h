// SPDX-License-Identifier: Apache-2.0
// Owns reading files, mappings and waiting threads of another process from /proc.  Entries that
// cannot be read, or are gone meanwhile, are left out.
// Threads: pure functions, any thread.
#ifndef PPC_EXTRAS_POLL_PROC_VIEW_H_
#define PPC_EXTRAS_POLL_PROC_VIEW_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/unique_fd.h"
#include "daemon/machine/roots.h"

namespace ppc {

struct ProcFd {
  int fd = 0;
  std::string path;  // as the process opened it
};

struct ProcMap {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t offset = 0;
  std::string path;
};

// A thread that waits in a read call on a descriptor.
struct ProcRead {
  int fd = 0;
  bool has_offset = false;
  uint64_t offset = 0;
  uint64_t length = 0;  // 0: unknown (readv and its like)
};

class ProcView {
 public:
  ProcView(const SysRoots& roots, int pid)
      : base_(roots.Proc("/" + std::to_string(pid))), pid_(pid) {}

  int pid() const { return pid_; }
  // Descriptors of files; sockets, pipes and devices are left out.
  std::vector<ProcFd> Files() const;
  // Mappings of files whose path `wanted` accepts.
  std::vector<ProcMap> Maps(const std::function<bool(const std::string&)>& wanted) const;
  std::vector<int> Threads() const;
  // nullopt: it runs, or waits elsewhere.  *is_denied: the kernel does not show it.
  std::optional<ProcRead> WaitingRead(int tid, bool* is_denied) const;
  // Position of a descriptor (read(2) moves it, pread(2) does not).
  std::optional<uint64_t> Position(int fd) const;
  // Bytes that read calls of a thread, or of all threads, have returned so far.
  std::optional<uint64_t> ReadBytes(int tid) const;
  std::optional<uint64_t> ReadBytes() const;
  // In pages: the address space, and the mapped pages of files.
  struct Size {
    uint64_t total = 0;
    uint64_t file_pages = 0;
    bool operator==(const Size&) const = default;
  };
  std::optional<Size> MappedSize() const;
  UniqueFd OpenPagemap() const;
  // Path that leads to a descriptor's file itself.
  std::string FdPath(int fd) const { return base_ + "/fd/" + std::to_string(fd); }

 private:
  std::string base_;
  int pid_;
};

// Page-table entries from `address` on: fills `entries`, returns how many.
size_t ReadPagemap(int pagemap, uint64_t address, std::span<uint64_t> entries);
inline bool IsPagePresent(uint64_t entry) { return entry >> 63 != 0; }
// Whether it is a page of the file (or shared), not the process's own copy.
inline bool IsFilePage(uint64_t entry) { return (entry >> 61 & 5) == 5; }

// One line of /proc/PID/task/TID/syscall.
std::optional<ProcRead> ParseSyscall(const std::string& line);
// One line of /proc/PID/maps; path "" where it maps no file.
std::optional<ProcMap> ParseMap(const std::string& line);

}  // namespace ppc

#endif  // PPC_EXTRAS_POLL_PROC_VIEW_H_
