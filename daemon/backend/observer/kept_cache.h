// SPDX-License-Identifier: Apache-2.0
// Owns the question whether a file's pages outlive its next open().  A FUSE server that does not
// say FOPEN_KEEP_CACHE empties the file's cache at each: there, loading before the service's own
// open is for nothing, and an open of ours takes away what the service has read.
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_KEPT_CACHE_H_
#define PPC_DAEMON_BACKEND_OBSERVER_KEPT_CACHE_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "daemon/machine/roots.h"

namespace ppc {

class KeptCache {
 public:
  explicit KeptCache(SysRoots roots) : roots_(std::move(roots)) {}

  // Where the directory lies: only FUSE is asked further.
  void Begin(const char* dir);
  bool IsAsked() const { return is_fuse_; }
  // Whether the file system of this open file drops pages at open().  Tried out once per device, by
  // opening the file again and reading a byte.
  bool DropsAtOpen(int fd);
  bool HasDrops() const { return has_drops_.load(std::memory_order_relaxed); }

  // A process reads the file: it has it open.
  void NoteReader(uint64_t file, int tgid, uint64_t start_ns);
  bool HasReader(uint64_t file) const;

 private:
  struct Reader {
    int tgid = 0;
    uint64_t start_ns = 0;
  };

  static constexpr size_t kMaxReaders = 65536;

  const SysRoots roots_;
  bool is_fuse_ = false;
  std::atomic<bool> has_drops_{false};
  std::mutex mutex_;  // held while a server is asked
  std::unordered_map<dev_t, bool> drops_;
  mutable std::mutex readers_mutex_;
  std::unordered_map<uint64_t, Reader> readers_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_KEPT_CACHE_H_
