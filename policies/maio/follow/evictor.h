// SPDX-License-Identifier: Apache-2.0
//
// What to drop: burn after reading (paper, section 4.1).  A use is burnt when
// its group has read `distance` bytes more since; a piece is released when all
// its uses, of all groups, are burnt.  So the slowest reader decides, and data
// that is read again later stays.
//
// When memory is short and nothing is burnt, what is needed last goes first:
// the order is known, and the kernel would drop what is needed next.  Room that
// is withheld for a while (tasks stall for memory) is no such reason.
//
// What only a worker that is gone would still read is spare: it goes when somebody needs the room,
// and stays until then, for the worker may come back.
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
  void Done(const ppc_result& result, uint64_t now_ns);
  // No reader holds these any more, in the order in which the one that did would read them.
  void Add(const std::vector<uint32_t>& pieces) {
    spare_.insert(spare_.end(), pieces.begin(), pieces.end());
  }
  // Others beside our readers wait for room.
  void SetContended(bool is_contended) { is_contended_ = is_contended; }
  // A reader jumped or began again: room may be full of what is needed much later.  For a while.
  void AllowSwap(uint64_t bytes, uint64_t now_ns) {
    swap_left_ = bytes;
    swap_until_ns_ = now_ns + kSwapNs;
    is_patient_ = false;
  }
  // An earlier run has left it full of that, and it need not be read again: as little of it as may
  // be, once loading stands still close in front of a reader.  Whenever that is.
  void AllowRoom(uint64_t bytes) {
    swap_left_ = bytes;
    swap_until_ns_ = ~0ull;
    is_patient_ = true;
  }
  // What readers have passed goes as soon as room is needed, however close behind them it is.
  void HoldNothing() { distance_ = 0; }
  // A miss near a piece that was released made the kernel read it, as a whole or in part.  Of these
  // `bytes` were missed: the distance was too short.  It goes again when the reader, if it is known
  // (group slot, or -1), has read as much more as for any other.
  void Refault(uint32_t piece, int32_t group, uint64_t bytes, uint64_t now_ns);

  // Goes on where another was: what nobody needs any more may be there all the same.
  void Resume(const Progress& progress);
  // Until then nothing ahead of the readers, while one of them has told nothing since.
  void WaitForReaders(uint64_t until_ns) { wait_until_ns_ = until_ns; }

  uint64_t distance() const { return distance_; }
  uint64_t dropping_bytes() const { return dropping_; }  // asked to drop, memory still counts them
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

  // Released, and read again by the kernel.
  struct Again {
    uint32_t piece = 0;
    int32_t group = -1;
    uint64_t stamp = 0;  // Cursor::consumed then
    uint64_t ns = 0;
  };

  void Burn(uint32_t group, uint64_t distance, uint64_t now_ns, std::vector<uint32_t>* released);
  void Release(const std::vector<uint32_t>& pieces, uint32_t flags, uint64_t now_ns,
               const Held& held, ppc::IoList* out);
  void Dropped(uint64_t bytes);
  void BurnAgain(uint64_t now_ns, std::vector<uint32_t>* released);
  uint64_t WantedRoom(const ppc_memory& memory, uint64_t now_ns);
  void ReleaseRetired(uint64_t wanted, uint32_t flags, uint64_t now_ns, const Held& held,
                      ppc::IoList* out);
  void ReleaseSpare(uint64_t wanted, uint32_t flags, uint64_t now_ns, const Held& held,
                    ppc::IoList* out);
  // What is not behind the readers, where that is not enough.
  void EvictAhead(const ppc_memory& memory, uint64_t now_ns, uint32_t flags, const Held& held,
                  ppc::IoList* out);
  uint64_t SwapNow(const ppc_memory& memory, uint64_t threshold, uint64_t urgent, uint64_t step,
                   uint64_t now_ns);
  void AddRetries(uint64_t now_ns, const Held& held, ppc::IoList* out);
  // Of a request: how often it was tried, and whether it leaves mappings alone.
  uint64_t CookieOf(uint32_t flags, uint32_t attempts) const {
    return cookie_ + attempts + ((flags & PPC_IO_UNMAP) != 0 ? 0 : kLeavesMappings);
  }
  uint64_t Unneeded(uint64_t bytes, uint64_t min_ahead, uint64_t now_ns,
                    std::vector<uint32_t>* out) const;
  static bool WasReleased(const Piece& piece, uint64_t now_ns);
  uint64_t LastNeeded(uint64_t bytes, uint64_t min_ahead, uint64_t now_ns,
                      const std::function<bool(const Piece&)>& is_meant,
                      std::vector<uint32_t>* out) const;
  void ReadAgainLast(uint64_t bytes, uint64_t min_ahead, uint64_t now_ns,
                     std::vector<uint32_t>* out) const;
  uint64_t TouchedAhead(uint64_t bytes, uint64_t min_ahead, uint64_t now_ns,
                        std::vector<uint32_t>* out) const;
  BackwardUses Farthest(uint32_t group) const;
  uint64_t NextUse(uint32_t index) const;
  uint64_t Ahead(uint32_t group, uint32_t file, uint64_t pos) const;
  uint64_t Unburnt() const;

  static constexpr size_t kMaxRetries = 4096;
  static constexpr uint64_t kRetiredSteps = 4;
  static constexpr uint64_t kLeavesMappings = 256;  // in a cookie, beside the attempts

  PieceTable* table_;
  const Layout* layout_;
  Matcher* matcher_;
  Planner* planner_;
  uint64_t distance_;
  uint64_t cookie_;
  uint64_t widened_ns_ = 0;
  uint64_t swap_left_ = 0;
  uint64_t swap_until_ns_ = 0;
  bool is_patient_ = false;
  uint64_t next_swap_ns_ = 0;
  uint64_t wait_until_ns_ = 0;
  uint64_t scarce_ns_ = 0;      // nothing more is to be found before that
  uint64_t threshold_ = ~0ull;  // of memory, when looked at last
  std::vector<uint64_t> position_;
  std::vector<uint32_t> waiting_;  // burnt, but held by another service or on their way
  std::deque<uint32_t> retired_;  // all readers have passed them by the distance, longest ago first
  std::vector<uint32_t> spare_;   // its reader is gone; the first it would read is the last to go
  bool is_contended_ = false;
  std::vector<Retry> retries_;
  std::deque<Again> again_;  // oldest first
  std::deque<Drop> drops_;   // oldest first
  uint64_t dropping_ = 0;    // bytes of all of them
  uint64_t ending_ns_ = 0;   // EvictAll was called first; 0: not yet
  EvictorStats stats_;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_EVICTOR_H_
