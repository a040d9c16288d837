// SPDX-License-Identifier: Apache-2.0
// Owns the interface between the runtime and what carries it out: the kernel
// module (kmod), a recorded log with a modelled machine (replay), others later.
//
// Threads: Attach, Detach, Drain, Gather and Wait are called by one thread (Detach by the
// watchdog too, when that thread hangs); everything else by any thread at any time.
#ifndef PPC_DAEMON_BACKEND_BACKEND_H_
#define PPC_DAEMON_BACKEND_BACKEND_H_

#include <poll.h>

#include <atomic>
#include <cerrno>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/result.h"
#include "daemon/machine/topology.h"

namespace ppc {

inline constexpr uint64_t kPageBytes = 4096;     // granularity of offsets in all interfaces
inline constexpr uint64_t kStepBytes = 2 << 20;  // unit of loading and evicting

enum class EventKind : uint8_t {
  kMissRead = 1,
  kMissFault = 2,
  kProgress = 3,
  kAccess = 4,
  kOpen = 5,
  kClose = 6,
};

inline bool IsMiss(EventKind kind) {
  return kind == EventKind::kMissRead || kind == EventKind::kMissFault;
}

inline constexpr uint8_t kEventNotUser = 0x01;
inline constexpr uint8_t kEventWrite = 0x02;
inline constexpr uint8_t kEventHit = 0x04;
inline constexpr uint8_t kEventDirect = 0x08;
inline constexpr uint8_t kEventLost = 0x10;
inline constexpr uint8_t kEventMmap = 0x20;

// One thing an application did.  Bytes; times in ns of CLOCK_MONOTONIC.
struct Event {
  uint64_t file = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint64_t time_ns = 0;
  uint64_t start_ns = 0;  // of the process, since boot
  uint64_t cgroup_id = 0;
  uint32_t open_id = 0;
  int32_t tgid = 0;
  int32_t tid = 0;
  EventKind kind = EventKind::kMissRead;
  uint8_t flags = 0;
  uint16_t cpu = 0;
};

// An executable by the inode that the page cache knows: stat() says another on overlay and btrfs.
struct Executable {
  uint64_t ino = 0;  // 0: none
  uint32_t dev = 0;  // the kernel's form: major << 20 | minor
  auto operator<=>(const Executable&) const = default;
};

// A process has begun to run one.
struct Exec {
  Executable file;
  uint64_t start_ns = 0;  // of the process, since boot
  int32_t pid = 0;
  uint32_t uid = 0;
};

struct AttachOptions {
  bool managed_readahead = false;
  bool progress = false;
  bool trace = false;
  bool open_close = false;
  uint32_t lease_ms = 2000;
  uint64_t window_bytes = 0;  // 0 = keep the mount's
  uint64_t beacon_bytes = 0;
  std::string label;  // policy name, shown in sysfs
};

// What this backend can do here.
struct Capabilities {
  std::string backend;  // "kmod", "observer", "poll", "replay"
  bool unmap = false;
  bool progress = false;
  bool trace = false;
  bool charge = false;
  bool node = false;
  bool open_close = false;
  bool managed_readahead = false;
  bool sampled = false;        // what is accessed is seen now and then, in no exact order
  bool misses_huge = false;    // of a cached file, what is mapped by huge pages is not seen
  bool misses_direct = false;  // reads with O_DIRECT go past what is loaded; each begin is an open
  bool execs = false;          // tells which processes begin to run an executable
  bool exact_counts = false;   // loaded and resident are counted, not estimated
  int least_loads = 2;         // at once, of one node: fewer leave a disk idle in between
  int most_loads = 16;         // the same: more make a server fetch parts twice (FUSE: 2)
  int small_loads = 32;        // at once: a disk answers after 2 ms, and reads 600 KB in these
  std::vector<std::string> limits;  // what it cannot do here, one plain sentence each
};

struct FileInfo {
  uint64_t file = 0;
  uint64_t size = 0;
  uint64_t ino = 0;
  int64_t mtime_ns = 0;
  uint32_t dev_major = 0;
  uint32_t dev_minor = 0;
};

enum class LoadStop : uint32_t {
  kDone = 0,
  kEof = 1,
  kSignal = 2,
  kCancelled = 3,
  kUnmount = 4,
  kUnsupported = 5,
  kNoMemory = 6,
  kLater = 100,  // not from the module: it makes no sense yet, ask again
};

struct LoadRequest {
  uint64_t file = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  uint32_t charge = 0;      // handle of Charge(), 0 = the caller's cgroup
  uint32_t group = 0;       // any number; see Interrupt
  uint64_t generation = 0;  // of the group, when this was asked for
  // The group's generation now; nullptr: nothing interrupts this.  Outlives the call.
  const std::atomic<uint64_t>* newest = nullptr;
  bool is_small = false;  // one of many files: none of them is worth being kept open
  // The reader may populate its mapping and compute from it: the pages are marked accessed, as the
  // kernel marks those that a populate reads itself.  Unmarked ones stay on the inactive list, and
  // reclaim drops some that the reader needs where memory is just enough.
  bool is_populated = false;
  bool is_burnt = false;  // dropped again during the load, see BurnGroups
  int node = -1;          // where the caller's memory policy puts it; models use it

