// SPDX-License-Identifier: Apache-2.0
//
// What to drop: burn after reading (paper, section 4.1).  A use is burnt when
// its group has read `distance` bytes more since; a piece is released when all
// its uses, of all groups, are burnt.  So the slowest reader decides, and data
// that is read again later stays.
//
// Where that is not enough, what is used furthest ahead makes room for what is loaded next (see
// next_use_order.h): the kernel would drop what is needed next.  Room that is withheld for a while
// (tasks stall for memory) is no such reason.
#ifndef POLICIES_MAIO_FOLLOW_EVICTOR_H_
#define POLICIES_MAIO_FOLLOW_EVICTOR_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/layout.h"
#include "policies/maio/follow/matcher.h"
#include "policies/maio/follow/next_use_order.h"
#include "policies/maio/follow/piece_table.h"
#include "policies/maio/follow/planner.h"
#include "ppc.hpp"

namespace ppc::maio {

struct EvictorStats {
  uint64_t released = 0;  // asked to drop
  uint64_t dropped = 0;   // dropped, as reported
  uint64_t unneeded = 0;  // dropped ahead of the reader for want of room
  uint64_t refaults = 0;  // bytes missed after we released them
  uint64_t retries = 0;
};

// So much is dropped at a time.  Where there is little memory, little: some may be read again.
inline uint64_t EvictStep(const ppc_memory& memory) {
  return std::min(kEvictStepBytes, memory.threshold / 16);
}

class Evictor {
 public:
  // held(file number, page, pages): another service still needs the range.
  using Held = std::function<bool(uint64_t, uint64_t, uint64_t)>;

  Evictor(PieceTable* table, Matcher* matcher, Planner* planner, uint64_t distance,
          uint64_t cookie);

  void Evict(const ppc_memory& memory, uint64_t now_ns, bool can_unmap, const Held& held,
             ppc::IoList* out);
  // Everything that is left (at_ready): nobody needs any of it from now on.  To be called until it
  // has ended; what is still mapped or on its way is tried again.
  void EvictAll(uint64_t now_ns, bool can_unmap, const Held& held, ppc::IoList* out);
  bool HasEnded(uint64_t now_ns) const;
  // The next EvictAll begins anew: what was mapped at the end of the load may be dropped at ready.
  void ForgetEnd() {
    if (ending_ns_ != 0) table_->ForgetReleases();
    ending_ns_ = 0;
  }
  void Done(const ppc_result& result, uint64_t now_ns);
  // Others beside our readers wait for room.
  void SetContended(bool is_contended) { is_contended_ = is_contended; }
  // What readers have passed goes as soon as room is needed, however close behind them it is.
  void ClearDistance() { distance_ = 0; }
  // A miss near a piece that was released made the kernel read it, as a whole or in part.  Of these
  // `bytes` were missed: the distance was too short.
  void Refault(uint32_t piece, uint64_t bytes, uint64_t now_ns);

  uint64_t distance() const { return distance_; }
  uint64_t position(uint32_t group) const { return position_[group]; }
  uint64_t cookie() const { return cookie_; }
  const EvictorStats& stats() const { return stats_; }

 private:
  struct Retry {
    uint32_t file = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t due_ns = 0;
    uint32_t attempts = 0;
    bool may_unmap = false;  // as its first request
  };

  // Asked to drop, not reported yet: memory still counts it.
  struct Drop {
    uint64_t ns = 0;
    uint64_t bytes = 0;
  };

  void Burn(uint32_t group, uint64_t distance, uint64_t now_ns, std::vector<uint32_t>* released);
  void Release(const std::vector<uint32_t>& pieces, uint32_t flags, uint64_t now_ns,
               const Held& held, ppc::IoList* out);
  void Dropped(uint64_t bytes);
  void ReleaseRetired(uint64_t wanted, uint32_t flags, uint64_t now_ns, const Held& held,
                      ppc::IoList* out);
  void ReleaseFurthest(uint64_t wanted, uint64_t nearest, uint32_t flags, uint64_t now_ns,
                       const Held& held, ppc::IoList* out);
  void AddRetries(uint64_t now_ns, const Held& held, ppc::IoList* out);
  // Of a request: how often it was tried, and whether it leaves mappings alone.
  uint64_t CookieOf(uint32_t flags, uint32_t attempts) const {
    return cookie_ + attempts + ((flags & PPC_IO_UNMAP) != 0 ? 0 : kLeavesMappings);
  }
  uint64_t Unburnt() const;

  static constexpr size_t kMaxRetries = 4096;
  static constexpr uint64_t kRetiredSteps = 4;
  static constexpr uint64_t kLeavesMappings = 256;  // in a cookie, beside the attempts

  PieceTable* table_;
  const Layout* layout_;
  Matcher* matcher_;
  Planner* planner_;
  NextUseOrder order_;
  uint64_t distance_;
  uint64_t cookie_;
  uint64_t widened_ns_ = 0;
  uint64_t threshold_ = ~0ull;  // of memory, when looked at last
  std::vector<uint64_t> position_;
  // All readers have passed them by the distance, longest ago first; some are held by another
  // service or on their way.
  std::deque<uint32_t> retired_;
  bool is_contended_ = false;
  std::vector<Retry> retries_;
  std::deque<Drop> drops_;  // oldest first
  uint64_t dropping_ = 0;   // bytes of all of them
  uint64_t ending_ns_ = 0;  // EvictAll was called first; 0: not yet
  EvictorStats stats_;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_EVICTOR_H_
