// SPDX-License-Identifier: Apache-2.0
//
// Events to positions, see matcher.h.  Called from the policy's one thread.
#include "policies/maio/follow/matcher.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "policies/maio/base/tuning.h"

namespace ppc::maio {
const char* SyncName(SyncState state) {
  switch (state) {
    case SyncState::kSync:
      return "SYNC";
    case SyncState::kDrift:
      return "DRIFT";
    default:
      return "LOST";
  }
}

Matcher::Matcher(PieceTable* table, uint64_t window_bytes, uint64_t beacon_bytes)
    : table_(table),
      layout_(&table->layout()),
      window_pages_(std::max<uint64_t>(window_bytes / kPage, 1)),
      beacon_pages_(std::max<uint64_t>(beacon_bytes / kPage, 1)),
      cursors_(layout_->groups().size()) {
  for (Cursor& cursor : cursors_) cursor.streams.resize(layout_->files().size());
}

uint64_t Matcher::out_of_order_bytes(uint32_t group) const {
  return std::clamp(layout_->groups()[group].bytes / 16, kOutOfOrderMin, kOutOfOrderMax);
}

MatchResult Matcher::Observe(const Observation& o) {
  MatchResult result;
  Cursor& cursor = cursors_[o.group];
  Stream& stream = cursor.streams[o.file];
  cursor.events++;
  cursor.last_ns = o.now_ns;
  if (cursor.dropped) {
    Restart(o.group);
    result.moved = true;
  }
  auto [first, last] = layout_->PiecesOf(o.file, o.first_page, o.end_page);
  const std::optional<uint32_t> next =
      first + 1 == last ? layout_->ListOf(o.group, o.file).NextUseOf(first, stream.front)
                        : std::nullopt;
  Arrival arrival = next ? Arrival{*next, *next, true} : Find(o, stream, first, last);
  if (first < last && (!arrival.found || layout_->joined())) {
    const GroupSet readers = layout_->ReadersOf(first, last, o.first_page, o.end_page);
    // What others read of a joined piece is theirs.
    if (arrival.found && !readers.Has(o.group)) arrival.found = false;
    if (!arrival.found) result.foreign = static_cast<int32_t>(readers.First());
  }
  if (!arrival.found) {
    if (result.foreign < 0) Note(&cursor, false);
    if (result.foreign >= 0) foreign_++;
    return result;
  }
  Note(&cursor, true);
  result.known = true;
  if (!stream.active) {
    stream.active = true;
    cursor.active.push_back(o.file);
  }
  stream.last_event = cursor.events;
  if (arrival.last < stream.front) {
    result.moved |= DetectRewind(o, &stream, arrival);
    if (!result.moved) return result;
  } else if (!Near(o.group, o.file, stream.front, arrival.first)) {
    if (!AcceptJump(o, &stream, arrival)) return result;
    result.moved = true;
  }
  Advance(o, &stream, arrival);
  result.moved |= MoveCursor(o, &stream);
  if (cursor.active.size() > 1) Settle(o.group);
  UpdateRate(&cursor, o.now_ns);
  return result;
}

// The uses of this group in the range; of several appearances the one nearest to the front.
Matcher::Arrival Matcher::Find(const Observation& o, const Stream& stream, uint32_t first,
                               uint32_t last) const {
  Arrival arrival;
  uint64_t best = ~0ull;
  for (uint32_t p = first; p < last; p++) {
    layout_->ListOf(o.group, o.file).ForEach(p, [&](uint32_t index) {
      uint64_t distance = index >= stream.front ? index - stream.front
                                                : uint64_t{stream.front - index} * kBackwardWeight;
      if (arrival.found && index > arrival.last && index - arrival.last <= p - first + 1 &&
          index <= arrival.first + (last - first)) {
        arrival.last = index;
      } else if (!arrival.found || (distance < best && p == first)) {
        best = distance;
        arrival = {index, index, true};
      }
      return true;
    });
  }
  return arrival;
}

bool Matcher::Near(uint32_t group, uint32_t file, uint32_t from, uint32_t to) const {
  if (to <= from + 1) return true;  // no piece is larger than the least limit
  uint64_t limit = out_of_order_bytes(group);
  uint64_t sum = 0;
  for (uint32_t i = from; i < to; i++) {
    sum += layout_->pieces()[layout_->UseAt(group, file, i).piece].bytes();
    if (sum > limit) return false;
  }
  return true;
}

bool Matcher::AcceptJump(const Observation& o, Stream* stream, const Arrival& a) {
  bool confirms = stream->jump_hits > 0 && a.first >= stream->target &&
                  Near(o.group, o.file, stream->target, a.first);
  stream->jump_hits = confirms ? stream->jump_hits + 1 : 1;
  stream->target = a.first;
  if (stream->jump_hits < kJumpHits && !(o.miss && o.idle_loader)) return false;
  // What lies between is skipped, not read: it stays unpassed.
  if (a.first > stream->front) stream->skipped += a.first - stream->front;
  stream->pass = a.first;
  stream->front = a.first;
  stream->jump_hits = 0;
  jumps_++;
  return true;
}

// Behind the front.  Mostly a second look at what is there; misses that go on
// one after the other say that the reader makes another pass.
bool Matcher::DetectRewind(const Observation& o, Stream* stream, const Arrival& a) {
  if (!o.miss || a.last + 2 >= stream->front) return false;
  if (stream->rewinds > 0 && a.first == stream->target) return false;  // the piece's next window
  stream->rewinds = a.first >= stream->target ? stream->rewinds + 1 : 1;
  stream->target = a.first;
  if (stream->rewinds < kRewindMisses) return false;
  stream->rewinds = 0;
  const UseList& list = layout_->ListOf(o.group, o.file);
  for (uint32_t i = a.first; i < list.size(); i++) table_->Unpass(o.group, o.file, i);
  auto& passed_runs = cursors_[o.group].passed_runs;
  for (PassedRun& passed : passed_runs) {
    if (passed.file != o.file || passed.index + passed.count <= a.first) continue;
    passed.count = std::max(passed.index, a.first) - passed.index;
  }
  std::erase_if(passed_runs, [](const PassedRun& passed) { return passed.count == 0; });
  if (!passed_runs.empty()) passed_runs.back().closed = true;
  stream->front = stream->pass = a.first;
  stream->skipped = 0;
  jumps_++;
  return true;
}

void Matcher::Advance(const Observation& o, Stream* stream, const Arrival& a) {
  const Use use = layout_->UseAt(o.group, o.file, a.last);
  const Piece& piece = layout_->pieces()[use.piece];
  bool finished = o.end_page >= piece.end_page();
  stream->started = true;
  stream->open_id = o.open_id;
  stream->jump_hits = 0;
  if (a.last + (finished ? 1 : 0) >= stream->front) {
    stream->front = a.last + (finished ? 1 : 0);
    stream->front_page = o.end_page;
  }
  if (o.miss) {
    stream->demand_first = o.first_page / window_pages_ * window_pages_;
    stream->demand_page = (o.end_page + window_pages_ - 1) / window_pages_ * window_pages_;
  }
  uint64_t inside = std::min(o.end_page, piece.end_page()) - piece.page;
  stream->pos = use.pos + inside * kPage;
  if (!o.user) return;
  stream->user = true;
  // A read is told before it happens: what it covers is not read yet.
  // More than lies between two beacons: a part of it the reader has left out for now.  All of it
  // is burnt as if it were read from here on.
  uint64_t skipped = 0;
  // Of two pieces that is never so: no need to look at them.
  for (uint32_t i = stream->pass; stream->pass + 2 < a.first && i < a.first; i++)
    skipped += layout_->pieces()[layout_->UseAt(o.group, o.file, i).piece].bytes();
  if (skipped <= 2 * std::max(beacon_pages_, layout_->piece_pages()) * kPage) skipped = 0;
  auto& passed_runs = cursors_[o.group].passed_runs;
  if (skipped != 0 && !passed_runs.empty()) passed_runs.back().closed = true;
  for (; stream->pass < a.first; stream->pass++) Pass(o.group, o.file, stream->pass, skipped);
  if (skipped != 0 && !passed_runs.empty()) passed_runs.back().closed = true;
}

// The group's position follows the stream that moves; a far one only after it
// has moved alone for a while.  That is a jump once for each stream: threads
// that read side by side take the lead from each other all the time.
bool Matcher::MoveCursor(const Observation& o, Stream* stream) {
  Cursor& cursor = cursors_[o.group];
  uint64_t distance =
      stream->pos > cursor.pos ? stream->pos - cursor.pos : cursor.pos - stream->pos;
  if (distance <= out_of_order_bytes(o.group)) {
    cursor.pos = std::max(cursor.pos, stream->pos);
    cursor.far_run = 0;
    stream->was_leader = true;
    return false;
  }
  cursor.far_run = cursor.far_run > 0 && cursor.far_file == o.file ? cursor.far_run + 1 : 1;
  cursor.far_file = o.file;
  if (cursor.far_run < kJumpHits && !(o.miss && o.idle_loader)) return false;
  cursor.pos = stream->pos;
  cursor.far_run = 0;
  if (std::exchange(stream->was_leader, true)) return false;
  jumps_++;
  return true;
}

void Matcher::Pass(uint32_t group, uint32_t file, uint32_t index, uint64_t later) {
  const uint64_t bytes = table_->Pass(group, file, index);
  if (bytes == 0) return;
  Cursor& cursor = cursors_[group];
  cursor.consumed += bytes;
  PassedRun* last = cursor.passed_runs.empty() ? nullptr : &cursor.passed_runs.back();
  const bool follows =
      last != nullptr && !last->closed && last->file == file && last->index + last->count == index;
  if (!follows)
    last =
        &cursor.passed_runs.emplace_back(PassedRun{cursor.consumed + later, file, index, 0, false});
  last->count++;
}

void Matcher::LoseAll() {
  for (Cursor& cursor : cursors_) {
    cursor.history = 0;
    cursor.known_events = 0;
    cursor.state = SyncState::kLost;
  }
}

// A look at the header by an open file of its own, while the data is read by another, ends nothing.
void Matcher::Close(uint32_t group, uint32_t file, uint32_t open_id) {
  const Stream& stream = cursors_[group].streams[file];
  if (stream.started && stream.open_id == open_id) Finish(group, file, true);
}

// Read from the cache without an event: no beacon lies in it.
bool Matcher::HasNoBeacon(uint32_t piece) const {
  const Piece& p = layout_->pieces()[piece];
  return (p.page + beacon_pages_ - 1) / beacon_pages_ * beacon_pages_ >= p.end_page();
}

// The reader has left the file: beacons are sparse, so the last of them may lie
// before the end of what it read.  In a file that is closed nothing is still to come: it may
// have read all pieces up to one that would have told.
void Matcher::Finish(uint32_t group, uint32_t file, bool closed) {
  Cursor& cursor = cursors_[group];
  Stream& stream = cursor.streams[file];
  const UseList& list = layout_->ListOf(group, file);
  if (!stream.user || stream.pass >= list.size()) return;
  uint64_t tail = 0;
  uint32_t end = stream.pass;
  const uint64_t limit = tail_bytes();
  while (end < list.size() && tail <= limit) {
    tail += layout_->pieces()[layout_->UseAt(group, file, end).piece].bytes();
    end++;
  }
  if (tail > limit) {
    end = stream.pass + 1;
    while (closed && end < list.size() && HasNoBeacon(layout_->UseAt(group, file, end).piece)) {
      end++;
    }
  }
  for (; stream.pass < end; stream.pass++) Pass(group, file, stream.pass);
  stream.front = std::max(stream.front, stream.pass);
  const Use last = layout_->UseAt(group, file, stream.pass - 1);
  stream.pos = std::max(stream.pos, last.pos + layout_->pieces()[last.piece].bytes());
  if (stream.pos > cursor.pos && stream.pos - cursor.pos <= limit) cursor.pos = stream.pos;
}

void Matcher::Rest(uint32_t group) {
  for (uint32_t file : cursors_[group].active) Finish(group, file, false);
}

void Matcher::Settle(uint32_t group) {
  Cursor& cursor = cursors_[group];
  for (size_t i = 0; i < cursor.active.size();) {
    Stream& stream = cursor.streams[cursor.active[i]];
    if (stream.last_event + kSettleEvents >= cursor.events) {
      i++;
      continue;
    }
    Finish(group, cursor.active[i], false);
    stream.active = stream.was_leader = false;
    cursor.active[i] = cursor.active.back();
    cursor.active.pop_back();
  }
}

bool Matcher::HasRead(uint32_t group, uint32_t file, uint64_t first_page, uint64_t end_page) const {
  auto [first, last] = layout_->PiecesOf(file, first_page, end_page);
  for (uint32_t p = first; p < last; p++) {
    bool read = false;
    layout_->ListOf(group, file).ForEach(p, [&](uint32_t index) {
      read = layout_->UseAt(group, file, index).state != UseState::kPending;
      return !read;
    });
    if (read) return true;
  }
  return false;
}

void Matcher::Restart(uint32_t group) {
  Cursor& cursor = cursors_[group];
  for (uint32_t f = 0; f < layout_->files().size(); f++) {
    for (uint32_t i = 0; i < layout_->ListOf(group, f).size(); i++) table_->Renew(group, f, i);
  }
  uint64_t events = cursor.events;
  uint64_t now = cursor.last_ns;
  // Observe() holds a reference to a stream: they stay where they are.
  std::vector<Stream> streams = std::move(cursor.streams);
  std::fill(streams.begin(), streams.end(), Stream());
  cursor = Cursor();
  cursor.streams = std::move(streams);
  cursor.events = events;
  cursor.last_ns = now;
}

void Matcher::Drop(uint32_t group) {
  Cursor& cursor = cursors_[group];
  cursor.dropped = true;
  cursor.passed_runs.clear();
  for (uint32_t f = 0; f < layout_->files().size(); f++) {
    for (uint32_t i = 0; i < layout_->ListOf(group, f).size(); i++) table_->Burn(group, f, i);
  }
}

// Share of known events among the last 64 decides how far the template is trusted.
void Matcher::Note(Cursor* cursor, bool known) {
  (known ? matched_ : unknown_)++;
  cursor->known_events += (known ? 1 : 0) - static_cast<int>(cursor->history >> 63);
  cursor->history = cursor->history << 1 | (known ? 1 : 0);
  cursor->state = cursor->known_events >= 58   ? SyncState::kSync
                  : cursor->known_events >= 32 ? SyncState::kDrift
                                               : SyncState::kLost;
}

void Matcher::UpdateRate(Cursor* cursor, uint64_t now_ns) {
  constexpr uint64_t kRateNs = 50'000'000;
  if (cursor->rate_ns == 0) {
    cursor->rate_ns = now_ns;
    cursor->rate_consumed = cursor->consumed;
    return;
  }
  if (now_ns < cursor->rate_ns + kRateNs) return;
  double rate = static_cast<double>(cursor->consumed - cursor->rate_consumed) /
                static_cast<double>(now_ns - cursor->rate_ns);
  cursor->rate = cursor->rate == 0 ? rate : 0.7 * cursor->rate + 0.3 * rate;
  cursor->rate_ns = now_ns;
  cursor->rate_consumed = cursor->consumed;
}

bool Matcher::IsNearEnd(uint32_t group, uint32_t file, uint32_t index) const {
  const UseList& list = layout_->ListOf(group, file);
  uint64_t left = 0;
  for (uint32_t i = index; i < list.size() && left <= tail_bytes(); i++)
    left += layout_->pieces()[list.PieceOf(i)].bytes();
  return left <= tail_bytes();
}

// A look at a file's last pages is a jump there: a reader that has left out most of what is listed
// is not at the end of it.
bool Matcher::IsAtEnd(uint32_t group) const {
  uint64_t uses = 0;
  uint64_t skipped = 0;
  for (uint32_t file = 0; file < layout_->files().size(); file++) {
    const UseList& list = layout_->ListOf(group, file);
    if (list.size() == 0 || layout_->files()[file].kind == FileKind::kSmall) continue;
    const Stream& stream = cursors_[group].streams[file];
    if (!stream.started && stream.pass == 0) return false;
    if (!IsNearEnd(group, file, std::max(stream.front, stream.pass))) return false;
    uses += list.size();
    skipped += stream.skipped;
  }
  return uses != 0 && skipped * 2 <= uses;
}

}  // namespace ppc::maio
