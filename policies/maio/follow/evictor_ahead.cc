// SPDX-License-Identifier: Apache-2.0
//
// What the readers need last, which makes room for what they need now; see evictor.h.
#include <algorithm>
#include <vector>

#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/evictor.h"

namespace ppc::maio {

void Evictor::EvictAhead(const ppc_memory& memory, uint64_t now_ns, uint32_t flags,
                         const Held& held, ppc::IoList* out) {
  // While room is withheld nothing is loaded and what has been read goes; what is needed soon
  // stays.
  const uint64_t threshold = memory.threshold + memory.withheld_pages * kPage;
  const uint64_t over = memory.used > threshold ? memory.used - threshold : 0;
  if (now_ns > swap_until_ns_) swap_left_ = 0;
  // What the readers went past without our knowing looks the farthest ahead of them, and is what
  // they are in.  The kernel begins with what was read first.
  if (now_ns < wait_until_ns_ && matcher_->IsAnyAway()) return;
  std::vector<uint32_t> released;
  // Not enough is behind the readers: what they need last makes room for what they need now.
  // First what has been read and comes again only in another pass.
  // Where there is little memory, little at a time: every byte of it is read again.
  const uint64_t step = EvictStep(memory);
  const bool is_tight = memory.withheld_pages == 0 && memory.room < std::min(kChunkBytes, step) &&
                        (layout_->has_passes() || swap_left_ != 0);
  const uint64_t urgent = is_tight ? planner_->NearestAhead(now_ns) : ~0ull;
  uint64_t again = over;
  if (urgent != ~0ull) again += step;
  if (layout_->has_passes() && dropping_ < again) {
    ReadAgainLast(again - dropping_, std::max(distance_, urgent == ~0ull ? 0 : urgent), now_ns,
                  &released);
    Release(released, flags, now_ns, held, out);
  }
  // A little above the threshold is no reason: what the readers load by themselves is needed now,
  // and what they have read but not burnt yet makes up for it.
  const uint64_t tolerated = std::min(step, Unburnt());
  uint64_t wanted = over > tolerated ? over - tolerated : 0;
  uint64_t min_ahead = distance_;
  const uint64_t swap = SwapNow(memory, threshold, urgent, step, now_ns);
  if (swap != 0) {
    wanted += swap;
    min_ahead = std::max(min_ahead, urgent + swap);
  }
  // What is being dropped already makes room, too.
  if (dropping_ >= wanted || now_ns < scarce_ns_) return;
  released.clear();
  uint64_t found = Unneeded(wanted - dropping_, min_ahead, now_ns, &released);
  // Readers that load far ahead by themselves stop for nobody, up to the limit.
  if (over > tolerated + dropping_ + found)
    found += TouchedAhead(over - tolerated - dropping_ - found, min_ahead, now_ns, &released);
  if (found < wanted - dropping_) scarce_ns_ = now_ns + kScarceNs;
  const uint64_t before = stats_.released;
  Release(released, 0, now_ns, held, out);
  const uint64_t unneeded = stats_.released - before;
  stats_.unneeded += unneeded;
  swap_left_ -= std::min(swap_left_, unneeded);
}

// How much of what is needed last is to make room now; threshold: with what is withheld.
uint64_t Evictor::SwapNow(const ppc_memory& memory, uint64_t threshold, uint64_t urgent,
                          uint64_t step, uint64_t now_ns) {
  if (!is_patient_) return urgent < step ? std::min(step, swap_left_) : 0;
  // Not before memory says what the last step has given.
  const bool is_stuck = urgent < kChunkBytes && memory.used + kChunkBytes > threshold;
  if (!is_stuck || now_ns < next_swap_ns_) return 0;
  next_swap_ns_ = now_ns + kPatienceNs;
  return std::min({memory.threshold / kPatientShare, kMostPatient, swap_left_});
}

// As prefetch measures it; but what a reader has left out it may still be in.
uint64_t Evictor::Ahead(uint32_t group, uint32_t file, uint64_t pos) const {
  const Cursor& cursor = matcher_->cursors()[group];
  const Stream& stream = cursor.streams[file];
  const uint64_t base = stream.active ? stream.pos : cursor.pos;
  return pos > base ? pos - base : 0;
}

// How far ahead of its nearest reader a piece is used next; 0 while a reader may still be in it.
uint64_t Evictor::NextUse(uint32_t index) const {
  uint64_t nearest = ~0ull;
  const uint32_t file = layout_->pieces()[index].file;
  layout_->ForEachUse(index, [&](uint32_t group, uint32_t at) {
    const Use use = layout_->UseAt(group, file, at);
    if (use.state == UseState::kBurnt) return;
    const bool inside = use.state == UseState::kPassed;
    nearest = std::min(nearest, inside ? 0 : Ahead(group, file, use.pos));
  });
  return nearest;
}

// Beyond what was asked for nothing is there.
BackwardUses Evictor::Farthest(uint32_t group) const {
  const uint64_t end = std::max(planner_->horizon(group), matcher_->cursors()[group].pos + 1);
  return BackwardUses(*layout_, group, end, [this, group](uint32_t file, uint64_t pos) {
    return Ahead(group, file, pos);
  });
}

// It may have stayed, mapped, or is being read again: asking once more would gain nothing.
bool Evictor::WasReleased(const Piece& piece, uint64_t now_ns) {
  return piece.release_us != 0 && now_ns < piece.release_us * 1000 + kReleasedNs;
}

// The ends of the sequences are walked from behind, so that what is needed last goes and the
// beginning stays.  Returns the bytes.
uint64_t Evictor::LastNeeded(uint64_t bytes, uint64_t min_ahead, uint64_t now_ns,
                             const std::function<bool(const Piece&)>& is_meant,
                             std::vector<uint32_t>* out) const {
  uint64_t sum = 0;
  std::vector<bool> taken(layout_->pieces().size());
  for (uint32_t g = 0; g < layout_->groups().size(); g++) {
    BackwardUses uses(*layout_, g, ~0ull,
                      [this, g](uint32_t file, uint64_t pos) { return Ahead(g, file, pos); });
    uint64_t ahead = 0;
    for (Use use; sum < bytes && uses.Next(&use, &ahead) && ahead >= min_ahead;) {
      const Piece& piece = layout_->pieces()[use.piece];
      if ((piece.flags & kKeep) != 0 || !is_meant(piece) || taken[use.piece] ||
          WasReleased(piece, now_ns) || NextUse(use.piece) < min_ahead) {
        continue;
      }
      taken[use.piece] = true;
      out->push_back(use.piece);
      sum += piece.bytes();
    }
  }
  return sum;
}

// Pieces that were read in this pass and are listed again.
void Evictor::ReadAgainLast(uint64_t bytes, uint64_t min_ahead, uint64_t now_ns,
                            std::vector<uint32_t>* out) const {
  const auto is_read = [](const Piece& piece) {
    return (piece.state == PieceState::kResident || piece.state == PieceState::kTouched) &&
           (piece.flags & kConsumed) != 0;
  };
  (void)LastNeeded(bytes, min_ahead, now_ns, is_read, out);
}

// Pieces that a reader's own read-ahead or populating has brought in.  Where the readers are is
// known from the same reads, so what is near any of them stays.
uint64_t Evictor::TouchedAhead(uint64_t bytes, uint64_t min_ahead, uint64_t now_ns,
                               std::vector<uint32_t>* out) const {
  const auto is_theirs = [](const Piece& piece) {
    return piece.state == PieceState::kTouched && (piece.flags & kConsumed) == 0;
  };
  return LastNeeded(bytes, min_ahead, now_ns, is_theirs, out);
}

// Resident pieces, the last needed first, at least min_ahead from the readers.  Returns their
// bytes.
uint64_t Evictor::Unneeded(uint64_t bytes, uint64_t min_ahead, uint64_t now_ns,
                           std::vector<uint32_t>* out) const {
  uint64_t sum = 0;
  size_t groups = layout_->groups().size();
  std::vector<BackwardUses> uses;
  for (uint32_t g = 0; g < groups; g++) uses.push_back(Farthest(g));
  std::vector<bool> at_end(groups);
  std::vector<bool> taken(layout_->pieces().size());
  for (bool any = true; any && sum < bytes;) {
    any = false;
    for (uint32_t g = 0; g < groups && sum < bytes; g++) {
      uint64_t ahead = 0;
      for (Use use; !at_end[g] && uses[g].Next(&use, &ahead);) {
        const Piece& piece = layout_->pieces()[use.piece];
        if (ahead < min_ahead) {
          at_end[g] = true;
          break;
        }
        // A piece that is listed again later may be needed soon all the same.
        if (use.state != UseState::kPending || piece.state != PieceState::kResident ||
            taken[use.piece] || (piece.flags & kKeep) || WasReleased(piece, now_ns) ||
            NextUse(use.piece) < min_ahead) {
          continue;
        }
        taken[use.piece] = true;
        out->push_back(use.piece);
        sum += piece.bytes();
        any = true;
        break;
      }
    }
  }
  // Then what the readers have jumped over, or populated by themselves and not used.
  for (uint32_t p = 0; p < layout_->pieces().size() && sum < bytes; p++) {
    const Piece& piece = layout_->pieces()[p];
    const bool there = piece.state == PieceState::kResident || piece.state == PieceState::kTouched;
    if (!there || taken[p] || (piece.flags & (kKeep | kConsumed)) || WasReleased(piece, now_ns)) {
      continue;
    }
    bool behind = true;
    layout_->ForEachUse(p, [&](uint32_t group, uint32_t at) {
      const Cursor& cursor = matcher_->cursors()[group];
      const Stream& stream = cursor.streams[piece.file];
      const uint64_t pos = stream.active ? stream.pos : cursor.pos;
      behind &= layout_->UseAt(group, piece.file, at).pos + piece.bytes() + distance_ < pos;
    });
    if (!behind) continue;
    out->push_back(p);
    sum += piece.bytes();
  }
  return sum;
}

}  // namespace ppc::maio
