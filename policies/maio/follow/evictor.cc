// SPDX-License-Identifier: Apache-2.0
//
// Burn after reading, see evictor.h.  Called from the policy's one thread.
#include "policies/maio/follow/evictor.h"

#include <algorithm>
#include <utility>

#include "policies/maio/base/tuning.h"

namespace ppc::maio {
Evictor::Evictor(PieceTable* table, Matcher* matcher, Planner* planner, uint64_t distance,
                 uint64_t cookie)
    : table_(table),
      layout_(&table->layout()),
      matcher_(matcher),
      planner_(planner),
      order_(layout_, matcher),
      distance_(distance),
      cookie_(cookie),
      position_(layout_->groups().size(), 0) {}

void Evictor::Burn(uint32_t group, uint64_t distance, uint64_t now_ns,
                   std::vector<uint32_t>* released) {
  Cursor& cursor = matcher_->cursors()[group];
  bool idle = cursor.last_ns != 0 && now_ns > cursor.last_ns + kRestNs;
  while (!cursor.passed_runs.empty() &&
         (idle || cursor.consumed >= cursor.passed_runs.front().stamp + distance)) {
    PassedRun& passed = cursor.passed_runs.front();
    const UseList& list = layout_->ListOf(group, passed.file);
    const Use use = list.At(layout_->pieces(), passed.index);
    const bool is_free = table_->Burn(group, passed.file, passed.index);
    if (--passed.count == 0) {
      cursor.passed_runs.pop_front();
    } else {
      const Use next = list.At(layout_->pieces(), ++passed.index);
      passed.stamp += layout_->pieces()[next.piece].bytes();
    }
    const Piece& piece = layout_->pieces()[use.piece];
    position_[group] = std::max(position_[group], use.pos + piece.bytes());
    if (is_free && !(piece.flags & kKeep)) released->push_back(use.piece);
  }
}

// Lists pieces, joining neighbours.
void Evictor::Release(const std::vector<uint32_t>& pieces, uint32_t flags, uint64_t now_ns,
                      const Held& held, ppc::IoList* out) {
  uint64_t bytes = 0;
  for (uint32_t p : pieces) {
    const Piece& piece = layout_->pieces()[p];
    const LayoutFile& file = layout_->files()[piece.file];
    // Absent and still needed, or already released: there is nothing to drop.
    const bool is_gone = piece.pending != 0 || (piece.flags & kReleased) != 0;
    if (piece.state == PieceState::kAbsent && is_gone) continue;
    if (piece.state == PieceState::kQueued || held(file.number, piece.page, piece.pages)) {
      retired_.push_back(p);
      continue;
    }
    // A process may be in a piece that no reader has read: it has populated it, or left it out.
    const bool is_used = piece.pending == 0 || (piece.flags & kConsumed) != 0;
    const uint32_t piece_flags = is_used && (piece.flags & kNoUnmap) == 0 ? flags : 0;
    table_->Release(p, now_ns);
    bytes += piece.bytes();
    ppc_io* last = out->empty() ? nullptr : &out->ios().back();
    const uint64_t cookie = CookieOf(piece_flags, 0);
    if (last != nullptr && last->cookie == cookie && last->file == file.number &&
        last->offset + last->size == piece.offset()) {
      last->size += piece.bytes();
      continue;
    }
    ppc_io& io = out->Add(file.number, piece.offset(), piece.bytes());
    io.flags = piece_flags;
    io.cookie = cookie;
  }
  stats_.released += bytes;
  if (bytes == 0) return;
  drops_.push_back({now_ns, bytes});
  dropping_ += bytes;
}

// The oldest ones: they are executed in the order in which they were asked for, nearly.
void Evictor::Dropped(uint64_t bytes) {
  while (bytes > 0 && !drops_.empty()) {
    const uint64_t part = std::min(bytes, drops_.front().bytes);
    bytes -= part;
    dropping_ -= part;
    drops_.front().bytes -= part;
    if (drops_.front().bytes == 0) drops_.pop_front();
  }
}

void Evictor::Evict(const ppc_memory& memory, uint64_t now_ns, bool can_unmap, const Held& held,
                    ppc::IoList* out) {
  const uint32_t flags = can_unmap ? PPC_IO_UNMAP : 0;
  while (!drops_.empty() && now_ns > drops_.front().ns + kDropNs) Dropped(drops_.front().bytes);
  threshold_ = memory.threshold;
  const bool is_full = memory.withheld_pages == 0 && memory.room < kChunkBytes;
  // While loading stands still for want of room less is kept behind the readers: the device would
  // be idle until they have read the whole distance, which is longest when they begin.
  const bool is_waiting = is_full && memory.used < memory.threshold;
  const uint64_t distance = is_waiting ? distance_ / kTightShare : distance_;
  std::vector<uint32_t> released;
  for (uint32_t g = 0; g < layout_->groups().size(); g++) Burn(g, distance, now_ns, &released);
  // What two readers have read lies side by side: one call drops it.
  std::sort(released.begin(), released.end());
  retired_.insert(retired_.end(), released.begin(), released.end());

  // Several steps where loading stands still for want of room: on a busy machine a drop takes a
  // while to be made and known of, and readers do not wait.
  const uint64_t step = EvictStep(memory);
  uint64_t wanted = memory.used > memory.threshold ? memory.used - memory.threshold : 0;
  if (is_full && (is_contended_ || planner_->HasMore())) wanted += kRetiredSteps * step;
  ReleaseRetired(wanted, flags, now_ns, held, out);
  AddRetries(now_ns, held, out);
  ReleaseFurthest(wanted, NextUseOrder::kNever, flags, now_ns, held, out);

  // While room is withheld nothing is loaded and what has been read goes; what is needed soon
  // stays. A little above the threshold is no reason: what the readers load by themselves is needed
  // now, and what they have read but not burnt yet makes up for it.
  const uint64_t tolerated =
      memory.threshold + memory.withheld_pages * kPage + std::min(step, Unburnt());
  const uint64_t over = memory.used > tolerated ? memory.used - tolerated : 0;
  ReleaseFurthest(over, distance_, flags, now_ns, held, out);
  const uint64_t swap = step / kSwapShare;
  const uint64_t urgent = is_full ? planner_->NearestAbsent(swap) : swap;
  if (urgent < swap)
    ReleaseFurthest(swap, std::max(distance_, urgent + step), flags, now_ns, held, out);
}

void Evictor::ReleaseRetired(uint64_t wanted, uint32_t flags, uint64_t now_ns, const Held& held,
                             ppc::IoList* out) {
  std::vector<uint32_t> released;
  uint64_t sum = dropping_;
  for (; sum < wanted && !retired_.empty(); retired_.pop_front()) {
    const Piece& piece = layout_->pieces()[retired_.front()];
    if (piece.pending != 0 || (piece.flags & kKeep) != 0) continue;  // a reader may be back
    released.push_back(retired_.front());
    sum += piece.bytes();
  }
  Release(released, flags, now_ns, held, out);
}

// Drops that are under way count towards `wanted`.
void Evictor::ReleaseFurthest(uint64_t wanted, uint64_t nearest, uint32_t flags, uint64_t now_ns,
                              const Held& held, ppc::IoList* out) {
  if (dropping_ >= wanted) return;
  std::vector<uint32_t> pieces;
  (void)order_.Furthest(wanted - dropping_, nearest, distance_, now_ns, &pieces);
  std::ranges::sort(pieces);
  const uint64_t before = stats_.released;
  Release(pieces, flags, now_ns, held, out);
  if (nearest != NextUseOrder::kNever) stats_.unneeded += stats_.released - before;
}

// Of one reader: what several have read is dropped once.
uint64_t Evictor::Unburnt() const {
  uint64_t most = 0;
  for (const Cursor& cursor : matcher_->cursors()) {
    if (cursor.passed_runs.empty() || cursor.passed_runs.front().stamp > cursor.consumed) continue;
    most = std::max(most, cursor.consumed - cursor.passed_runs.front().stamp);
  }
  return most;
}

void Evictor::AddRetries(uint64_t now_ns, const Held& held, ppc::IoList* out) {
  std::vector<Retry> later;
  for (Retry& retry : retries_) {
    if (retry.due_ns > now_ns) {
      later.push_back(retry);
      continue;
    }
    // Loaded or wanted again meanwhile: not ours to drop any more.
    auto [first, last] = layout_->PiecesOf(retry.file, retry.offset / kPage,
                                           (retry.offset + retry.bytes + kPage - 1) / kPage);
    const uint64_t number = layout_->files()[retry.file].number;
    bool wanted = held(number, retry.offset / kPage, (retry.bytes + kPage - 1) / kPage);
    bool may_unmap = retry.may_unmap;
    for (uint32_t p = first; p < last; p++) {
      wanted |= layout_->pieces()[p].pending != 0;
      may_unmap &= (layout_->pieces()[p].flags & kNoUnmap) == 0;
    }
    if (wanted) continue;
    stats_.retries++;
    ppc_io& io = out->Add(number, retry.offset, retry.bytes);
    io.flags = may_unmap ? PPC_IO_UNMAP : 0;
    io.cookie = CookieOf(io.flags, retry.attempts);
  }
  retries_.swap(later);
}

void Evictor::EvictAll(uint64_t now_ns, bool can_unmap, const Held& held, ppc::IoList* out) {
  const uint32_t flags = can_unmap ? PPC_IO_UNMAP : 0;
  const std::deque<uint32_t> left = std::exchange(retired_, {});
  std::vector<uint32_t> all(left.begin(), left.end());
  if (ending_ns_ == 0) {
    ending_ns_ = now_ns;
    all.clear();
    table_->ReleaseAllUses();
    for (uint32_t p = 0; p < layout_->pieces().size(); p++) {
      if ((layout_->pieces()[p].flags & kPreexisting) == 0) all.push_back(p);
    }
  }
  Release(all, flags, now_ns, held, out);
  AddRetries(now_ns, held, out);
}

bool Evictor::HasEnded(uint64_t now_ns) const {
  if (ending_ns_ == 0) return false;
  return now_ns > ending_ns_ + kEndNs ||
         (retired_.empty() && retries_.empty() && now_ns > ending_ns_ + kDropNs);
}

void Evictor::Done(const ppc_result& result, uint64_t now_ns) {
  stats_.dropped += result.ok;
  const uint64_t tag = result.cookie - cookie_;
  const bool may_unmap = (tag & kLeavesMappings) == 0;
  const auto attempts = static_cast<uint32_t>(tag & (kLeavesMappings - 1)) + 1;
  if (attempts == 1) Dropped(result.size);  // not a retry
  int32_t file = layout_->FileOf(result.file);
  uint64_t left = result.mapped + result.failed;
  if (file < 0 || left * 50 < result.size) return;
  // What its readers have not used yet is still there, and may be dropped another time.
  auto [first, last] = layout_->PiecesOf(static_cast<uint32_t>(file), result.offset / kPage,
                                         (result.offset + result.size + kPage - 1) / kPage);
  for (uint32_t p = first; p < last; p++) {
    const Piece& piece = layout_->pieces()[p];
    if (piece.pending != 0) table_->Touch(p);
  }
  if (attempts > kMaxAttempts) return;
  if (retries_.size() >= kMaxRetries) return;
  const uint64_t due = kFirstRetryNs << (attempts - 1);
  retries_.push_back(
      {static_cast<uint32_t>(file), result.offset, result.size, now_ns + due, attempts, may_unmap});
}

void Evictor::Refault(uint32_t index, uint64_t bytes, uint64_t now_ns) {
  table_->Return(index, now_ns);
  if (bytes == 0) return;
  table_->LeaveMapped(index);
  stats_.refaults += bytes;
  if (now_ns < widened_ns_ + kWidenNs) return;
  widened_ns_ = now_ns;
  // A distance of the order of the budget would keep everything.
  const uint64_t all = threshold_ / 2 / std::max<size_t>(layout_->groups().size(), 2);
  const uint64_t most = std::max(std::min(kMaxDistance, all), distance_);
  distance_ = std::min(distance_ * 2, most);
}

}  // namespace ppc::maio
