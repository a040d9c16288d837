// SPDX-License-Identifier: Apache-2.0
// Owns finding processes that read past the page cache: with O_DIRECT no event comes, and what is
// loaded for them is read for nothing.  While much is loaded and no reader is seen, the descriptors
// of processes that have just come or read something are looked at.
//
// What one process does in a folder is taken for the folder: a loader reads all shards alike.  The
// mark lasts beyond the process, until a process is seen reading there through the cache.  It stops
// the loads of services in whose memory cgroup the process is, and no other tenant's.
// Threads: Look by one; everything else by any.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_DIRECT_READERS_H_
#define PPC_DAEMON_BACKEND_OBSERVER_DIRECT_READERS_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "daemon/machine/roots.h"

namespace ppc {

class DirectReaders {
 public:
  // The folder of a file by what stat() says of it; nullopt: not one of ours.
  using FolderOf = std::function<std::optional<uint32_t>(dev_t, ino_t)>;

  DirectReaders(SysRoots roots, FolderOf folder_of)
      : roots_(std::move(roots)), folder_of_(std::move(folder_of)) {}

  enum class State {
    kNone,
    kSeen,      // a process has files there open with O_DIRECT
    kRemember,  // a process had
  };
  // payer: memory cgroup of the service, as /proc/PID/cgroup writes it; "" if it has none of its
  // own: then a reader in any cgroup counts.
  State Of(uint32_t folder, const std::string& payer) const;

  // Something of the file is to be loaded.  True: no look is due (see Look).
  bool NoteLoad(uint64_t file, uint32_t folder);
  // A process reads through the cache.
  void NoteRead(uint64_t file, uint64_t bytes) {
    read_.fetch_add(bytes, std::memory_order_relaxed);
    if (HasMarks()) Unmark(file, bytes);
  }
  bool HasMarks() const { return has_marks_.load(std::memory_order_relaxed); }

  // ns until the next look is due, 0: none while nothing is loaded.
  uint64_t Look(uint64_t now_ns);

  // What `status` says; "" = nothing to say.
  std::string Words() const;
  // Marked processes have read this from the disk since they were found.
  uint64_t bypassed_bytes() const { return bypassed_.load(std::memory_order_relaxed); }

 private:
  struct Process {
    uint64_t start_ns = 0;
    uint64_t read_bytes = 0;
    uint64_t look = 0;  // the number of the last look that saw it
  };
  struct Mark {
    int pid = 0;
    uint64_t start_ns = 0;
    bool is_open = false;
    uint64_t read_bytes = 0;  // through the cache since
    uint64_t disk_bytes = 0;  // that its process has had from the disk
  };
  void Unmark(uint64_t file, uint64_t bytes);
  bool LookAtMarks();
  void LookAtProcess(int pid, uint64_t boot_ns);
  void LookAtDescriptors(int pid, uint64_t start_ns);

  const SysRoots roots_;
  const FolderOf folder_of_;
  std::atomic<bool> has_loaded_{false};
  std::atomic<bool> is_due_{false};  // a look, by itself
  std::atomic<uint64_t> read_{0};
  std::atomic<bool> has_marks_{false};
  std::atomic<uint64_t> bypassed_{0};

  // Look's.
  uint64_t active_until_ns_ = 0;
  uint64_t trusted_until_ns_ = 0;
  uint64_t looks_ = 0;
  std::unordered_map<int, Process> processes_;

  mutable std::mutex mutex_;
  std::map<std::pair<uint32_t, std::string>, Mark> marks_;  // by folder and the readers' cgroup
  std::unordered_map<uint64_t, uint32_t> folders_;          // of files that were to be loaded
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_DIRECT_READERS_H_
