// SPDX-License-Identifier: Apache-2.0
//
// What an earlier run left on another node than this run wants it on
// (affinity_fix=evict): dropped and loaded again, where that costs nobody
// anything:
//   - the loader has nothing else to load, and little is under way for this;
//   - the piece has one node that wants it, and most of what is there of it
//     lies elsewhere;
//   - nobody has it mapped, no other service needs it;
//   - its next reader comes to it in more than `ahead_s` seconds, at the rate
//     it has read with so far.  Before anybody has read, nothing is known to be
//     far enough.
// A load's own result tells that a piece was there already; where it lies is
// looked up for these pieces alone, a few at a time.
#ifndef POLICIES_MAIO_FOLLOW_LEFTOVERS_H_
#define POLICIES_MAIO_FOLLOW_LEFTOVERS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "policies/maio/follow/affinity.h"
#include "policies/maio/follow/evictor.h"
#include "policies/maio/follow/layout.h"
#include "policies/maio/follow/matcher.h"
#include "policies/maio/follow/planner.h"
#include "ppc.hpp"

namespace ppc::maio {

struct LeftoverStats {
  uint64_t found = 0;    // bytes on a wrong node, of the pieces looked at
  uint64_t dropped = 0;  // bytes dropped to be loaded again
};

class Leftovers {
 public:
  Leftovers(const ppc_context* context, PieceTable* table, Matcher* matcher, Planner* planner,
            const Affinity* affinity, uint32_t ahead_s, uint64_t first_cookie);

  // A load that found something there.
  void Found(const ppc_result& load);
  void Evict(uint64_t now_ns, const Evictor::Held& held, ppc::IoList* out);
  // False: not one of ours.
  bool Done(const ppc_result& eviction);
  // Evictions that were never reported (refused ranges) are taken for not done.
  void Expire(uint64_t now_ns);

  const LeftoverStats& stats() const { return stats_; }

 private:
  struct Dropping {
    uint32_t piece = 0;
    uint64_t ns = 0;
  };
  enum class Verdict { kStays, kGoes, kLater };

  Verdict Judge(uint32_t index, const Evictor::Held& held);
  bool IsFarAhead(uint32_t index, double rate) const;
  double FastestRate() const;

  const ppc_context* context_;
  PieceTable* table_;
  const Layout* layout_;
  Matcher* matcher_;
  Planner* planner_;
  const Affinity* affinity_;
  const uint32_t ahead_s_;
  const uint64_t first_cookie_;
  uint64_t next_cookie_;
  std::vector<bool> known_;        // pieces that are or were suspects
  std::deque<uint32_t> suspects_;  // in the order of planning: nearest first
  std::map<uint64_t, Dropping> dropping_;
  uint64_t dropping_bytes_ = 0;
  LeftoverStats stats_;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_LEFTOVERS_H_
