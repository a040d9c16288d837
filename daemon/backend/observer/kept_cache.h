// SPDX-License-Identifier: Apache-2.0
// Owns whether a file's pages survive its next open().  A FUSE server without FOPEN_KEEP_CACHE
// empties the file's cache at each open: there, pages loaded before the service's own open are
// lost, and an open of ours drops what the service has read.
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

  // `dir`: the registered directory; only FUSE file systems are examined.
  void Begin(const char* dir);
  bool IsAsked() const { return is_fuse_; }
  // Whether the file system of this open file drops pages at open().  Tested once per device, by
  // opening the file again and reading a byte.
  bool DropsAtOpen(int fd);
  bool HasDrops() const { return has_drops_.load(std::memory_order_relaxed); }

  // A process that reads the file, and so has it open.
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
  std::mutex mutex_;  // held while waiting for a server
  std::unordered_map<dev_t, bool> drops_;
  mutable std::mutex readers_mutex_;
  std::unordered_map<uint64_t, Reader> readers_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_KEPT_CACHE_H_