  // The load is not wanted any more: a backend looks between steps and answers kCancelled.
  bool IsInterrupted() const {
    return newest != nullptr && newest->load(std::memory_order_relaxed) > generation;
  }
};

// Bytes; see struct ppc_load.
struct LoadResult {
  uint64_t loaded = 0;
  uint64_t submitted = 0;
  uint64_t resident = 0;
  uint64_t failed = 0;
  uint64_t done = 0;
  LoadStop stop = LoadStop::kDone;
};

struct EvictRequest {
  uint64_t file = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
  bool unmap = false;
  bool even_locked = false;
  bool drain = false;
};

// Bytes; asked = dropped + mapped + dirty + locked + busy.
struct EvictResult {
  uint64_t asked = 0;
  uint64_t dropped = 0;
  uint64_t mapped = 0;
  uint64_t dirty = 0;
  uint64_t locked = 0;
  uint64_t busy = 0;

  EvictResult& operator+=(const EvictResult& more) {
    asked += more.asked;
    dropped += more.dropped;
    mapped += more.mapped;
    dirty += more.dirty;
    locked += more.locked;
    busy += more.busy;
    return *this;
  }
};

struct Residency {
  uint64_t resident = 0;
  uint64_t dirty = 0;
  uint64_t mapped = 0;
  uint64_t node[kMaxNodes] = {};
};

struct BackendCounters {
  uint64_t events_queued = 0;
  uint64_t events_lost = 0;
  uint64_t events_skipped = 0;  // at most: looks that the kernel left out, of any directory
  uint64_t events_coalesced = 0;
  uint64_t bypassed_bytes = 0;  // read with O_DIRECT, past the page cache, while opens were wanted
  uint64_t wakeups = 0;
  uint64_t lease_expiries = 0;
  bool attached = false;
  bool expired = false;  // the attachment ended by its lease
  uint64_t window_bytes = 0;
  uint64_t beacon_bytes = 0;
};

enum class WaitOutcome {
  kEvents,  // Drain() has something
  kOther,   // one of the other descriptors is ready (its revents says which)
  kTimeout,
  kExpired,  // the lease ran out: the device dropped us
  kGone,     // the mount is gone
};

// File numbers are stable: within one backend a number means one file for as long as that is there;
// ESTALE says that it is gone.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual Capabilities Caps() const = 0;
  // CLOCK_MONOTONIC, or simulated time.
  virtual uint64_t NowNs() const = 0;

  // Becomes the event reader; again = change options.  EBUSY: another reader is attached.
  virtual Status Attach(const AttachOptions& options) = 0;
  virtual void Detach() = 0;
  // Keeps the attachment although events wait (a long hook); cheap.
  virtual void RenewLease() = 0;

