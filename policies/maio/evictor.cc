// SPDX-License-Identifier: Apache-2.0
//
// Burn after reading, see evictor.h.  Called from the policy's one thread.
#include "policies/maio/evictor.h"

#include <algorithm>

namespace ppc::maio {
namespace {

constexpr uint64_t kIdleNs = 5'000'000'000;  // a reader that rests has copied what it read
constexpr uint64_t kRetryNs = 1'000'000'000;
constexpr uint64_t kWidenNs = 1'000'000'000;  // widen the distance at most so often
constexpr uint64_t kSwapBytes = 32ull << 20;
constexpr uint32_t kMaxAttempts = 5;
constexpr size_t kMaxRetries = 4096;

}  // namespace

Evictor::Evictor(Layout* layout, Matcher* matcher, Planner* planner, uint64_t distance,
                 uint64_t cookie)
    : layout_(layout),
      matcher_(matcher),
      planner_(planner),
      distance_(distance),
      cookie_(cookie),
      position_(layout->groups().size(), 0) {}

void Evictor::Burn(uint32_t group, uint64_t now_ns, std::vector<uint32_t>* released) {
  Cursor& cursor = matcher_->cursors()[group];
  bool idle = cursor.last_ns != 0 && now_ns > cursor.last_ns + kIdleNs;
  while (!cursor.fifo.empty() &&
         (idle || cursor.consumed - cursor.fifo.front().stamp >= distance_)) {
    Passed& passed = cursor.fifo.front();
    UseList& list = layout_->ListOf(group, passed.file);
    const Use use = list.At(layout_->pieces(), passed.index);
    list.SetState(passed.index, UseState::kBurnt);
    if (--passed.count == 0) {
      cursor.fifo.pop_front();
    } else {
      const Use next = list.At(layout_->pieces(), ++passed.index);
      passed.stamp += layout_->pieces()[next.piece].bytes();
    }
    Piece& piece = layout_->pieces()[use.piece];
    position_[group] = std::max(position_[group], use.pos + piece.bytes());
    if (--piece.pending == 0 && !(piece.flags & kKeep)) released->push_back(use.piece);
  }
}

// Lists pieces, joining neighbours; returns the bytes listed.
uint64_t Evictor::Release(const std::vector<uint32_t>& pieces, uint32_t flags, uint64_t now_ns,
                          const Held& held, ppc::IoList* out) {
  uint64_t bytes = 0;
  for (uint32_t p : pieces) {
    Piece& piece = layout_->pieces()[p];
    const LayoutFile& file = layout_->files()[piece.file];
    if (piece.state == PieceState::kAbsent || piece.state == PieceState::kQueued) continue;
    if (held(file.number, piece.page, piece.pages)) {
      waiting_.push_back(p);
      continue;
    }
    uint32_t piece_flags = piece.flags & kNoUnmap ? 0 : flags;
    planner_->SetState(p, PieceState::kAbsent);
    if (piece.pending == 0) piece.flags |= kReleased;  // a miss on it would be our mistake
    piece.release_ns = now_ns;
    bytes += piece.bytes();
    ppc_io* last = out->empty() ? nullptr : &out->ios().back();
    if (last != nullptr && last->file == file.number && last->flags == piece_flags &&
        last->offset + last->size == piece.offset()) {
      last->size += piece.bytes();
      continue;
    }
    ppc_io& io = out->Add(file.number, piece.offset(), piece.bytes());
    io.flags = piece_flags;
    io.cookie = cookie_;
  }
  stats_.released += bytes;
  return bytes;
}

void Evictor::Evict(const ppc_memory& memory, uint64_t now_ns, bool can_unmap, const Held& held,
                    ppc::IoList* out) {
  uint32_t flags = can_unmap ? PPC_IO_UNMAP : 0;
  std::vector<uint32_t> released;
  released.swap(waiting_);
  for (uint32_t g = 0; g < layout_->groups().size(); g++) Burn(g, now_ns, &released);
  uint64_t bytes = Release(released, flags, now_ns, held, out);
  AddRetries(now_ns, flags, out);
  threshold_ = memory.threshold;
  uint64_t over = memory.used > memory.threshold ? memory.used - memory.threshold : 0;
  // Not enough is behind the readers: what they need last makes room for what they need now.
  // First what has been read and comes again only in another pass.
  // Where there is little memory, little at a time: every byte of it is read again.
  const uint64_t step = std::min(kSwapBytes, memory.threshold / 16);
  const bool is_tight =
      memory.room < std::min(kChunkBytes, step) && (layout_->has_passes() || swap_left_ != 0);
  const uint64_t urgent = is_tight ? planner_->NearestAhead() : ~0ull;
  uint64_t again = over;
  if (urgent != ~0ull) again += step;
  if (layout_->has_passes() && bytes < again) {
    released.clear();
    ReadAgainLast(again - bytes, std::max(distance_, urgent == ~0ull ? 0 : urgent), &released);
    bytes += Release(released, flags, now_ns, held, out);
  }
  // A little above the threshold is no reason: what the readers load by themselves is needed now,
  // and what they have read but not burnt yet makes up for it.
  const uint64_t tolerated = std::min(step, Unburnt());
  uint64_t wanted = over > tolerated ? over - tolerated : 0;
  uint64_t min_ahead = distance_;
  uint64_t swap = std::min(step, swap_left_);
  if (swap != 0 && urgent < step) {
    wanted += swap;
    min_ahead = std::max(min_ahead, urgent + swap);
  }
  if (bytes >= wanted) return;
  released.clear();
  Unneeded(wanted - bytes, min_ahead, &released);
  uint64_t unneeded = Release(released, 0, now_ns, held, out);
  stats_.unneeded += unneeded;
  swap_left_ -= std::min(swap_left_, unneeded);
}

// Of one reader: what several have read is dropped once.
uint64_t Evictor::Unburnt() const {
  uint64_t most = 0;
  for (const Cursor& cursor : matcher_->cursors()) {
    if (!cursor.fifo.empty()) most = std::max(most, cursor.consumed - cursor.fifo.front().stamp);
  }
  return most;
}

// How far ahead of its nearest reader a piece is used next; 0 while a reader may still be in it.
uint64_t Evictor::NextUse(uint32_t index) const {
  uint64_t nearest = ~0ull;
  const uint32_t file = layout_->pieces()[index].file;
  layout_->ForEachUse(index, [&](uint32_t group, uint32_t at) {
    const Use use = layout_->UseAt(group, file, at);
    const Cursor& cursor = matcher_->cursors()[group];
    if (use.state == UseState::kBurnt) return;
    const bool inside = use.state == UseState::kPassed || use.pos < cursor.pos;
    nearest = std::min(nearest, inside ? 0 : use.pos - cursor.pos);
  });
  return nearest;
}

// Pieces that were read in this pass and are listed again: the last needed first.  The ends of the
// sequences are walked from behind, so what was read last goes, and the beginning stays.
void Evictor::ReadAgainLast(uint64_t bytes, uint64_t min_ahead, std::vector<uint32_t>* out) const {
  uint64_t sum = 0;
  std::vector<bool> taken(layout_->pieces().size());
  for (uint32_t g = 0; g < layout_->groups().size(); g++) {
    BackwardUses uses(*layout_, g);
    for (Use use; sum < bytes && uses.Next(&use);) {
      if (use.pos < matcher_->cursors()[g].pos + min_ahead) break;
      const Piece& piece = layout_->pieces()[use.piece];
      bool resident = piece.state == PieceState::kResident || piece.state == PieceState::kTouched;
      if (!resident || !(piece.flags & kConsumed) || (piece.flags & kKeep) || taken[use.piece] ||
          NextUse(use.piece) < min_ahead) {
        continue;
      }
      taken[use.piece] = true;
      out->push_back(use.piece);
      sum += piece.bytes();
    }
  }
}

// Resident pieces from the ends of the sequences, at least min_ahead from the readers.
void Evictor::Unneeded(uint64_t bytes, uint64_t min_ahead, std::vector<uint32_t>* out) const {
  uint64_t sum = 0;
  size_t groups = layout_->groups().size();
  std::vector<BackwardUses> uses;
  for (uint32_t g = 0; g < groups; g++) uses.emplace_back(*layout_, g);
  std::vector<bool> at_end(groups);
  std::vector<bool> taken(layout_->pieces().size());
  for (bool any = true; any && sum < bytes;) {
    any = false;
    for (uint32_t g = 0; g < groups && sum < bytes; g++) {
      const Cursor& cursor = matcher_->cursors()[g];
      for (Use use; !at_end[g] && uses[g].Next(&use);) {
        const Piece& piece = layout_->pieces()[use.piece];
        if (use.pos < cursor.pos + min_ahead) {
          at_end[g] = true;
          break;
        }
        // A piece that is listed again later may be needed soon all the same.
        if (use.state != UseState::kPending || piece.state != PieceState::kResident ||
            taken[use.piece] || (piece.flags & kKeep) || NextUse(use.piece) < min_ahead) {
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
  // Then what the readers have jumped over.
  for (uint32_t p = 0; p < layout_->pieces().size() && sum < bytes; p++) {
    const Piece& piece = layout_->pieces()[p];
    if (piece.state != PieceState::kResident || taken[p] || (piece.flags & (kKeep | kConsumed))) {
      continue;
    }
    bool behind = true;
    layout_->ForEachUse(p, [&](uint32_t group, uint32_t at) {
      const Use use = layout_->UseAt(group, piece.file, at);
      behind &= use.pos + piece.bytes() + distance_ < matcher_->cursors()[group].pos;
    });
    if (!behind) continue;
    out->push_back(p);
    sum += piece.bytes();
  }
}

void Evictor::AddRetries(uint64_t now_ns, uint32_t flags, ppc::IoList* out) {
  std::vector<Retry> later;
  for (Retry& retry : retries_) {
    if (retry.due_ns > now_ns) {
      later.push_back(retry);
      continue;
    }
    // Loaded or wanted again meanwhile: not ours to drop any more.
    auto [first, last] = layout_->PiecesOf(retry.file, retry.offset / kPage,
                                           (retry.offset + retry.bytes + kPage - 1) / kPage);
    bool wanted = false;
    for (uint32_t p = first; p < last; p++) wanted |= layout_->pieces()[p].pending != 0;
    if (wanted) continue;
    stats_.retries++;
    ppc_io& io = out->Add(layout_->files()[retry.file].number, retry.offset, retry.bytes);
    io.flags = flags;
    io.cookie = cookie_ + retry.attempts;
  }
  retries_.swap(later);
}

void Evictor::EvictAll(const Held& held, uint64_t now_ns, ppc::IoList* out) {
  std::vector<uint32_t> all;
  for (uint32_t p = 0; p < layout_->pieces().size(); p++) all.push_back(p);
  Release(all, 0, now_ns, held, out);
}

void Evictor::Done(const ppc_result& result, uint64_t now_ns) {
  stats_.dropped += result.ok;
  int32_t file = layout_->FileOf(result.file);
  uint64_t left = result.mapped + result.failed;
  uint32_t attempts = static_cast<uint32_t>(result.cookie - cookie_) + 1;
  if (file < 0 || left * 50 < result.size || attempts > kMaxAttempts) return;
  if (retries_.size() >= kMaxRetries) return;
  retries_.push_back(
      {static_cast<uint32_t>(file), result.offset, result.size, now_ns + kRetryNs, attempts});
}

void Evictor::Refault(uint32_t index, uint64_t bytes, uint64_t now_ns) {
  Piece& piece = layout_->pieces()[index];
  piece.flags |= kNoUnmap;
  piece.flags &= static_cast<uint8_t>(~kReleased);
  stats_.refaults += bytes;
  if (now_ns < widened_ns_ + kWidenNs) return;
  widened_ns_ = now_ns;
  // A distance of the order of the budget would keep everything.
  const uint64_t all = threshold_ / 2 / std::max<size_t>(layout_->groups().size(), 2);
  const uint64_t most = std::max(std::min(kMaxDistance, all), distance_);
  distance_ = std::min(distance_ * 2, most);
}

}  // namespace ppc::maio
