// SPDX-License-Identifier: Apache-2.0
// Owns the scan of one mapping: which of its pages the process has touched, and where to look next.
// A scan looks ahead of the reader's last known place and at a few other places, so that its cost
// does not grow with the mapping.
// Threads: one.
#ifndef PPC_EXTRAS_POLL_MAP_SCAN_H_
#define PPC_EXTRAS_POLL_MAP_SCAN_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "extras/poll/proc_view.h"

namespace ppc {

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

}  // namespace ppc

#endif  // PPC_EXTRAS_POLL_MAP_SCAN_H_