  // Copies at most batch.size() events, per CPU in order; returns how many.
  virtual size_t Drain(std::span<Event> batch) = 0;
  // An event of the last Drain waits until its file has been looked up: a backend to which the
  // kernel told the name keeps it until then.
  virtual void KeepName(uint64_t file) { (void)file; }
  // Accesses are told together: those that are gathered so far are told by the next Drain, perhaps
  // once more later.
  virtual void Gather() {}
  // Sleeps until an event, one of `others`, or the timeout.  With `nap` events do not
  // end the sleep: they gather meanwhile and the module need not wake us for each.
  virtual WaitOutcome Wait(uint64_t timeout_ns, bool nap, std::span<pollfd> others) = 0;

  // ESTALE: the number is unknown or its file gone.  path may be nullptr.
  virtual Result<FileInfo> Resolve(uint64_t file, std::string* path) = 0;
  virtual Result<FileInfo> Lookup(const std::string& path) = 0;
  // What is known of a file without asking its file system; nullopt: nothing, ask.  Where only the
  // size would have to be asked it is kUnknownSize.
  static constexpr uint64_t kUnknownSize = uint64_t{1} << 62;
  virtual std::optional<FileInfo> Peek(uint64_t file) const {
    (void)file;
    return std::nullopt;
  }
  virtual Result<LoadResult> Load(const LoadRequest& request) = 0;
  // Loads of the group are interrupted (LoadRequest::newest says so already): for a backend that
  // waits where it cannot look.  It may answer kCancelled to loads of other groups as well.
  virtual void Interrupt(uint32_t group) { (void)group; }
  virtual Result<EvictResult> Evict(const EvictRequest& request) = 0;
  // bitmap may be empty; else one bit per page.  length 0 = to the end.
  virtual Result<Residency> Resident(uint64_t file, uint64_t offset, uint64_t length,
                                     std::span<uint8_t> bitmap) = 0;
  // Bytes of the range that are cached; asked at each tick of what was loaded and is not read.
  // is_kept: the file stays open, since a policy asks of it, too, where nothing may wait for an
  // open; else for no longer than without the question.  EAGAIN: the file is not open, and opening
  // it may ask a server, or drop its pages.
  virtual Result<uint64_t> SampleCache(uint64_t file, uint64_t offset, uint64_t length,
                                       bool is_kept) {
    (void)is_kept;
    const Result<Residency> found = Resident(file, offset, length, {});
    return found ? Result<uint64_t>(found->resident) : found.error();
  }
  // Handle for LoadRequest::charge.  EOPNOTSUPP where the kernel cannot.
  virtual Result<uint32_t> Charge(int cgroup_fd) = 0;
  // Gives a handle back (see ChargeHandle); loads under way may keep it until they end.
  virtual void Uncharge(uint32_t handle) { (void)handle; }
  virtual Status SetFileNative(uint64_t file, bool native) = 0;
  // Reads a file of the mount through the cache; no path leaves the mount.
  virtual Result<size_t> Read(const std::string& path, uint64_t offset,
                              std::span<uint8_t> buffer) = 0;
  // Entries of a directory of the mount ("" = its root) until `entry` returns false; kind as in
  // ppc_context.list_dir.
  using DirEntry = std::function<bool(const char* name, char kind)>;
  virtual Status List(const std::string& path, const DirEntry& entry) {
    (void)entry;
    return Error{ENOSYS, "cannot list " + path + " with this backend"};
  }
  virtual Result<BackendCounters> Counters() = 0;

  // The executable at a path such as "/proc/77/exe", which need not lie in the mount.
  virtual Result<Executable> ExecutableAt(const std::string& path) {
    return Error{ENOTSUP, "cannot tell the executable " + path + " with this backend"};
  }
  // From now on execs of these are told, and of no others; as long as a reader is attached.
  virtual void WatchExecs(std::span<const Executable> files) { (void)files; }
  // Those that the last Drain came across, oldest first.
  virtual void TakeExecs(std::vector<Exec>* out) { (void)out; }
};

}  // namespace ppc

#endif  // PPC_DAEMON_BACKEND_BACKEND_H_
