// SPDX-License-Identifier: Apache-2.0
// Owns who maps the files: the processes whose faults were seen, and where in their address space.
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_MAPPERS_H_
#define PPC_DAEMON_BACKEND_OBSERVER_MAPPERS_H_

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "daemon/backend/observer/inode_index.h"

namespace ppc {

// A part of a process's address space that shows [offset, offset + bytes) of a file.
struct MappedPart {
  pid_t pid = 0;
  uint64_t address = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  // The whole mapping that it is of, and the file's path there.
  uint64_t start = 0;
  uint64_t end = 0;
  std::string path;
};

// Whether the process still has that mapping.  A loader that has read a file maps the next one
// where the one before was.  `proc`: /proc.
bool IsStillMapped(const MappedPart& part, const std::string& proc);

// A line of a process's maps.
struct MappedArea {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t offset = 0;
  uint64_t dev = 0;
  uint64_t ino = 0;
  std::string path;
};

class Mappers {
 public:
  explicit Mappers(std::string proc) : proc_(std::move(proc)) {}

  // A process has touched a mapped page.
  void Note(pid_t pid, uint64_t now_ns);
  // Parts that overlap the range of the file.  /proc is read at most every kFreshNs per process.
  std::vector<MappedPart> Of(const InodeIndex::Identity& file, uint64_t offset, uint64_t length,
                             uint64_t now_ns);

 private:
  struct Process {
    uint64_t read_ns = 0;
    uint64_t seen_ns = 0;
    std::vector<MappedArea> areas;
  };
  static constexpr uint64_t kFreshNs = 300ULL * 1000 * 1000;
  static constexpr uint64_t kForgetNs = 600ULL * 1000 * 1000 * 1000;
  static constexpr size_t kMaxProcesses = 4096;

  const std::string proc_;
  std::mutex mutex_;
  std::unordered_map<pid_t, Process> processes_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_MAPPERS_H_
