// SPDX-License-Identifier: Apache-2.0
//
// When each piece is used next, by the reader that needs it first.  The planner loads the nearest
// absent piece; the evictor drops the furthest resident one (contract, section 6).
#ifndef POLICIES_MAIO_FOLLOW_NEXT_USE_ORDER_H_
#define POLICIES_MAIO_FOLLOW_NEXT_USE_ORDER_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "policies/maio/follow/layout.h"
#include "policies/maio/follow/matcher.h"

namespace ppc::maio {

class NextUseOrder {
 public:
  // Further than any position ahead: its reader has gone past the piece, and no other has read it;
  // no reader needs it.
  static constexpr uint64_t kLeftOut = ~0ull - 1;
  static constexpr uint64_t kNever = ~0ull;

  NextUseOrder(const Layout* layout, const Matcher* matcher) : layout_(layout), matcher_(matcher) {}

  // Bytes that the nearest reader reads before it; 0: a reader may be in it, or is less than
  // `distance` past it.
  uint64_t NextUse(uint32_t piece, uint64_t distance) const;

  // Resident pieces, the furthest first, until they are `bytes` long; none that is used sooner than
  // `nearest` bytes ahead.  Their total length.
  uint64_t Furthest(uint64_t bytes, uint64_t nearest, uint64_t distance, uint64_t now_ns,
                    std::vector<uint32_t>* out);

 private:
  bool MayGo(const Piece& piece, uint64_t now_ns) const;
  void Sort(uint64_t distance, uint64_t now_ns);

  const Layout* layout_;
  const Matcher* matcher_;
  std::vector<std::pair<uint64_t, uint32_t>> heap_;  // next use, piece
  uint64_t sorted_ns_ = 0;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_NEXT_USE_ORDER_H_
