// SPDX-License-Identifier: Apache-2.0
// Owns the truth about the runner's account of its own page cache: what was loaded and what went is
// only an estimate, the kernel reclaims without telling.
// Threads: the executor's; a look runs on the evictor's.
#ifndef PPC_DAEMON_EXEC_RESIDENCY_SCAN_H_
#define PPC_DAEMON_EXEC_RESIDENCY_SCAN_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "daemon/backend/backend.h"
#include "daemon/cache/evictor.h"
#include "daemon/exec/file_table.h"
#include "daemon/exec/service_table.h"

namespace ppc {

class ResidencyScan {
 public:
  struct Parts {
    Backend* backend = nullptr;
    Evictor* evictor = nullptr;
    FileTable* files = nullptr;
    ServiceTable* services = nullptr;
    std::atomic<uint64_t>* own_cache = nullptr;
  };

  // chunk_bytes: what there must be room for.
  ResidencyScan(Parts parts, uint64_t chunk_bytes) : parts_(parts), chunk_bytes_(chunk_bytes) {}

  // Puts the account right if it is what leaves a service no room.
  void RefreshIfBound();
  // Returns whether the memory reading is good enough to evict by.  If the limit that binds is our
  // own account and the account is stale, starts a look and returns false: otherwise we would drop
  // needed pages in place of pages that the kernel reclaimed long ago.
  bool IsKnown();

 private:
  bool IsBound() const;
  void Begin();

  const Parts parts_;
  const uint64_t chunk_bytes_;
  uint64_t known_until_ns_ = 0;
  // Shared with the job, which may outlive us.
  struct State {
    std::atomic<bool> runs{false};
    std::atomic<uint64_t> ended_ns{0};
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_RESIDENCY_SCAN_H_
