// SPDX-License-Identifier: Apache-2.0
// Owns a floor of free memory.  If an accelerator allocates from the machine's memory (GB10, Strix
// Halo), its driver counts only MemFree as free, and the page cache leaves none.  The kernel is
// asked to reclaim the missing bytes, node by node, coldest pages first, without swapping if
// possible.
// Threads: one.
#ifndef PPC_EXTRAS_FLOOR_FREE_FLOOR_H_
#define PPC_EXTRAS_FLOOR_FREE_FLOOR_H_

#include <cstdint>
#include <map>
#include <string>

#include "daemon/base/result.h"
#include "daemon/machine/roots.h"

namespace ppc {

class FreeFloor {
 public:
  // Margin above the floor for what MemFree may lose before a look takes effect.
  static constexpr uint64_t kLeastMargin = 64ULL << 20;

  // Writes below roots.sys and roots.proc.
  FreeFloor(SysRoots roots, uint64_t floor_bytes);
  // Restores the machine's watermarks.
  ~FreeFloor();
  FreeFloor(const FreeFloor&) = delete;
  FreeFloor& operator=(const FreeFloor&) = delete;

  // Call some ten times a second; waits while the kernel reclaims.  Returns the requested bytes.
  // ENOTSUP: this kernel offers no way.
  Result<uint64_t> Look();

 private:
  struct Node {
    uint64_t free = 0;  // at the last look
    uint64_t margin = kLeastMargin;
    int in_vain = 0;  // consecutive requests that freed next to nothing
    int pause = 0;    // looks to skip
  };

  static constexpr uint64_t kLooks = 4;  // the margin covers the loss of this many looks
  static constexpr uint64_t kMostAtOnce = 1ULL << 30;  // largest request; ppcd waits for it to end
  static constexpr int kMostInVain = 6;

  // Bytes that a node lacks to keep `floor` free.
  static uint64_t Missing(Node* node, uint64_t free, uint64_t floor);
  // Notes what was free after a request.
  static void NoteFreed(Node* node, uint64_t asked, uint64_t free);
  Status Reclaim(int node, uint64_t bytes);
  // If nothing can be requested, makes the kernel's reclaim thread start earlier.
  Status RaiseWatermarks();

  const SysRoots roots_;
  const uint64_t floor_bytes_;
  std::map<int, Node> nodes_;
  std::string watermark_before_;  // "": not raised
};

}  // namespace ppc

#endif  // PPC_EXTRAS_FLOOR_FREE_FLOOR_H_
