// SPDX-License-Identifier: Apache-2.0
// Owns one watched process: its descriptors and mappings of files below the root, how far its
// threads have read, and the pages of mappings that it has touched.  Only looks; keeps nothing of
// the process open.
// Owns the scan of each mapping, too.
//
// The position of a read is visible while it waits for the disk, or in the descriptor's own
// position.  Otherwise pread(2) only changes the thread's count of bytes, so it is taken to read on
// in sequence until seen waiting again.
// Threads: the polling one; AddMapped under the poller's lock by any.
#ifndef PPC_EXTRAS_POLL_WATCHED_PROCESS_H_
#define PPC_EXTRAS_POLL_WATCHED_PROCESS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "extras/poll/event_sink.h"
#include "extras/poll/polled_files.h"
#include "extras/poll/proc_view.h"

namespace ppc {

// Owns the scan of one mapping: which of its pages the process has touched, and where to look next.
// A scan looks ahead of the reader's last known place and at a few other places, so that its cost
// does not grow with the mapping.
// Threads: one.
class MapScan {
 public:
  // `length` bytes from `start`, of a file from `offset`.
  MapScan(uint64_t start, uint64_t offset, uint64_t length);

  uint64_t start() const { return start_; }
  uint64_t end() const { return start_ + length_; }
  uint64_t Chunks() const { return seen_.size(); }

  // File offset and length of newly present pages.
  using Found = std::function<void(uint64_t offset, uint64_t length)>;
  // Looks at no more than *chunks chunks and subtracts those used.  True: found something.
  bool Scan(int pagemap, uint64_t* chunks, const Found& found);
  // Bytes of [offset, offset + length) of the file in this mapping's page table.  Sets one bit a
  // page in `bits` (page 0 = offset).
  void AddMapped(int pagemap, uint64_t offset, uint64_t length, std::vector<bool>* bits) const;

  static constexpr uint64_t kChunkBytes = 2 << 20;
  static constexpr uint64_t kUnitBytes = kChunkBytes / 64;
  static constexpr uint64_t kProbes = 8;  // chunks elsewhere, per scan

 private:
  uint64_t Look(int pagemap, uint64_t chunk, const Found& found);
  bool IsFull(uint64_t chunk) const { return seen_[chunk] == ~uint64_t{0}; }
  bool Follow(int pagemap, uint64_t* front, uint64_t* chunks, const Found& found);
  bool Probe(int pagemap, uint64_t* chunks, const Found& found);

  static constexpr uint64_t kAhead = 4;    // chunks scanned beyond a front
  static constexpr size_t kMaxFronts = 8;  // concurrent readers in one mapping

  uint64_t start_;
  uint64_t offset_;
  uint64_t length_;
  std::vector<uint64_t> seen_;    // by chunk: one bit for each unit
  std::vector<uint64_t> fronts_;  // chunks
  size_t next_front_ = 0;         // next to be replaced
  uint64_t probe_ = 0;
  uint64_t phase_ = 0;
};

class WatchedProcess {
 public:
  WatchedProcess(const SysRoots& roots, int pid, uint64_t start_ns, PolledFiles* files,
                 EventSink* sink, uint32_t* next_open_id);

  int pid() const { return view_.pid(); }
  uint64_t start_ns() const { return start_ns_; }
  bool HasFiles() const { return !open_.empty() || !maps_.empty(); }
  // Whether the kernel hides where its threads wait.
  bool IsDenied() const { return is_denied_; }

  // Updates its open and mapped files.  True: something changed.
  bool LookAtFiles();
  // Reports its use of them since the last look; scans at most `chunks` chunks of mappings.  True:
  // it used some.
  bool LookAtUse(uint64_t chunks);
  // The process has ended: closes all of its files.
  void End();
  // Its mapped pages of the range, see MapScan.
  void AddMapped(uint64_t file, uint64_t offset, uint64_t length, std::vector<bool>* bits) const;

 private:
  struct Open {
    uint64_t file = 0;
    uint32_t id = 0;
    std::string path;
    uint64_t position = 0;
  };
  struct Map {
    uint64_t file = 0;
    uint32_t id = 0;
    MapScan scan;
  };
  // A thread's place in a file that it reads by pread(2).
  struct Thread {
    int fd = -1;
    uint64_t next = 0;        // end of its last known read
    uint64_t read_bytes = 0;  // the kernel's count at that place
    bool is_pread = false;
    bool is_told = false;  // the wait at `next` was reported
  };

  Origin Who(int tid, uint32_t open_id) const {
    return Origin{view_.pid(), tid, start_ns_, open_id};
  }
  bool LookAtFds();
  bool LookAtMaps();
  bool LookAtPositions();
  bool LookAtThread(int tid);
  bool Follow(int tid, Thread* thread);
  bool Wait(int tid, Thread* thread, const ProcRead& read);

  static constexpr size_t kMaxThreads = 32;  // per look
  static constexpr size_t kMaxMaps = 4096;
  static constexpr int kBlindScans = 16;
  static constexpr uint64_t kMostScans = 256;  // per change

  const ProcView view_;
  const uint64_t start_ns_;
  PolledFiles* const files_;
  EventSink* const sink_;
  uint32_t* const next_open_id_;
  std::map<int, Open> open_;                           // by descriptor
  std::map<std::pair<uint64_t, uint64_t>, Map> maps_;  // by address and file offset
  std::map<int, Thread> threads_;
  uint64_t counted_ = 0;  // bytes that reads of all threads have returned
  uint64_t unshown_ = 0;  // part of it that no position showed at the last look
  bool has_looked_ = false;
  size_t next_thread_ = 0;
  size_t next_map_ = 0;
  ProcView::Size size_at_maps_;
  ProcView::Size size_at_scan_;
  uint64_t scans_due_ = 0;
  int idle_scans_ = 0;
  bool is_denied_ = false;
};

}  // namespace ppc

#endif  // PPC_EXTRAS_POLL_WATCHED_PROCESS_H_
