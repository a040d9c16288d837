// SPDX-License-Identifier: Apache-2.0
//
// Deadline order, chunks and their results, see planner.h.
#include "policies/maio/follow/planner.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include "policies/maio/base/tuning.h"

namespace ppc::maio {
namespace {

constexpr double kLatestNs = 3'600e9;  // later is all the same

}  // namespace

Planner::Planner(PieceTable* table, Matcher* matcher, const Affinity* affinity, uint32_t service,
                 uint64_t cookie_base)
    : table_(table),
      layout_(&table->layout()),
      matcher_(matcher),
      affinity_(affinity),
      service_(service),
      next_cookie_(cookie_base),
      next_(layout_->groups().size(), std::vector<uint32_t>(layout_->files().size(), 0)),
      horizon_(layout_->groups().size(), 0),
      group_queued_(layout_->groups().size(), 0),
      errors_(layout_->files().size(), 0) {
  table_->OnAbsent([this](uint32_t piece) { Reopen(piece); });
}

bool Planner::Plannable(const Piece& piece) const {
  return piece.state == PieceState::kAbsent || piece.state == PieceState::kTouched;
}

// First piece of the list at or after the reader's that is worth loading.
bool Planner::Next(uint32_t group, uint32_t file, uint32_t* index) {
  const Stream& stream = matcher_->cursors()[group].streams[file];
  const UseList& list = layout_->ListOf(group, file);
  uint32_t& at = next_[group][file];
  at = std::max(at, stream.front);
  while (at < list.size()) {
    const Use use = list.At(layout_->pieces(), at);
    const Piece& piece = layout_->pieces()[use.piece];
    bool demanded = piece.page >= stream.demand_first && piece.end_page() <= stream.demand_page;
    if (Plannable(piece) && !IsGivenUp(use.piece) && !demanded && use.state == UseState::kPending) {
      *index = at;
      return true;
    }
    at++;
  }
  return false;
}

// How far ahead of the reader a position of a stream is.  A stream that runs
// ahead of or behind the recorded order is measured against itself; what the
// reader has left out comes last.
uint64_t Planner::Ahead(const Cursor& cursor, uint32_t group, uint32_t file, uint64_t pos) const {
  const Stream& stream = cursor.streams[file];
  uint64_t base = stream.active ? std::min(stream.pos, pos) : cursor.pos;
  if (pos >= base) return pos - base;
  return pos + layout_->groups()[group].bytes;
}

// The rate of the fastest reader.
double Planner::FastestRate() const {
  double best = 0;
  for (const Cursor& cursor : matcher_->cursors()) best = std::max(best, cursor.rate);
  return best > 0 ? best : 1.0;
}

// Nobody's rate is known: it may be needed at once.
uint64_t Planner::DeadlineOf(const Candidate& c, uint64_t now_ns) const {
  const bool is_known = std::ranges::any_of(matcher_->cursors(), [](const Cursor& cursor) {
    return cursor.consumed >= kKnownRateBytes && cursor.rate > 0;
  });
  if (!tells_deadlines_ || !is_known) return 0;
  return now_ns + static_cast<uint64_t>(std::min(c.deadline, kLatestNs));
}

bool Planner::IsFollowed(const Cursor& cursor) {
  return cursor.state != SyncState::kLost && !cursor.dropped && !cursor.waits;
}

Planner::Candidate Planner::Best() {
  Candidate best;
  if (exhausted_) return best;
  bool skipped = false;  // what may be wanted without any list being opened again
  double fastest = FastestRate();
  best.deadline = std::numeric_limits<double>::max();
  for (uint32_t g = 0; g < next_.size(); g++) {
    const Cursor& cursor = matcher_->cursors()[g];
    if (!IsFollowed(cursor)) {
      skipped = true;
      continue;
    }
    // Who has read next to nothing yet (a header, during initialisation) may turn out to be as
    // fast as any: all such advance alike.
    double rate = cursor.consumed < kKnownRateBytes ? fastest : std::max(cursor.rate, fastest / 10);
    for (uint32_t f = 0; f < next_[g].size(); f++) {
      uint32_t index;
      if (errors_[f] >= kMaxFileErrors || !Next(g, f, &index)) continue;
      uint64_t ahead = Ahead(cursor, g, f, layout_->UseAt(g, f, index).pos);
      if (cursor.state == SyncState::kDrift && ahead > kDriftAheadBytes) {
        skipped = true;
        continue;
      }
      double deadline = static_cast<double>(ahead) / rate;
      if (deadline < best.deadline) best = {g, f, index, ahead, deadline, true};
    }
  }
  exhausted_ = !best.found && !skipped;
  return best;
}

// A piece that a reader has touched is there in part, and often as a whole.
uint64_t Planner::NearestAbsent(uint64_t within) {
  uint64_t nearest = within;
  for (uint32_t g = 0; g < next_.size(); g++) {
    const Cursor& cursor = matcher_->cursors()[g];
    if (!IsFollowed(cursor)) continue;
    for (uint32_t f = 0; f < next_[g].size(); f++) {
      uint32_t index;
      if (errors_[f] >= kMaxFileErrors || !Next(g, f, &index)) continue;
      const UseList& list = layout_->ListOf(g, f);
      for (; index < list.size(); index++) {
        const Use use = list.At(layout_->pieces(), index);
        const uint64_t ahead = Ahead(cursor, g, f, use.pos);
        if (ahead >= nearest) break;
        const bool is_absent = layout_->pieces()[use.piece].state == PieceState::kAbsent;
        if (!is_absent || use.state != UseState::kPending || IsGivenUp(use.piece)) continue;
        nearest = ahead;
        break;
      }
    }
  }
  return nearest;
}

std::optional<uint64_t> Planner::ReadyAhead(uint32_t group) const {
  const Cursor& cursor = matcher_->cursors()[group];
  std::optional<uint64_t> nearest;
  for (uint32_t f = 0; f < layout_->files().size(); f++) {
    const UseList& list = layout_->ListOf(group, f);
    for (uint32_t i = cursor.streams[f].front; i < list.size(); i++) {
      const Use use = list.At(layout_->pieces(), i);
      if (use.state != UseState::kPending) continue;
      if (layout_->pieces()[use.piece].state == PieceState::kResident) continue;
      const uint64_t ahead = Ahead(cursor, group, f, use.pos);
      nearest = std::min(nearest.value_or(ahead), ahead);
      break;
    }
  }
  return nearest;
}

// The reader's own demand window is loading the part where it stands: start behind that.
uint64_t Planner::StartOffset(const Candidate& c, const Piece& piece) const {
  // What lies before the reader is others' there.
  if (layout_->joined()) return piece.offset();
  const Stream& stream = matcher_->cursors()[c.group].streams[c.file];
  uint64_t page = piece.page;
  if (c.index == stream.front && stream.front_page > page && stream.front_page < piece.end_page()) {
    page = stream.front_page;
  }
  bool inside = page >= stream.demand_first && page < stream.demand_page;
  if (inside && stream.demand_page < piece.end_page()) page = stream.demand_page;
  return page * kPage;
}

// The XPU of the first piece that is more than a small read, on from the candidate.
int32_t Planner::TargetOfRun(const Candidate& c) const {
  const UseList& list = layout_->ListOf(c.group, c.file);
  const auto& pieces = layout_->pieces();
  const Piece& head = pieces[list.At(pieces, c.index).piece];
  uint32_t p = list.At(pieces, c.index).piece;
  for (uint32_t i = c.index; i < list.size(); i++, p++) {
    if (list.At(pieces, i).piece != p) break;
    if (i > c.index && pieces[p].page != pieces[p - 1].end_page()) break;
    if (pieces[p].bytes() > kTinyBytes)
      return affinity_->Target(layout_->GroupsOf(pieces[p]), pieces[p].offset());
  }
  return affinity_->Target(layout_->GroupsOf(head), head.offset());
}

// One range for the next bytes of a chunk; joins it to the last when it may.
void Planner::AddIo(const Chunk& chunk, uint64_t start, uint64_t end, int32_t xpu,
                    ppc::IoList* out) {
  if (start > chunk.offset) {
    ppc_io& last = out->ios().back();
    if (last.xpu == xpu || end - start <= kTinyBytes || last.size <= kTinyBytes) {
      if (last.size <= kTinyBytes) last.xpu = xpu;
      last.size += end - start;
      return;
    }
  }
  ppc_io& io =
      out->Add(layout_->files()[layout_->pieces()[chunk.first].file].number, start, end - start);
  io.xpu = xpu;
  io.group = chunk.group;
  io.flags = io_flags_;
  io.service = service_;
  io.cookie = next_cookie_;
  if (chunk.deadline_ns != 0) out->Due(chunk.deadline_ns);
}

// A joined piece is placed part by part, all with the chunk's cookie.
void Planner::AddIos(const Chunk& chunk, int32_t xpu, ppc::IoList* out) {
  const uint64_t end = chunk.offset + chunk.bytes;
  if (!layout_->joined()) return AddIo(chunk, chunk.offset, end, xpu, out);
  const auto add = [&](uint64_t first_page, uint64_t end_page, const GroupSet& groups) {
    const uint64_t from = std::max(first_page * kPage, chunk.offset);
    const uint64_t to = std::min(end_page * kPage, end);
    if (from < to) AddIo(chunk, from, to, affinity_->Target(groups, from), out);
  };
  layout_->ForEachPart(chunk.first, add);
}

// Where a group uses a piece next, if that is not beyond `reach` of its sequence.
std::optional<uint64_t> Planner::PosWithin(const UseList& list, uint32_t piece, uint32_t from,
                                           uint64_t reach) const {
  std::optional<uint64_t> nearest;
  list.ForEach(piece, [&](uint32_t index) {
    if (index < from) return true;
    const Use use = list.At(layout_->pieces(), index);
    if (use.state == UseState::kPending && use.pos <= reach && (!nearest || use.pos < *nearest))
      nearest = use.pos;
    return true;
  });
  return nearest;
}

// Joins neighbouring pieces to one chunk; returns the bytes it will take.  Neighbours need not
// follow one another in the sequence: several processes that are one worker read the file at
// several places, and a request for each of their steps would leave a far store idle.  What is
// joined is needed at most twice as late as the first.
uint64_t Planner::Emit(const Candidate& c, uint64_t max_bytes, uint64_t now_ns, ppc::IoList* out) {
  const UseList& list = layout_->ListOf(c.group, c.file);
  const LayoutFile& file = layout_->files()[c.file];
  const Use use_of_head = list.At(layout_->pieces(), c.index);
  uint32_t first = use_of_head.piece;
  const Piece& head = layout_->pieces()[first];
  uint64_t start = StartOffset(c, head);
  bool started = matcher_->cursors()[c.group].pos > 0;
  uint64_t limit =
      std::min(max_bytes, started && c.ahead < kNearBytes ? kNearChunkBytes : kChunkBytes);
  int32_t xpu = layout_->joined() ? PPC_NO_XPU : TargetOfRun(c);
  uint64_t end = head.end_page() * kPage;
  if (end - start > max_bytes) return 0;
  uint32_t count = 1;
  const uint64_t reach = use_of_head.pos + std::max(c.ahead, limit);
  for (uint32_t p = first + 1; p < file.last_piece && !layout_->joined(); p++, count++) {
    const Piece& piece = layout_->pieces()[p];
    if (piece.offset() != end || piece.state != PieceState::kAbsent || IsGivenUp(p) ||
        piece.end_page() * kPage - start > limit ||
        (piece.bytes() > kTinyBytes &&
         affinity_->Target(layout_->GroupsOf(piece), piece.offset()) != xpu)) {
      break;
    }
    const std::optional<uint64_t> pos = PosWithin(list, p, c.index, reach);
    if (!pos) break;
    end += piece.bytes();
    horizon_[c.group] = std::max(horizon_[c.group], *pos + piece.bytes());
  }
  horizon_[c.group] = std::max(horizon_[c.group], use_of_head.pos + head.bytes());
  Chunk chunk = {.group = c.group,
                 .first = first,
                 .count = count,
                 .offset = start,
                 .bytes = std::min(end, file.bytes) - start,
                 .ns = now_ns,
                 .deadline_ns = DeadlineOf(c, now_ns),
                 .good = {},
                 .bad = {}};
  for (uint32_t p = first; p < first + count; p++) table_->Queue(p);
  AddIos(chunk, xpu, out);
  chunks_[next_cookie_++] = chunk;
  queued_ += chunk.bytes;
  group_queued_[c.group] += chunk.bytes;
  stats_.asked += chunk.bytes;
  return end - start;
}

void Planner::Plan(uint64_t max_bytes, const ppc_memory& memory, uint64_t now_ns,
                   ppc::IoList* out) {
  // The runtime's room knows what it has taken over; what it has not, it cannot know.
  uint64_t unseen = queued_ > memory.inflight ? queued_ - memory.inflight : 0;
  uint64_t room = memory.room > unseen ? memory.room - unseen : 0;
  uint64_t other = memory.used > memory.cache ? memory.used - memory.cache : 0;
  uint64_t mine = std::min(table_->resident_bytes(), memory.cache) + queued_;
  uint64_t cap = memory.threshold > other + mine ? memory.threshold - other - mine : 0;
  uint64_t left = std::min({max_bytes, room, cap});
  if (now_ns < refused_until_ns_) return;
  while (left > 0) {
    Candidate c = Best();
    finished_ = !c.found;
    if (!c.found) return;
    uint64_t taken = Emit(c, left, now_ns, out);
    if (taken == 0) return;
    left -= std::min(left, taken);
  }
}

}  // namespace ppc::maio
