// SPDX-License-Identifier: Apache-2.0
// Owns the kernel's part when a process reads or touches a file of the mount: native read-ahead
// (read() and mapping, as in mm/readahead.c and mm/filemap.c) without a managing policy, else RFS:
// events, demand window, beacons, tracing; or the observer's events, which change nothing.
//
// Calls that may wait are made from a fiber.
// Threads: one.
#ifndef PPC_SIM_KERNEL_H_
#define PPC_SIM_KERNEL_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/backend/backend.h"
#include "sim/disk.h"
#include "sim/fiber.h"
#include "sim/page_cache.h"

namespace ppc::sim {

inline constexpr uint32_t kMaxMounts = 8;

inline uint32_t PageOfOffset(uint64_t offset) { return static_cast<uint32_t>(offset / kPage); }

// CPU times of the machine; measured constants, see README.md.
struct CpuOptions {
  uint32_t cpus = 2;
  uint64_t fault_ns = 10'000;         // a page fault or system call
  uint64_t map_page_ns = 500;         // each page that fault-around maps
  uint64_t copy_page_ns = 8'000;      // copying and summing a page
  uint64_t read_page_ns = 12'000;     // preparing a page for the disk: allocated, charged, listed
  uint64_t complete_page_ns = 6'000;  // its completion
  uint64_t request_ns = 300'000;      // from the disk's answer to the interrupt's handler
};

struct Thread;

// A number of CPUs on which processes compute, first come first served.
class Cpus {
 public:
  Cpus(Scheduler* scheduler, uint32_t count) : scheduler_(scheduler), free_ns_(count, 0) {}
  // Returns when work of this duration, begun now, is done.
  uint64_t Reserve(uint64_t ns);
  // Adds up small times of a thread; waits for a CPU when enough has gathered.
  void Use(uint64_t ns, Thread* thread);
  void Settle(Thread* thread);

 private:
  static constexpr uint64_t kSliceNs = 200'000;
  Scheduler* const scheduler_;
  std::vector<uint64_t> free_ns_;
};

// A process as the kernel knows it.
struct Process {
  int pid = 0;
  uint32_t slot = 0;  // bit in Page::mapped
  uint64_t start_ns = 0;
  int node = 0;
  PayerId payer = kOthersPay;
};

struct Thread {
  Process* process = nullptr;   // nullptr: the runner's thread
  PayerId payer = kRunnerPays;  // if there is no process
  int tid = 0;
  uint64_t debt_ns = 0;        // CPU time not waited for yet
  uint64_t busy_until_ns = 0;  // part of it that has a CPU already
  uint64_t majflt = 0;
  uint64_t errors = 0;  // pages that could not be read: EIO or SIGBUS
  bool faults = false;  // in a page fault
};

// An open file: read-ahead state (struct file_ra_state), and RFS's struct ppc_open.
struct OpenFile {
  CacheFile* file = nullptr;
  uint32_t id = 0;
  bool through_ppc = false;
  bool direct = false;
  uint32_t ra_start = 0;
  uint32_t ra_size = 0;
  uint32_t ra_async = 0;
  int64_t prev_page = -1;
  std::array<uint64_t, 8> beacons{};
  size_t next_beacon = 0;
  Event pending{};  // ACCESS, not queued yet
};

struct KernelOptions {
  CpuOptions cpu;
  uint64_t read_ahead_bytes = 128 << 10;
  uint64_t window_bytes = 1 << 20;
  uint64_t beacon_bytes = 4 << 20;
  bool observes = false;     // no module: the observer's abilities
  uint32_t lost_in_100 = 0;  // percentage of events that never reach the runtime
};

// Pages that cannot be read, by their index in the page cache.
struct BadPages {
  uint32_t first = 0;
  uint32_t end = 0;
  uint64_t all_from_ns = ~uint64_t{0};  // from then on every read fails
  uint64_t delay_ns = 0;                // until the disk gives up a request
};

class Kernel {
 public:
  Kernel(Scheduler* scheduler, Disk* disk, PageCache* cache, const KernelOptions& options);

  // ---- processes
  OpenFile* Open(Thread* thread, CacheFile* file, bool through_ppc, bool direct);
  void Close(Thread* thread, OpenFile* open);
  // read() of a range; returns when it is copied to the process's buffer.
  void Read(Thread* thread, OpenFile* open, uint64_t offset, uint64_t bytes);
  // Copies a range out of a mapping.
  void Access(Thread* thread, OpenFile* open, uint64_t offset, uint64_t bytes);
  // MAP_POPULATE of a range: advances the position, but is no consumption.
  void Populate(Thread* thread, OpenFile* open, uint64_t offset = 0, uint64_t bytes = ~uint64_t{0});
  void Munmap(Thread* thread, OpenFile* open);
  void SetBad(const BadPages& bad) { bad_ = bad; }
  uint64_t failed_requests() const { return failed_requests_; }
  void SetReadAhead(uint64_t bytes) { ra_pages_ = static_cast<uint32_t>(bytes / kPage); }

  // ---- the module's devices, one for each mount
  struct Device {
    bool is_attached = false;
    bool is_expired = false;  // its lease ran out
    AttachOptions options;
    std::deque<Event> events;
    uint64_t queued = 0;
    std::function<void()> wake;
  };
  Device& device(uint32_t mount) { return devices_[mount]; }
  void Attach(uint32_t mount, const AttachOptions& options);
  void Detach(uint32_t mount);
  // Ends the attachment of a consumer that was silent for its lease.
  void Expire(uint32_t mount);
  LoadResult Load(const LoadRequest& request, const std::function<bool()>& cancelled);
  EvictResult Evict(const EvictRequest& request);
  // Reads a range as a plain reader without events (the runtime itself).
  void ReadQuietly(CacheFile* file, uint64_t offset, uint64_t bytes);
  uint64_t window_bytes() const { return window_; }
  uint64_t beacon_bytes() const { return beacon_; }
  bool observes() const { return options_.observes; }

