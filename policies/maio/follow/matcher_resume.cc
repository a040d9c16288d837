// SPDX-License-Identifier: Apache-2.0
//
// Going on where another left off, see progress.h.  The readers went on meanwhile, and nobody told.
#include <algorithm>
#include <utility>

#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/matcher.h"

namespace ppc::maio {
GroupProgress Matcher::Save(uint32_t group) const {
  const Cursor& cursor = cursors_[group];
  GroupProgress out;
  out.pos = cursor.pos;
  out.consumed = cursor.consumed;
  out.last_ns = cursor.last_ns;
  out.rate = cursor.rate;
  out.is_dropped = cursor.dropped;
  for (const Passed& passed : cursor.fifo) {
    if (passed.count == 0) continue;
    UseRun* const last = out.passed.empty() ? nullptr : &out.passed.back().run;
    if (last != nullptr && last->file == passed.file && last->index + last->count == passed.index) {
      last->count += passed.count;
    } else {
      out.passed.push_back({{passed.file, passed.index, passed.count}, passed.stamp});
    }
  }
  for (uint32_t file = 0; file < cursor.streams.size(); file++) {
    const Stream& stream = cursor.streams[file];
    if (stream.started) {
      out.streams.push_back({file, stream.front, stream.pass, stream.open_id, stream.front_page,
                             stream.pos, stream.user, stream.active});
    } else if (stream.pass == 0) {
      continue;  // nothing of it is read
    }
    layout_->ListOf(group, file)
        .ForEachStretch(UseState::kBurnt, [&](uint32_t index, uint32_t count) {
          out.burnt.push_back({file, index, count});
        });
  }
  return out;
}

void Matcher::Resume(uint32_t group, const GroupProgress& progress, uint64_t now_ns) {
  Cursor& cursor = cursors_[group];
  cursor.pos = progress.pos;
  cursor.consumed = progress.consumed;
  cursor.last_ns = cursor.away_ns = progress.last_ns;
  cursor.rate = progress.rate;
  // It may have begun meanwhile.
  if (progress.last_ns == 0 && layout_->groups()[group].id != kCommonGroup)
    cursor.away_ns = now_ns - std::min(now_ns - 1, kAwayKeepNs);
  for (const StreamProgress& saved : progress.streams) {
    Stream& stream = cursor.streams[saved.file];
    stream.front = saved.front;
    stream.pass = saved.pass;
    stream.open_id = saved.open_id;
    stream.front_page = saved.front_page;
    stream.pos = saved.pos;
    stream.user = saved.is_user;
    stream.started = true;
    stream.active = stream.away = saved.is_active;
    if (saved.is_active) cursor.active.push_back(saved.file);
  }
  for (const UseRun& run : progress.burnt) {
    for (uint32_t i = run.index; i < run.index + run.count; i++) {
      table_->Pass(group, run.file, i);
      table_->Burn(group, run.file, i);
    }
  }
  for (const PassedProgress& passed : progress.passed) {
    for (uint32_t i = 0; i < passed.run.count; i++)
      table_->Pass(group, passed.run.file, passed.run.index + i);
    cursor.fifo.push_back(
        {passed.stamp, passed.run.file, passed.run.index, passed.run.count, /*closed=*/true});
  }
  if (progress.is_dropped) Drop(group);
}

bool Matcher::IsAnyAway() const {
  for (uint32_t g = 0; g < cursors_.size(); g++) {
    const Cursor& cursor = cursors_[g];
    if (cursor.away_ns != 0 && !cursor.dropped && cursor.pos < layout_->groups()[g].bytes)
      return true;
  }
  return false;
}

// What it has read while nobody looked is what lies between where it was and where it is now: of
// this stream, and, unless it had several, of the files that it has ended meanwhile too.  More than
// it can have read in the time is a jump like any other.
void Matcher::CatchUp(const Observation& o, Stream* stream, const Arrival& a) {
  Cursor& cursor = cursors_[o.group];
  const bool is_new = cursor.consumed == 0;
  if (is_new && o.now_ns > cursor.away_ns + 2 * kAwayKeepNs) {
    cursor.away_ns = 0;  // it begins now
    return;
  }
  uint32_t others = 0;
  for (const uint32_t file : cursor.active) {
    const bool is_weights = layout_->files()[file].kind != FileKind::kSmall;
    const bool is_other = file != o.file && is_weights && cursor.streams[file].away;
    others += is_other && !IsAtEnd(o.group, file) ? 1 : 0;
  }
  if (cursor.away_ns != 0) away_ns_[o.group] = o.now_ns - std::min(o.now_ns, cursor.away_ns);
  const bool is_first = std::exchange(cursor.away_ns, 0) != 0;
  const bool was_away = std::exchange(stream->away, false);
  const double rate = cursor.consumed < kKnownRateBytes
                          ? std::max(kUnknownRate, kFasterAway * cursor.rate)
                          : kFasterAway * cursor.rate;
  const uint64_t most = out_of_order_bytes(o.group) +
                        static_cast<uint64_t>(rate * static_cast<double>(away_ns_[o.group]));
  const uint64_t pos = layout_->UseAt(o.group, o.file, a.first).pos;
  if (is_first && others + (was_away ? 1 : 0) <= 1) {
    if (pos <= cursor.pos || pos - cursor.pos > most) return;
    for (uint32_t file = 0; file < cursor.streams.size(); file++) {
      const UseList& list = layout_->ListOf(o.group, file);
      uint32_t from = list.CountBefore(layout_->pieces(), cursor.pos);
      const bool is_it = cursor.streams[file].away || (file == o.file && was_away);
      if (is_it) from = std::min(from, cursor.streams[file].pass);
      PassUpTo(o.group, file, from, list.CountBefore(layout_->pieces(), pos));
    }
    cursor.pos = pos;
  } else if (was_away && pos > stream->pos && pos - stream->pos <= most) {
    PassUpTo(o.group, o.file, stream->pass, a.first);
  }
}

// Files are read one after the other, and some of those it has ended are active for a while.
bool Matcher::IsAtEnd(uint32_t group, uint32_t file) const {
  return IsNearEnd(group, file, cursors_[group].streams[file].pass);
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

void Matcher::PassUpTo(uint32_t group, uint32_t file, uint32_t from, uint32_t end) {
  Stream& stream = cursors_[group].streams[file];
  if (from >= end) return;
  for (uint32_t i = from; i < end; i++) Pass(group, file, i);
  stream.pass = std::max(stream.pass, end);
  stream.front = std::max(stream.front, end);
}

}  // namespace ppc::maio
