// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/next_use_order.h"

#include <algorithm>

#include "policies/maio/base/tuning.h"

namespace ppc::maio {

uint64_t NextUseOrder::NextUse(uint32_t index, uint64_t distance) const {
  const Piece& piece = layout_->pieces()[index];
  uint64_t nearest = kNever;
  layout_->ForEachUse(index, [&](uint32_t group, uint32_t at) {
    const Use use = layout_->UseAt(group, piece.file, at);
    if (use.state == UseState::kBurnt) return;
    const Cursor& cursor = matcher_->cursors()[group];
    const Stream& stream = cursor.streams[piece.file];
    const uint64_t reader = stream.active ? stream.pos : cursor.pos;
    uint64_t ahead = 0;
    if (use.state == UseState::kPending) {
      if (use.pos > reader) ahead = use.pos - reader;
      // What another reader has read of it says that this one may be in it unseen.
      const bool is_past = use.pos + piece.bytes() + distance < reader;
      if (is_past && (piece.flags & kConsumed) == 0) ahead = kLeftOut;
    }
    nearest = std::min(nearest, ahead);
  });
  return nearest;
}

bool NextUseOrder::MayGo(const Piece& piece, uint64_t now_ns) const {
  const bool is_there = piece.state == PieceState::kResident || piece.state == PieceState::kTouched;
  // What was dropped a moment ago may have stayed, mapped; its reader is in what it missed since.
  const uint64_t rest_ns = (piece.flags & kNoUnmap) != 0 ? kRestNs : kReleasedNs;
  const bool was_dropped = piece.release_us != 0 && now_ns < piece.release_us * 1000 + rest_ns;
  return is_there && !was_dropped && (piece.flags & kKeep) == 0;
}

// Looks at all pieces, and is done seldom: what has been loaded since is nearer than what the heap
// has already, unless a reader jumped.
void NextUseOrder::Sort(uint64_t distance, uint64_t now_ns) {
  sorted_ns_ = now_ns;
  heap_.clear();
  for (uint32_t p = 0; p < layout_->pieces().size(); p++) {
    if (!MayGo(layout_->pieces()[p], now_ns)) continue;
    const uint64_t next = NextUse(p, distance);
    if (next != 0) heap_.emplace_back(next, p);
  }
  std::ranges::make_heap(heap_);
}

uint64_t NextUseOrder::Furthest(uint64_t bytes, uint64_t nearest, uint64_t distance,
                                uint64_t now_ns, std::vector<uint32_t>* out) {
  const uint64_t age = std::max(kSortNs, layout_->pieces().size() * kSortNsPerPiece);
  if (sorted_ns_ == 0 || now_ns >= sorted_ns_ + age) Sort(distance, now_ns);
  uint64_t sum = 0;
  while (sum < bytes && !heap_.empty()) {
    const uint32_t index = heap_.front().second;
    const Piece& piece = layout_->pieces()[index];
    const uint64_t next = NextUse(index, distance);
    if (heap_.front().first < nearest) break;
    std::ranges::pop_heap(heap_);
    heap_.pop_back();
    if (next < nearest || !MayGo(piece, now_ns)) continue;
    out->push_back(index);
    sum += piece.bytes();
  }
  return sum;
}

}  // namespace ppc::maio
