// SPDX-License-Identifier: Apache-2.0
// Owns the backend without kernel or root: events from a recorded or synthetic log, a modelled disk
// (bandwidth, latency, one queue), modelled memory (limit, resident set, first-in-first-out
// reclaim) and a simulated clock.
//
// The clock advances only in Wait (to the next event or the timeout) and, with loads_take_time, by
// the disk's time for a load; nothing sleeps.  With one thread every run is the same.
// Threads: any; one lock.
#ifndef PPC_SIM_REPLAY_REPLAY_BACKEND_H_
#define PPC_SIM_REPLAY_REPLAY_BACKEND_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/backend/backend.h"
#include "daemon/machine/memory_source.h"
#include "sim/replay/event_log.h"

namespace ppc {

struct ReplayOptions {
  uint64_t disk_bytes_per_sec = 1 << 30;
  uint64_t disk_latency_ns = 100 * 1000;
  uint64_t memory_limit = uint64_t{1} << 40;  // bytes
  uint64_t memory_other = 0;                  // used by anything except modelled page cache
  double memory_share = 0.8;                  // threshold as a share of the limit
  uint64_t window_bytes = 1 << 20;            // demand window while read-ahead is managed
  uint64_t beacon_bytes = 4 << 20;
  bool loads_take_time = true;
  // ACCESS events of the log are the application's accesses: they become misses if the modelled
  // cache lacks the pages, and PROGRESS events.  If false, events are passed on unchanged.
  bool derive_events = false;
  Capabilities caps{.backend = "replay",
                    .unmap = true,
                    .progress = true,
                    .trace = true,
                    .charge = true,
                    .node = true,
                    .open_close = true,
                    .managed_readahead = true,
                    .exact_counts = true,
                    .limits = {}};
};

class ReplayBackend : public Backend, public MemorySource {
 public:
  explicit ReplayBackend(ReplayOptions options);

  // ---- the world; call before or between runs
  void AddFile(uint64_t file, const std::string& path, uint64_t size, std::string content = "");
  void AddLog(const EventLog& log);
  void Push(const Event& event);  // at event.time_ns, or now if that has passed
  void MakeStale(uint64_t file);  // the number becomes invalid; AddFile may add the path again
  void SetIno(uint64_t file, uint64_t ino);  // default: the number
  void SetMapped(uint64_t file, bool mapped);
  void SetReadErrors(uint64_t file, bool fail);
  void SetMemoryOther(uint64_t bytes);
  void Expire();
  void Unmount();
  // Calls `hook`, without the lock, at the start of every load, for tests to block or count.
  void OnLoad(std::function<void(const LoadRequest&)> hook);
  // The next load reads nothing and reports an interruption.
  void CancelNextLoad() { cancels_next_.store(true); }

  // ---- what happened
  uint64_t ResidentBytes(uint64_t file) const;
  uint64_t DiskReadBytes() const;   // by all
  uint64_t ReclaimedBytes() const;  // by the modelled kernel, not by the runtime
  AttachOptions Attached() const;
  bool IsAttached() const;
  bool IsFileNative(uint64_t file) const;
  size_t PendingEvents() const;
  uint64_t LeaseRenewals() const;
  void AdvanceClock(uint64_t ns);

  // ---- Backend
  Capabilities Caps() const override { return options_.caps; }
  uint64_t NowNs() const override;
  Status Attach(const AttachOptions& options) override;
  void Detach() override;
  void RenewLease() override;
  size_t Drain(std::span<Event> batch) override;
  WaitOutcome Wait(uint64_t timeout_ns, bool nap, std::span<pollfd> others) override;
  Result<FileInfo> Resolve(uint64_t file, std::string* path) override;
  Result<FileInfo> Lookup(const std::string& path) override;
  Result<LoadResult> Load(const LoadRequest& request) override;
  Result<EvictResult> Evict(const EvictRequest& request) override;
  Result<Residency> Resident(uint64_t file, uint64_t offset, uint64_t length,
                             std::span<uint8_t> bitmap) override;
  Result<uint32_t> Charge(int cgroup_fd) override;
  Status SetFileNative(uint64_t file, bool native) override;
  Result<size_t> Read(const std::string& path, uint64_t offset, std::span<uint8_t> buffer) override;
  Result<BackendCounters> Counters() override;

  // ---- MemorySource
  MemoryReading Read(bool with_cache) override;

 private:
  static constexpr int8_t kAbsent = -1;
  std::atomic<bool> cancels_next_{false};

  struct File {
    FileInfo info;
    std::string path;
    std::string content;
    std::vector<int8_t> pages;  // node of each resident page, or kAbsent
    uint64_t resident_pages = 0;
    bool mapped = false;
    bool fails = false;
    bool native = false;
    uint64_t next_beacon = 0;
  };
  struct PageRef {
    uint64_t file;
    uint64_t page;
  };

  // mutex_ held for all below.
  File* Find(uint64_t file);
  void AddPage(File* file, uint64_t page, int node);
  void DropPage(File* file, uint64_t page);
  void Reclaim();
  uint64_t UseDisk(uint64_t bytes);
  void Happen(const Event& event);
  void Derive(const Event& event);
  void ReadOnDemand(File* file, uint64_t offset, uint64_t length);

  const ReplayOptions options_;
  mutable std::mutex mutex_;
  std::atomic<uint64_t> now_ns_{kStartNs};  // read without the lock
  uint64_t disk_free_ns_ = 0;
  std::map<uint64_t, File> files_;
  std::multimap<uint64_t, Event> future_;  // by time
  std::deque<Event> ready_;
  std::deque<PageRef> loaded_order_;
  std::function<void(const LoadRequest&)> on_load_;
  AttachOptions attached_options_;
  bool attached_ = false;
  bool expired_ = false;
  bool gone_ = false;
  uint64_t resident_pages_ = 0;
  uint64_t memory_other_ = 0;
  uint64_t disk_read_bytes_ = 0;
  uint64_t reclaimed_pages_ = 0;
  uint64_t events_queued_ = 0;
  uint64_t lease_renewals_ = 0;
  uint32_t next_charge_ = 0;

  static constexpr uint64_t kStartNs = 1000 * 1000 * 1000;
};

}  // namespace ppc

#endif  // PPC_SIM_REPLAY_REPLAY_BACKEND_H_
