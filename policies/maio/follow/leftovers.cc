// SPDX-License-Identifier: Apache-2.0
//
// Wrong-node leftovers, see leftovers.h.  Called from the policy's one thread.
#include "policies/maio/follow/leftovers.h"

#include <algorithm>

#include "policies/maio/base/tuning.h"

namespace ppc::maio {
Leftovers::Leftovers(const ppc_context* context, PieceTable* table, Matcher* matcher,
                     Planner* planner, const Affinity* affinity, uint32_t ahead_s,
                     uint64_t first_cookie)
    : context_(context),
      table_(table),
      layout_(&table->layout()),
      matcher_(matcher),
      planner_(planner),
      affinity_(affinity),
      ahead_s_(ahead_s),
      first_cookie_(first_cookie),
      next_cookie_(first_cookie),
      known_(layout_->pieces().size()) {}

void Leftovers::Found(const ppc_result& load) {
  int32_t file = layout_->FileOf(load.file);
  if (file < 0 || load.resident == 0) return;
  auto [first, last] = layout_->PiecesOf(static_cast<uint32_t>(file), load.offset / kPage,
                                         (load.offset + load.size + kPage - 1) / kPage);
  for (uint32_t p = first; p < last; p++) {
    if (known_[p]) continue;
    known_[p] = true;
    suspects_.push_back(p);
  }
}

// The rate of the fastest reader, bytes per ns; 0 while nobody has read enough.
double Leftovers::FastestRate() const {
  double best = 0;
  for (const Cursor& cursor : matcher_->cursors()) {
    if (cursor.consumed >= kKnownRateBytes) best = std::max(best, cursor.rate);
  }
  return best;
}

// A reader whose own rate is not known yet may be as fast as the fastest.
bool Leftovers::IsFarAhead(uint32_t index, double rate) const {
  const double least = rate * ahead_s_ * 1e9;
  const uint32_t file = layout_->pieces()[index].file;
  bool far = true;
  layout_->ForEachUse(index, [&](uint32_t group, uint32_t at) {
    const Use use = layout_->UseAt(group, file, at);
    const Cursor& cursor = matcher_->cursors()[group];
    far &= use.state == UseState::kPending && use.pos >= cursor.pos &&
           static_cast<double>(use.pos - cursor.pos) >= least;
  });
  return far;
}

Leftovers::Verdict Leftovers::Judge(uint32_t index, const Evictor::Held& held) {
  const Piece& piece = layout_->pieces()[index];
  const LayoutFile& file = layout_->files()[piece.file];
  // Still asked for: the rest of it is on its way.
  if (piece.state == PieceState::kQueued) return Verdict::kLater;
  if (piece.state != PieceState::kResident || (piece.flags & (kKeep | kConsumed)) != 0) {
    return Verdict::kStays;
  }
  const int32_t node = affinity_->NodeOfXpu(affinity_->Target(piece.groups, piece.offset()));
  const bool is_one = layout_->PartsOf(index) == 1 && affinity_->Uniform(piece);
  if (node < 0 || node >= 64 || !is_one) return Verdict::kStays;
  if (!IsFarAhead(index, FastestRate()) || held(file.number, piece.page, piece.pages)) {
    return Verdict::kStays;
  }
  ppc_residency there = {};
  const uint64_t bytes = std::min(piece.bytes(), file.bytes - piece.offset());
  if (context_->resident(context_, file.number, piece.offset(), bytes, &there, nullptr, 0) != 0) {
    return Verdict::kStays;
  }
  const uint64_t wrong = there.resident - std::min(there.resident, there.node[node]);
  stats_.found += wrong;
  return wrong * 2 > there.resident && there.mapped == 0 ? Verdict::kGoes : Verdict::kStays;
}

void Leftovers::Evict(uint64_t now_ns, const Evictor::Held& held, ppc::IoList* out) {
  if (!planner_->finished() || FastestRate() == 0) return;
  uint64_t looks = std::min<uint64_t>(suspects_.size(), kLooksPerCall);
  for (; looks > 0 && dropping_bytes_ + planner_->queued_bytes() < kMostUnderWay; looks--) {
    const uint32_t index = suspects_.front();
    suspects_.pop_front();
    const Verdict verdict = Judge(index, held);
    if (verdict == Verdict::kLater) suspects_.push_back(index);
    if (verdict != Verdict::kGoes) continue;
    const Piece& piece = layout_->pieces()[index];
    // Nobody plans it before it is gone.
    table_->Queue(index);
    ppc_io& io = out->Add(layout_->files()[piece.file].number, piece.offset(), piece.bytes());
    io.cookie = next_cookie_;
    dropping_[next_cookie_++] = {index, now_ns};
    dropping_bytes_ += piece.bytes();
  }
}

bool Leftovers::Done(const ppc_result& eviction) {
  if (eviction.cookie < first_cookie_) return false;
  auto it = dropping_.find(eviction.cookie);
  if (it == dropping_.end()) return true;  // given up meanwhile
  const uint32_t index = it->second.piece;
  dropping_.erase(it);
  dropping_bytes_ -= layout_->pieces()[index].bytes();
  stats_.dropped += eviction.ok;
  if (layout_->pieces()[index].state != PieceState::kQueued) return true;
  if (eviction.ok > 0) {
    table_->Lose(index);
  } else {
    table_->Find(index);
  }
  return true;
}

void Leftovers::Expire(uint64_t now_ns) {
  while (!dropping_.empty() && now_ns > dropping_.begin()->second.ns + kExpiryNs) {
    ppc_result nothing = {};
    nothing.cookie = dropping_.begin()->first;
    Done(nothing);
  }
}

}  // namespace ppc::maio
