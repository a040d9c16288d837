// SPDX-License-Identifier: Apache-2.0
// Owns the backend that needs no privilege: finds readers' positions in /proc, loads by reading,
// drops unmapped pages.  Keeps no model file open. $PPC_POLL_PID: watch only that process and its
// descendants.
// Threads: as backend.h.
#ifndef PPC_EXTRAS_POLL_POLL_BACKEND_H_
#define PPC_EXTRAS_POLL_POLL_BACKEND_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "daemon/backend/backend.h"
#include "daemon/machine/roots.h"
#include "extras/poll/event_sink.h"
#include "extras/poll/polled_files.h"
#include "extras/poll/poller.h"

namespace ppc {

// Owns what an ordinary user can do with the page cache of an open file: read it in, drop
// unmapped pages, and count where the kernel allows it.
// Threads: any.
struct CacheCount {
  uint64_t resident = 0;  // bytes
  uint64_t dirty = 0;
};

// Residency of the range; nullopt: the kernel shows it only to the file's owner or users that may
// write the file.  The bitmap, one bit a page, needs the owner.
std::optional<CacheCount> CountCached(int fd, const FileStat& stat, uint64_t offset,
                                      uint64_t length, std::span<uint8_t> bitmap);

class FileReader {
 public:
  explicit FileReader(SysRoots roots) : roots_(std::move(roots)) {}

  // Loads [request.offset, +request.length), cut to the file, and waits for it.
  LoadResult Load(int fd, const FileStat& stat, const LoadRequest& request);

 private:
  uint64_t PieceBytes(const FileStat& stat);

  const SysRoots roots_;
  std::mutex mutex_;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> pieces_;  // by device
};

class PollBackend : public Backend {
 public:
  static Result<std::unique_ptr<PollBackend>> Open(const std::string& dir, const SysRoots& roots);

  Capabilities Caps() const override;
  uint64_t NowNs() const override;
  Status Attach(const AttachOptions& options) override;
  void Detach() override;
  void RenewLease() override {}
  size_t Drain(std::span<Event> batch) override { return events_.Drain(batch); }
  WaitOutcome Wait(uint64_t timeout_ns, bool nap, std::span<pollfd> others) override;
  Result<FileInfo> Resolve(uint64_t file, std::string* path) override;
  Result<FileInfo> Lookup(const std::string& path) override { return files_.Lookup(path); }
  Result<LoadResult> Load(const LoadRequest& request) override;
  Result<EvictResult> Evict(const EvictRequest& request) override;
  // Counted if the kernel permits, else the pages that we loaded or saw being read.
  Result<Residency> Resident(uint64_t file, uint64_t offset, uint64_t length,
                             std::span<uint8_t> bitmap) override;
  Result<uint32_t> Charge(int cgroup_fd) override;
  Status SetFileNative(uint64_t file, bool native) override;
  Result<size_t> Read(const std::string& path, uint64_t offset,
                      std::span<uint8_t> buffer) override {
    return files_.root_files().Read(path, offset, buffer);
  }
  Status List(const std::string& path, const DirEntry& entry) override {
    return files_.root_files().List(path, entry);
  }
  Result<BackendCounters> Counters() override;

 private:
  PollBackend(std::string dir, int root_pid, bool is_streamed, const SysRoots& roots);
  void Keep(uint64_t file, uint64_t offset, const std::vector<bool>& mapped);

  static constexpr size_t kMaxEvents = 16384;

  const std::string dir_;
  const int root_pid_;
  const bool is_streamed_;  // see mount_table.h
  PolledFiles files_;
  EventQueue events_;
  EventSink sink_;
  FileReader reader_;
  std::atomic<bool> is_attached_{false};
  Poller poller_;  // last: its thread uses the other members
};

}  // namespace ppc

#endif  // PPC_EXTRAS_POLL_POLL_BACKEND_H_
