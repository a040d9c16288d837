// SPDX-License-Identifier: Apache-2.0
// Owns a floor of free memory.  Where an accelerator allocates from the machine's memory (GB10,
// Strix Halo) its driver takes MemFree alone for free, and the page cache leaves nothing of that.
// What is missing the kernel is asked to reclaim, node by node, coldest pages first, without
// swapping where it can be told so.
// Threads: one.
#ifndef PPC_DAEMON_MACHINE_FREE_FLOOR_H_
#define PPC_DAEMON_MACHINE_FREE_FLOOR_H_

#include <cstdint>
#include <map>
#include <string>

#include "daemon/base/result.h"
#include "daemon/machine/roots.h"

namespace ppc {

class FreeFloor {
 public:
  // What MemFree may fall by until a look has had its effect lies above the floor, too.
  static constexpr uint64_t kLeastMargin = 64ULL << 20;

  // Writes below roots.sys and roots.proc.
  FreeFloor(SysRoots roots, uint64_t floor_bytes);
  // The machine's watermarks are what they were.
  ~FreeFloor();
  FreeFloor(const FreeFloor&) = delete;
  FreeFloor& operator=(const FreeFloor&) = delete;

  // To be called some ten times a second; waits as long as the kernel reclaims.  Returns the bytes
  // that were asked for.  ENOTSUP: this kernel offers no way.
  Result<uint64_t> Look();

 private:
  struct Node {
    uint64_t free = 0;  // at the last look
    uint64_t margin = kLeastMargin;
    int in_vain = 0;  // orders in a row that freed next to nothing
    int pause = 0;    // looks without an order
  };

  static constexpr uint64_t kLooks = 4;  // what falls in so many lies above the floor
  static constexpr uint64_t kMostAtOnce = 1ULL
                                          << 30;  // of an order, which the end of ppcd waits for
  static constexpr int kMostInVain = 6;

  // Bytes that are missing on a node which is to keep `floor` free.
  static uint64_t Missing(Node* node, uint64_t free, uint64_t floor);
  // What was free after an order.
  static void NoteFreed(Node* node, uint64_t asked, uint64_t free);
  Status Reclaim(int node, uint64_t bytes);
  // Where nothing can be asked, the kernel's own thread begins to reclaim earlier.
  Status RaiseWatermarks();

  const SysRoots roots_;
  const uint64_t floor_bytes_;
  std::map<int, Node> nodes_;
  std::string watermark_before_;  // "": not raised
};

}  // namespace ppc

#endif  // PPC_DAEMON_MACHINE_FREE_FLOOR_H_
