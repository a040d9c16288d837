// SPDX-License-Identifier: Apache-2.0
// Owns what a FUSE server makes of opens and loads.  One without FOPEN_KEEP_CACHE empties the
// file's cache at each open: there, pages loaded before the service's own open are lost, and an
// open of ours drops what the service has read.  s3fs fetches tens of MiB for one read, and forgets
// them when the file is closed.
// Threads: any.
#ifndef PPC_DAEMON_BACKEND_OBSERVER_KEPT_CACHE_H_
#define PPC_DAEMON_BACKEND_OBSERVER_KEPT_CACHE_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

#include "daemon/machine/mount_table.h"
#include "daemon/machine/roots.h"

namespace ppc {

class KeptCache {
 public:
  explicit KeptCache(SysRoots roots) : roots_(std::move(roots)) {}

  // `dir`: the registered directory.
  void Begin(const char* dir);
  bool IsFuse() const { return type_.starts_with("fuse"); }
  bool IsStreamed() const { return type_ == kStreamed; }
  // Whether the file system drops pages at open().  Tested once, by opening this open file again
  // and reading a byte.
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
  std::string type_;  // of the file system
  std::atomic<bool> has_drops_{false};
  std::mutex mutex_;  // held while waiting for a server
  bool is_tested_ = false;
  mutable std::mutex readers_mutex_;
  std::unordered_map<uint64_t, Reader> readers_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_OBSERVER_KEPT_CACHE_H_
