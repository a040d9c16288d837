// SPDX-License-Identifier: Apache-2.0
// The record: readers' events, results.  Its cells are in guard_cells.cc, its limits in
// guard_limits.cc, its samples of the page cache in guard_samples.cc.
#include "daemon/exec/guard.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "daemon/backend/backend.h"

namespace ppc {
namespace {

// The disk or its file system says so; other errors mean that nothing can be loaded there at all.
bool IsReadError(int error) {
  constexpr std::array kErrors = {0, EIO, ENXIO, ENODATA, EBADMSG, ETIMEDOUT, EUCLEAN, EREMOTEIO};
  return std::ranges::find(kErrors, error) != kErrors.end();
}

}  // namespace

Guard::Guard() = default;
Guard::~Guard() = default;

Guard::ServiceState& Guard::NewServiceState(Slot slot) {
  if (slot >= services_.size()) services_.resize(slot + size_t{1});
  if (services_[slot] == nullptr) services_[slot] = std::make_unique<ServiceState>();
  return *services_[slot];
}

bool Guard::WouldStay(const ServiceState& state, const Cell& cell) {
  if (cell.used == 0) return false;
  const uint32_t since = static_cast<uint32_t>(state.clock >> kClockShift) + 1 - cell.used;
  return since <= std::min<uint64_t>(state.room >> kClockShift, INT32_MAX);
}

// A reader was there just now, as the clock counts.
inline bool Guard::IsRecent(const ServiceState& state, const Cell& cell) {
  const auto now = static_cast<uint32_t>(state.clock >> kClockShift) + 1;
  return cell.used != 0 && now - cell.used <= kPassBytes >> kClockShift;
}

// The kernel alone would have inserted it.  Where not all fits, a page that is used again is one
// more between two uses of the others: passes over more than the memory miss all of it.
inline bool Guard::MovesClock(const ServiceState& state, const Cell& cell) {
  const bool fits = state.total <= state.room;
  return !WouldStay(state, cell) || (!fits && !IsRecent(state, cell));
}

void Guard::Stamp(Slot slot, const ServiceState& state, Cell* cell) {
  if (cell->owner != slot && (cell->dropped != 0 || cell->loaded != 0)) return;
  // The rest of what was dropped was used before it was.
  if (cell->dropped != 0 && cell->used != 0) return;
  cell->owner = slot;
  cell->used = static_cast<uint32_t>(state.clock >> kClockShift) + 1;
}

void Guard::CountFile(Slot slot, File* file) {
  if (file->counted_by != kNobody) return;
  file->counted_by = slot;
  Of(slot).total += file->bytes;
}

void Guard::Learn(Slot slot, File* file, Cell* cell, uint64_t pages) {
  if ((cell->flags & kIsKnown) != 0) return;
  cell->flags |= kIsKnown;
  Of(slot).model += pages * kPageBytes;
  if (file->loaded >= file->bytes / 8) CountFile(slot, file);
}

// --------------------------------------------------------------------- readers

// A reader has read what was loaded in the cell.
void Guard::See(ServiceState* owner, Cell* cell) {
  const uint64_t bytes = cell->loaded * kPageBytes;
  if (MovesClock(*owner, *cell)) owner->clock += bytes;
  owner->seen_now += bytes;
  owner->seen_since += bytes;
  Take(&owner->lost, bytes);
  Take(&owner->gone, bytes / kVanishShare);
  Take(&owner->unseen, bytes);
  cell->present =
      static_cast<uint16_t>(std::min<uint32_t>(cell->present + cell->loaded, UINT16_MAX));
  cell->loaded = 0;
}

inline void Guard::Hit(Slot slot, ServiceState* reader, File* file, Cell* cell) {
  const auto pages = [&] {
    return CellPages(*file, static_cast<size_t>(cell - file->cells.data()));
  };
  if (cell->loaded != 0) {
    See(cell->owner == slot ? reader : &Of(cell->owner), cell);
  } else {
    if (cell->owner == (cell->used == 0 ? kNobody : slot) && MovesClock(*reader, *cell))
      reader->clock += pages() * kPageBytes;
    // Nothing of what was dropped is known to be back: the reader waits for it in flight.
    if (cell->dropped != 0) cell->flags |= kIsAwaited;
  }
  if ((cell->flags & kIsKnown) == 0) Learn(slot, file, cell, pages());
  Stamp(slot, *reader, cell);
}

// A reader so close to the end may reach it without an event.
inline void Guard::HitEnd(Slot slot, ServiceState* reader, File* file, size_t last) {
  Cell* const end = file->cells.data() + file->cells.size();
  Cell* const next = file->cells.data() + last + 1;
  if (static_cast<size_t>(end - next) > kEdgeBytes >> shift_) return;
  for (Cell* cell = next; cell < end; ++cell) Hit(slot, reader, file, cell);
}

// The usual reader that moves goes on to the next cell.
void Guard::NoteMove(Slot slot, File* file, uint64_t offset, uint64_t at, uint64_t now_ns) {
  if (at >= file->bytes) return NoteFar(slot, file, offset, at, /*is_miss=*/false, now_ns);
  Cell* const cell = file->cells.data() + (at >> shift_);
  const auto index = static_cast<uint32_t>(at >> shift_);
  const bool is_next = index != 0 && (cell->flags & kHasCursor) == 0 &&
                       (cell[-1].flags & kHasCursor) != 0 && cell[-1].loaded == 0;
  size_t moves = 0;
  while (is_next && moves < kCursors && file->cursors[moves] != index - 1) ++moves;
  if (!is_next || moves == kCursors)
    return NoteFar(slot, file, offset, at, /*is_miss=*/false, now_ns);
  ServiceState& reader = Of(slot);
  reader.used_ns = now_ns;
  reader.read += CellBytes();
  CountFile(slot, file);
  Hit(slot, &reader, file, cell);
  file->cursors[moves] = index;
  cell[-1].flags &= static_cast<uint16_t>(~kHasCursor);
  cell->flags |= kHasCursor;
  HitEnd(slot, &reader, file, index);
}

void Guard::Miss(Slot slot, File* file, size_t index, uint64_t pages, uint64_t now_ns) {
  Cell& cell = file->cells[index];
  ServiceState& reader = Of(slot);
  const uint64_t whole = CellPages(*file, index);
  pages = std::min(pages, whole);
  // Whose events are a little older than the load has missed nothing of it.
  if (cell.loaded + pages > whole && cell.at != StampOf(now_ns)) {
    const uint64_t gone = std::min<uint64_t>(cell.loaded + pages - whole, cell.loaded);
    ServiceState& owner = Of(cell.owner);
    cell.loaded = static_cast<uint16_t>(cell.loaded - gone);
    Take(&owner.unseen, gone * kPageBytes);
    Vanish(&owner, cell, gone * kPageBytes);
  }
  const uint64_t back = std::min<uint64_t>(pages, cell.dropped);
  if (back > 0) {
    ServiceState& owner = Of(cell.owner);
    const uint64_t bytes = back * kPageBytes;
    if ((cell.flags & kIsUnmapped) != 0) {
      owner.returned += bytes;
      if (owner.makes_passes && !WouldStay(owner, cell)) Take(&owner.unmapped, bytes);
    }
    cell.dropped = static_cast<uint16_t>(cell.dropped - back);
    if (cell.dropped == 0) cell.flags &= static_cast<uint16_t>(~kIsUnmapped);
    if (WouldStay(owner, cell)) {
      owner.regret += bytes;
      if (Counts(owner, cell, now_ns)) owner.regret_now += bytes;
      if (owner.regret_now > kLeastLimit) Judge(&owner, now_ns);
    }
    if (MovesClock(owner, cell)) owner.clock += bytes;
  }
  const uint64_t rest = pages - back;
  if (rest > 0) {
    const bool stays = cell.owner == slot && WouldStay(reader, cell);
    if (!stays) cell.present = 0;
    const uint64_t again = cell.present + rest > whole ? cell.present + rest - whole : 0;
    const uint64_t displaced = std::min(again * kPageBytes, reader.unseen);
    reader.displaced += displaced;
    reader.clock += (rest - again) * kPageBytes;
    reader.missed_now += rest * kPageBytes;
    Take(&reader.gone, rest * kPageBytes / kVanishShare);
  }
  cell.present = static_cast<uint16_t>(std::min(cell.present + pages, whole));
  if (cell.loaded != 0) See(&Of(cell.owner), &cell);
  Learn(slot, file, &cell, whole);
  Stamp(slot, reader, &cell);
}

// The reader's that is closest to the cell or at it, `most` cells behind it at most; else kCursors.
size_t Guard::CursorBefore(const File& file, uint32_t cell, uint32_t most) {
  size_t at = kCursors;
  uint32_t least = most + 1;
  for (size_t i = 0; i < kCursors; ++i) {
    const uint32_t behind = cell - file.cursors[i];  // of one ahead it wraps round
    at = behind < least ? i : at;
    least = std::min(behind, least);
  }
  return at;
}

void Guard::MoveCursor(File* file, size_t at, uint32_t cell) {
  const uint32_t from = std::exchange(file->cursors[at], cell);
  if (from < file->cells.size()) file->cells[from].flags &= static_cast<uint16_t>(~kHasCursor);
  file->cells[cell].flags |= kHasCursor;
}

void Guard::NoteAccess(Slot slot, const ReaderAccess& access, uint64_t now_ns) {
  if (access.is_open && access.file_bytes > kEdgeBytes) return;
  const uint64_t length = std::max<uint64_t>(access.is_open ? access.file_bytes : access.length, 1);
  const uint64_t at = access.offset + length - 1;
  if (!access.is_miss) {
    const uint64_t read = Of(slot).read;
    NoteHit(slot, access.file, access.file_bytes, access.offset, at, now_ns);
    if (access.is_open) Of(slot).read = read;  // nothing has been read yet
    return;
  }
  File* const file = FileOf(access.file, std::max(access.file_bytes, at + 1));
  NoteFar(slot, file, access.offset, at, /*is_miss=*/true, now_ns);
}

void Guard::NoteFar(Slot slot, File* file, uint64_t offset, uint64_t at, bool is_miss,
                    uint64_t now_ns) {
  ServiceState& state = Of(slot);
  state.used_ns = now_ns;
  if (offset >= file->bytes) return;
  at = std::min(at, file->bytes - 1);
  const size_t first = offset >> shift_;
  const size_t last = at >> shift_;
  const size_t edge = kEdgeBytes >> shift_;
  size_t moves = CursorBefore(*file, static_cast<uint32_t>(first),
                              static_cast<uint32_t>(kPassBytes >> shift_));
  const bool is_known = moves != kCursors;
  // A reader that looks at the same place again and again reads no more of the model.
  state.read +=
      is_known ? (last - std::min<size_t>(last, file->cursors[moves])) << shift_ : at + 1 - offset;
  CountFile(slot, file);
  const size_t from = is_known ? file->cursors[moves] + size_t{1} : first <= edge ? 0 : first;
  for (size_t i = from; i < first; ++i) Hit(slot, &state, file, &file->cells[i]);
  for (size_t i = first; i <= last; ++i) {
    if (!is_miss) {
      Hit(slot, &state, file, &file->cells[i]);
      continue;
    }
    const uint64_t begin = std::max(offset, uint64_t{i} << shift_);
    const uint64_t end = std::min(at + 1, (uint64_t{i} + 1) << shift_);
    Miss(slot, file, i, (end - begin + kPageBytes - 1) / kPageBytes, now_ns);
  }
  if (!is_known) moves = file->next_cursor++ % kCursors;
  MoveCursor(file, moves, static_cast<uint32_t>(last));
  if (is_known) HitEnd(slot, &state, file, last);
}

// --------------------------------------------------------------------- results

// What became of a range is not told by page: it is taken to be the same everywhere.
template <typename Each>
void Guard::Spread(File* file, const RangeResult& done, Each each) {
  const uint64_t all = done.bytes / kPageBytes;
  const uint64_t first = done.offset >> shift_;
  const uint64_t last = (done.offset + done.size - 1) >> shift_;
  uint64_t given = 0;
  for (uint64_t i = first; i <= last && i < file->cells.size(); ++i) {
    const uint64_t end = std::min(done.offset + done.size, (i + 1) << shift_) - done.offset;
    const double share = static_cast<double>(end) / static_cast<double>(done.size);
    const uint64_t until =
        i == last ? all : static_cast<uint64_t>(static_cast<double>(all) * share);
    const uint64_t pages = std::min<uint64_t>(until - given, CellPages(*file, i));
    given = until;
    if (pages > 0) each(&file->cells[i], pages, CellPages(*file, i));
  }
}

void Guard::NoteLoaded(Slot slot, const RangeResult& done, uint64_t now_ns) {
  if (done.size == 0) return;
  if (done.failed) {
    ServiceState& state = Of(slot);
    if (state.failed_file == 0 && IsReadError(done.error)) {
      state.failed_file = done.file;
      state.failed_error = done.error;
    }
    // Without an error the pages may have been reclaimed at once.
    if (state.failed_file == done.file)
      state.failed_loads += done.error != 0 ? kFailuresAMinute : 1;
    if (failures_.size() >= kMaxFailures) failures_.clear();
    for (uint64_t at = 0; at < done.size; at += kStepBytes)
      failures_.try_emplace(KeyOf(done.file, done.offset + at), Failure{now_ns, 0});
  } else if (!failures_.empty()) {
    for (uint64_t at = 0; at < done.size && done.bytes > 0; at += kStepBytes)
      failures_.erase(KeyOf(done.file, done.offset + at));
  }
  if (done.bytes == 0) return;
  ServiceState& state = Of(slot);
  File* const file = FileOf(done.file, done.offset + done.size);
  state.is_over = false;
  state.loaded += done.bytes;
  state.load_bytes += done.bytes;
  file->loaded += done.bytes;
  Spread(file, done, [&](Cell* cell, uint64_t pages, uint64_t whole) {
    if (cell->owner != slot) {
      if (cell->owner != kNobody) Take(&Of(cell->owner).unseen, cell->loaded * kPageBytes);
      *cell = Cell{.owner = slot, .flags = static_cast<uint16_t>(cell->flags & kIsKnown)};
    }
    const uint64_t churned = std::min<uint64_t>(pages, cell->dropped);
    state.churn += churned * kPageBytes;
    if (WouldStay(state, *cell)) {
      state.churn_now += churned * kPageBytes;
    } else if ((cell->flags & kIsUnmapped) != 0) {
      // The kernel alone would have evicted it too, and no reader has waited for it.
      Take(&state.unmapped, churned * kPageBytes);
    }
    cell->dropped = static_cast<uint16_t>(cell->dropped - churned);
    // A reader that waits for pages in flight is told of before they are.
    const bool is_being_read =
        cell->loaded == 0 &&
        (churned == 0 ? IsRecent(state, *cell) : (cell->flags & kIsAwaited) != 0);
    const uint64_t added = std::min(pages, whole - std::min<uint64_t>(whole, cell->loaded));
    cell->loaded = static_cast<uint16_t>(cell->loaded + added);
    cell->at = StampOf(now_ns);
    state.unseen += added * kPageBytes;
    if (is_being_read) {
      See(&state, cell);
      Stamp(slot, state, cell);
    }
    Learn(slot, file, cell, whole);
  });
  wants_hits_ |= state.unseen >= kSmallWindow;
  if (state.churn_now > kLeastLimit || IsFarOff(state)) Judge(&state, now_ns);
}

void Guard::NoteDropped(Slot slot, const RangeResult& done, uint64_t now_ns) {
  ServiceState& state = Of(slot);
  if (done.unmap) {
    Take(&state.pending, done.size);
    state.pending_ns = now_ns;
    state.unmapped += done.bytes;
  }
  if (done.size == 0 || done.bytes == 0) return;
  File* const file = FileOf(done.file, done.offset + done.size);
  Spread(file, done, [&](Cell* cell, uint64_t pages, uint64_t whole) {
    const uint64_t unread = std::min<uint64_t>(pages, cell->loaded);
    if (unread > 0) {
      ServiceState& owner = Of(cell->owner);
      cell->loaded = static_cast<uint16_t>(cell->loaded - unread);
      Take(&owner.unseen, unread * kPageBytes);
      if (are_hits_seen_) {
        owner.waste += unread * kPageBytes;
        owner.load_waste += unread * kPageBytes;
        owner.lost += unread * kPageBytes;
        // Readers are seen now and then: some of it was read.
        if (owner.load_waste > std::max(4 * kLeastLimit, owner.load_bytes / 4))
          owner.waste_now += unread * kPageBytes;
        pages -= unread;
      }
    }
    cell->present = static_cast<uint16_t>(cell->present - std::min<uint64_t>(cell->present, pages));
    // Somebody else's page, or one that was read without an event, was used as late as now.
    if (cell->owner != slot || (!are_hits_seen_ && cell->used == 0)) {
      if (cell->loaded != 0) Take(&Of(cell->owner).unseen, cell->loaded * kPageBytes);
      cell->loaded = cell->dropped = 0;
      Stamp(slot, state, cell);
    }
    // What no reader has used is missed without us, too.
    if (cell->used == 0) return;
    cell->dropped = static_cast<uint16_t>(std::min<uint64_t>(cell->dropped + pages, whole));
    if (done.unmap) cell->flags |= kIsUnmapped;
    cell->flags &= static_cast<uint16_t>(~kIsAwaited);
    cell->flags = static_cast<uint16_t>((cell->flags & ~kEra) | EraOf(state));
  });
}

}  // namespace ppc
