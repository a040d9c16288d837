// SPDX-License-Identifier: Apache-2.0
// Owns which processes map the files, of those whose faults were seen, and at which addresses.
//
// Reading a process's maps waits for its mmap_lock, and so does paging out: a process that hangs
// blocks the thread.  No lock of ours is held meanwhile, at most one thread reads a process, and
// some threads stay out of all processes.  Threads: any.  Note never waits.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_MAPPERS_H_
#define PPC_DAEMON_BACKEND_OBSERVER_MAPPERS_H_

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/backend/observer/observer_files.h"

namespace ppc {

// A part of a process's address space that shows [offset, offset + bytes) of a file.
struct MappedPart {
  pid_t pid = 0;
  uint64_t address = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  // The whole mapping that contains it, and the file's path there.
  uint64_t start = 0;
  uint64_t end = 0;
  std::string path;
};

// Whether the process still has that mapping.  A loader often maps its next file at the address of
// the last one.  `proc`: /proc.
bool IsStillMapped(const MappedPart& part, const std::string& proc);

// One line of a process's maps.
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
  static constexpr int kMostInside = 3;
  static constexpr uint64_t kMostWaitNs = 500ULL * 1000 * 1000;

  explicit Mappers(std::string proc, uint64_t most_wait_ns = kMostWaitNs)
      : proc_(std::move(proc)), most_wait_(most_wait_ns) {}

  // Permission to read or change processes' memory, while it lives.  Waits while kMostInside other
  // threads have one; since they may hang, it gives up soon, and the thread must stay out.
  class Visit {
   public:
    explicit Visit(Mappers* mappers) : mappers_(mappers), is_inside_(mappers->Enter()) {}
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    ~Visit() {
      if (is_inside_) mappers_->Leave();
    }
    bool IsInside() const { return is_inside_; }

   private:
    Mappers* const mappers_;
    const bool is_inside_;
  };

  // Notes a process that has touched a mapped page.
  void Note(pid_t pid, uint64_t now_ns);
  // Mapped parts that overlap the range of the file.  Reads /proc at most every kFreshNs per
  // process, and not for a visitor that must stay out.  A process that does not answer keeps its
  // last result.
  std::vector<MappedPart> Of(const Visit& visit, const ObserverFiles::Identity& file,
                             uint64_t offset, uint64_t length, uint64_t now_ns);

 private:
  struct Process {
    uint64_t read_ns = 0;
    uint64_t seen_ns = 0;
    // since then a thread reads it
    std::optional<std::chrono::steady_clock::time_point> read_since;
    std::shared_ptr<const std::vector<MappedArea>> areas;
  };
  bool Enter();
  void Leave();
  void Read(const std::vector<pid_t>& pids);
  bool IsBeingRead() const;

  static constexpr uint64_t kFreshNs = 300ULL * 1000 * 1000;
  static constexpr uint64_t kForgetNs = 600ULL * 1000 * 1000 * 1000;
  static constexpr size_t kMaxProcesses = 4096;

  const std::string proc_;
  const std::chrono::nanoseconds most_wait_;
  std::mutex mutex_;
  std::condition_variable left_;  // notified when a visitor leaves or a process was read
  int inside_ = 0;
  std::unordered_map<pid_t, Process> processes_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_MAPPERS_H_