  PageCache& cache() { return *cache_; }
  Disk& disk() { return *disk_; }
  Cpus& cpus() { return cpus_; }
  Scheduler& scheduler() { return *scheduler_; }

 private:
  // The observer's record of a thread that reads a file; bytes.
  struct Watched {
    Event who;
    uint32_t mount = 0;
    uint64_t time_ns = 0;
    uint64_t first = 0, end = 0;  // accesses not reported yet
    uint8_t flags = 0;
    uint64_t reported = 0, reported_end = 0;  // the last position
    bool is_reported = false;
    uint64_t miss_end = 0, miss_to = 0;  // insertions reported up to, and inserted up to
    bool has_missed = false;
    EventKind miss_kind = EventKind::kMissFault;
  };
  struct Io {
    uint32_t first;
    uint32_t pages;
    std::vector<Fiber*> waiters;
  };

  // Submits the absent pages of [first, end); returns how many.
  uint32_t Submit(Thread* thread, CacheFile* file, uint32_t first, uint32_t end, int node,
                  bool by_loader, uint32_t lookahead = kNone);
  void Answer(uint32_t io);
  void Complete(uint32_t io);
  bool IsBad(const Io& io) const;
  // Reads one page alone, as the kernel does after failed read-ahead; false: it cannot be read.
  bool ReadAlone(Thread* thread, CacheFile* file, uint32_t page);
  // Waits until a page is present or dropped again.
  void WaitFor(CacheFile* file, uint32_t page);
  Page& PageOf(const CacheFile* file, uint32_t page) { return cache_->page(file->first + page); }
  // A page that could not be read stays in the page cache without content: read-ahead, windows and
  // loads skip it, and its reader tries it alone.
  bool IsAbsent(const CacheFile* file, uint32_t page) {
    return PageOf(file, page).state == PageState::kAbsent && !PageOf(file, page).failed;
  }
  bool Managed(const OpenFile* open) const;
  const Device& DeviceOf(const OpenFile* open) const { return devices_[open->file->mount]; }
  bool IsAttached(const OpenFile* open) const {
    return open->through_ppc && DeviceOf(open).is_attached;
  }
  void Queue(uint32_t mount, const Event& event);
  bool CanUnmap(const Page& page) const;

  // Native read-ahead.
  void SyncReadAhead(Thread* thread, OpenFile* open, uint32_t page, uint32_t request);
  void AsyncReadAhead(Thread* thread, OpenFile* open, uint32_t page, uint32_t request);
  void OnDemandReadAhead(Thread* thread, OpenFile* open, uint32_t page, uint32_t request,
                         bool hit_marker);
  void ReadAround(Thread* thread, OpenFile* open, uint32_t page);

  // RFS.
  void NoticeRead(Thread* thread, OpenFile* open, uint32_t first, uint32_t end);
  void NoticeFault(Thread* thread, OpenFile* open, uint32_t page, bool is_user);
  void LoadWindow(Thread* thread, OpenFile* open, uint32_t first, uint32_t end);
  void Emit(Thread* thread, OpenFile* open, EventKind kind, uint8_t flags, uint32_t first,
            uint32_t pages);
  void EmitAccess(Thread* thread, OpenFile* open, uint8_t flags, uint32_t first, uint32_t pages);
  void FlushAccess(OpenFile* open);
  bool KnowsBeacon(const Thread* thread, OpenFile* open, uint64_t beacon);
  void FlushPeriodically();
  bool IsTraced() const;

  // The observer.
  bool Watches(const CacheFile* file) const {
    return options_.observes && devices_[file->mount].is_attached;
  }
  void Tell(const Watched& reader, EventKind kind, uint8_t flags, uint64_t offset, uint64_t end);
  Watched& WatchedOf(const Thread* thread, const CacheFile* file);
  void FlushWatched();
  void FlushInsertions(Watched* reader);
  void NoteAccess(const Thread* thread, const CacheFile* file, uint32_t first_page,
                  uint32_t end_page, uint8_t flags);
  void NoteInsertion(const Thread* thread, const CacheFile* file, uint32_t first_page,
                     uint32_t end_page);

  // False: the page cannot be read (SIGBUS).
  bool Fault(Thread* thread, OpenFile* open, uint32_t page, bool is_user);
  void MapAround(Thread* thread, OpenFile* open, uint32_t page);
  void ReadDirect(Thread* thread, OpenFile* open, uint64_t offset, uint64_t bytes);

  Scheduler* const scheduler_;
  Disk* const disk_;
  PageCache* const cache_;
  const KernelOptions options_;
  Cpus cpus_;
  uint32_t ra_pages_;
  uint64_t window_;
  uint64_t beacon_;
  std::array<Device, kMaxMounts> devices_;
  std::unordered_map<uint32_t, Io> ios_;
  uint32_t next_io_ = 1;
  uint32_t next_open_ = 1;
  std::vector<std::unique_ptr<OpenFile>> opens_;
  bool flushes_ = false;
  BadPages bad_;
  uint64_t failed_requests_ = 0;
  uint64_t lot_ = 1;                                     // decides whether the next event is lost
  std::map<std::pair<uint64_t, int>, Watched> watched_;  // by file and thread
};

}  // namespace ppc::sim

#endif  // PPC_SIM_KERNEL_H_
