// SPDX-License-Identifier: Apache-2.0
// Owns who maps the files: the processes whose faults were seen, and where in their address space.
//
// Reading a process's maps waits for its memory's lock, and so does paging out: a process that
// hangs keeps the thread.  Nothing is locked meanwhile, one thread at most reads a process, and
// some threads stay out of all processes. Threads: any.  Note never waits.
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
  static constexpr int kMostInside = 3;
  static constexpr uint64_t kMostWaitNs = 500ULL * 1000 * 1000;

  explicit Mappers(std::string proc, uint64_t most_wait_ns = kMostWaitNs)
      : proc_(std::move(proc)), most_wait_(most_wait_ns) {}

  // A thread that reads or changes processes' memory, for as long as it lives.  Waits while
  // kMostInside others do; they may hang, so not for long: then it must stay out.
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

  // A process has touched a mapped page.
  void Note(pid_t pid, uint64_t now_ns);
  // Parts that overlap the range of the file.  /proc is read at most every kFreshNs per process,
  // and not by a visitor that stays out.  A process that does not answer counts as it was last
  // seen.
  std::vector<MappedPart> Of(const Visit& visit, const ObserverFiles::Identity& file,
                             uint64_t offset, uint64_t length, uint64_t now_ns);

 private:
  struct Process {
    uint64_t read_ns = 0;
    uint64_t seen_ns = 0;
    // A thread reads it, since then.
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
  std::condition_variable left_;  // a visitor, or a process that was read
  int inside_ = 0;
  std::unordered_map<pid_t, Process> processes_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_MAPPERS_H_
