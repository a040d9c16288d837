// SPDX-License-Identifier: Apache-2.0
#include "daemon/exec/guard.h"

#include <algorithm>
#include <utility>

#include "daemon/backend/backend.h"

namespace ppc {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr int kClockShift = 16;  // 32 bits of 64 KiB each
constexpr int kStampShift = 27;  // 16 bits of 134 ms each: the difference counts
// A reader that is seen at two places of a file, no farther apart, has read what lies between.
constexpr uint64_t kPassBytes = 64 * kMiB;
// At the beginning and the end of a file a reader may come and go without an event.
constexpr uint64_t kEdgeBytes = 8 * kMiB;
// Without readers' events for so long, a load is over.
constexpr uint64_t kOverNs = 60 * Guard::kNsPerSecond;
// Where all files fit in memory, dropping gains nothing, and a first mistake must not be repeated.
constexpr uint64_t kFitsRenewalNs = 60 * Guard::kNsPerSecond;
constexpr uint64_t kMostRenewalNs = 600 * Guard::kNsPerSecond;
constexpr uint64_t kHalfLifeNs = 60 * Guard::kNsPerSecond;
constexpr uint64_t kFailureNs = 60 * Guard::kNsPerSecond;
// What comes to light so soon after a limit was set belongs to the mistake that it was set for.
constexpr uint64_t kGraceNs = 3 * Guard::kNsPerSecond;
constexpr uint64_t kLostDropNs = 10 * Guard::kNsPerSecond;
// Read by readers before it is judged how much of it had been loaded.
constexpr uint64_t kLeastEvidence = 64 * kMiB;
constexpr uint64_t kMostHits = uint64_t{1} << 30;  // that count
constexpr int kMaxLevel = 6;
constexpr size_t kSamples = 8;
constexpr size_t kManySamples = 64;
constexpr size_t kSampleSteps = 1024;  // cells looked through for them
constexpr uint32_t kNoCursor = UINT32_MAX;

uint16_t StampOf(uint64_t now_ns) { return static_cast<uint16_t>(now_ns >> kStampShift); }

std::string MiB(uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

uint64_t LimitOf(uint64_t model) {
  return std::max(Guard::kLeastLimit, model / Guard::kModelShare);
}

void Take(uint64_t* from, uint64_t bytes) { *from -= std::min(*from, bytes); }

}  // namespace

Guard::Guard() = default;
Guard::~Guard() = default;

Guard::Ledger& Guard::Of(Slot slot) {
  if (slot >= ledgers_.size()) ledgers_.resize(slot + size_t{1});
  if (ledgers_[slot] == nullptr) ledgers_[slot] = std::make_unique<Ledger>();
  return *ledgers_[slot];
}

// ---------------------------------------------------------------------- cells

uint16_t Guard::CellPages(const File& file, size_t cell) const {
  const uint64_t begin = cell << shift_;
  const uint64_t bytes = std::min(CellBytes(), file.bytes > begin ? file.bytes - begin : 0);
  return static_cast<uint16_t>(
      std::clamp<uint64_t>((bytes + kPageBytes - 1) / kPageBytes, 1, UINT16_MAX));
}

Guard::File* Guard::FileOf(uint64_t number, uint64_t bytes) {
  File*& recent = recent_[number % kRecent];
  if (recent == nullptr || recent->number != number) {
    const auto known = by_number_.find(number);
    if (known != by_number_.end()) {
      recent = known->second;
    } else {
      if (files_.size() >= kMaxFiles) ForgetFiles();
      auto file = std::make_unique<File>();
      file->number = number;
      file->cursors.fill(kNoCursor);
      by_number_[number] = recent_[number % kRecent] = file.get();
      files_.push_back(std::move(file));
    }
  }
  File* const file = recent_[number % kRecent];
  if (bytes > file->bytes) Grow(file, bytes);
  return file;
}

void Guard::Grow(File* file, uint64_t bytes) {
  const auto needed = [&] { return static_cast<size_t>(((bytes - 1) >> shift_) + 1); };
  while (shift_ < 62 && cells_ - file->cells.size() + needed() > kMaxCells) DoubleUnit();
  const size_t count = std::max(needed(), file->cells.size());
  file->bytes = bytes;
  cells_ += count - file->cells.size();
  file->cells.resize(count);
}

void Guard::DoubleUnit() {
  ++shift_;
  cells_ = 0;
  const auto sum = [](uint16_t a, uint16_t b) {
    return static_cast<uint16_t>(std::min<uint32_t>(uint32_t{a} + b, UINT16_MAX));
  };
  for (const auto& file : files_) {
    std::vector<Cell>& cells = file->cells;
    for (size_t i = 0; i < cells.size(); ++i) {
      const Cell from = std::exchange(cells[i], Cell{});
      Cell& to = cells[i / 2];
      if (i % 2 == 0) {
        to = from;
        continue;
      }
      if (to.owner == kNobody) to.owner = from.owner;
      to.used = std::max(to.used, from.used);
      to.at = from.loaded != 0 ? from.at : to.at;
      to.dropped = sum(to.dropped, from.dropped);
      to.loaded = sum(to.loaded, from.loaded);
      to.present = sum(to.present, from.present);
      to.flags |= from.flags;
    }
    cells.resize((cells.size() + 1) / 2);
    for (uint32_t& cursor : file->cursors) cursor = cursor == kNoCursor ? cursor : cursor / 2;
    cells_ += cells.size();
  }
}

// Of what is forgotten nothing comes back, and nothing is judged.
void Guard::ForgetFiles() {
  const auto forget = [this](bool all) {
    std::erase_if(files_, [&](const std::unique_ptr<File>& file) {
      const bool is_open = std::ranges::any_of(
          file->cells, [](const Cell& cell) { return cell.loaded != 0 || cell.dropped != 0; });
      if (is_open && !all) return false;
      for (const Cell& cell : file->cells) {
        if (cell.owner != kNobody) Take(&Of(cell.owner).unseen, cell.loaded * kPageBytes);
      }
      cells_ -= file->cells.size();
      by_number_.erase(file->number);
      return true;
    });
  };
  recent_ = {};
  forget(/*all=*/false);
  if (files_.size() > kMaxFiles / 4 * 3) forget(/*all=*/true);
}

bool Guard::WouldStay(const Ledger& ledger, const Cell& cell) const {
  if (cell.used == 0) return false;
  const uint32_t since = static_cast<uint32_t>(ledger.clock >> kClockShift) + 1 - cell.used;
  return since <= std::min<uint64_t>(ledger.room >> kClockShift, INT32_MAX);
}

void Guard::Stamp(Slot slot, Cell* cell) {
  if (cell->owner != slot && (cell->dropped != 0 || cell->loaded != 0)) return;
  // The rest of what was dropped was used before it was.
  if (cell->dropped != 0 && cell->used != 0) return;
  cell->owner = slot;
  cell->used = static_cast<uint32_t>(Of(slot).clock >> kClockShift) + 1;
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

void Guard::See(Cell* cell) {
  if (cell->loaded == 0) return;
  Ledger& owner = Of(cell->owner);
  const uint64_t bytes = cell->loaded * kPageBytes;
  if (!WouldStay(owner, *cell)) owner.clock += bytes;
  owner.seen_now += bytes;
  owner.seen_since += bytes;
  Take(&owner.unseen, bytes);
  cell->present =
      static_cast<uint16_t>(std::min<uint32_t>(cell->present + cell->loaded, UINT16_MAX));
  cell->loaded = 0;
}

void Guard::Hit(Slot slot, File* file, size_t index) {
  Cell& cell = file->cells[index];
  if (cell.loaded != 0) {
    See(&cell);
  } else if (cell.owner == slot && cell.used != 0 && !WouldStay(Of(slot), cell)) {
    Of(slot).clock += CellPages(*file, index) * kPageBytes;
  }
  Learn(slot, file, &cell, CellPages(*file, index));
  Stamp(slot, &cell);
}

void Guard::Miss(Slot slot, File* file, size_t index, uint64_t pages, uint64_t now_ns) {
  Cell& cell = file->cells[index];
  Ledger& reader = Of(slot);
  const uint64_t whole = CellPages(*file, index);
  pages = std::min(pages, whole);
  // Whose events are a little older than the load has missed nothing of it.
  if (cell.loaded + pages > whole && cell.at != StampOf(now_ns)) {
    const uint64_t gone = std::min<uint64_t>(cell.loaded + pages - whole, cell.loaded);
    Ledger& owner = Of(cell.owner);
    cell.loaded = static_cast<uint16_t>(cell.loaded - gone);
    Take(&owner.unseen, gone * kPageBytes);
    owner.vanished += gone * kPageBytes;
    Waste(&owner, gone * kPageBytes);
  }
  const uint64_t back = std::min<uint64_t>(pages, cell.dropped);
  if (back > 0) {
    Ledger& owner = Of(cell.owner);
    const uint64_t bytes = back * kPageBytes;
    if ((cell.flags & kIsUnmapped) != 0) owner.returned += bytes;
    cell.dropped = static_cast<uint16_t>(cell.dropped - back);
    if (cell.dropped == 0) cell.flags &= static_cast<uint16_t>(~kIsUnmapped);
    if (WouldStay(owner, cell)) {
      owner.regret += bytes;
      owner.regret_now += bytes;
      if (owner.regret_now > kLeastLimit) Judge(&owner, now_ns);
    } else {
      owner.clock += bytes;
    }
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
  }
  cell.present = static_cast<uint16_t>(std::min(cell.present + pages, whole));
  See(&cell);
  Learn(slot, file, &cell, whole);
  Stamp(slot, &cell);
}

void Guard::NoteUse(Slot slot, const Use& use, uint64_t now_ns) {
  if (use.is_open && use.file_bytes > kEdgeBytes) return;
  const uint64_t length = std::max<uint64_t>(use.is_open ? use.file_bytes : use.length, 1);
  File* const file = FileOf(use.file, std::max(use.file_bytes, use.offset + length));
  const size_t first = use.offset >> shift_;
  const size_t last = (use.offset + length - 1) >> shift_;
  const size_t pass = kPassBytes >> shift_;
  const size_t edge = kEdgeBytes >> shift_;
  size_t at = kCursors;
  for (size_t i = 0; i < kCursors; ++i) {
    const uint32_t cursor = file->cursors[i];
    if (cursor == kNoCursor || cursor > first || first - cursor > pass) continue;
    if (at == kCursors || cursor > file->cursors[at]) at = i;
  }
  const bool is_known = at != kCursors;
  Ledger& ledger = Of(slot);
  ledger.used_ns = now_ns;
  // The usual event says again where a reader is.
  if (!use.is_miss && is_known && file->cursors[at] == last && file->cells[last].loaded == 0)
    return;
  CountFile(slot, file);
  const size_t from = is_known ? file->cursors[at] + size_t{1} : first <= edge ? 0 : first;
  for (size_t i = from; i < first; ++i) Hit(slot, file, i);
  for (size_t i = first; i <= last; ++i) {
    if (!use.is_miss) {
      Hit(slot, file, i);
      continue;
    }
    const uint64_t begin = std::max(use.offset, uint64_t{i} << shift_);
    const uint64_t end = std::min(use.offset + length, (uint64_t{i} + 1) << shift_);
    Miss(slot, file, i, (end - begin + kPageBytes - 1) / kPageBytes, now_ns);
  }
  if (!is_known) at = file->next_cursor++ % kCursors;
  file->cursors[at] = static_cast<uint32_t>(last);
  const size_t cells = file->cells.size();
  if (is_known && cells - 1 - last <= edge) {
    for (size_t i = last + 1; i < cells; ++i) Hit(slot, file, i);
  }
}

// --------------------------------------------------------------------- results

// What became of a range is not told by page: it is taken to be the same everywhere.
template <typename Each>
void Guard::Spread(File* file, const Done& done, Each each) {
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

void Guard::NoteLoaded(Slot slot, const Done& done, uint64_t now_ns) {
  if (done.size == 0) return;
  if (done.failed) {
    if (failures_.size() >= kMaxFailures) failures_.clear();
    for (uint64_t at = 0; at < done.size; at += kStepBytes)
      failures_.try_emplace(KeyOf(done.file, done.offset + at), Failure{now_ns, 0});
  } else if (!failures_.empty()) {
    for (uint64_t at = 0; at < done.size && done.bytes > 0; at += kStepBytes)
      failures_.erase(KeyOf(done.file, done.offset + at));
  }
  if (done.bytes == 0) return;
  Ledger& ledger = Of(slot);
  File* const file = FileOf(done.file, done.offset + done.size);
  ledger.is_over = false;
  ledger.loaded += done.bytes;
  ledger.load_bytes += done.bytes;
  file->loaded += done.bytes;
  Spread(file, done, [&](Cell* cell, uint64_t pages, uint64_t whole) {
    if (cell->owner != slot) {
      if (cell->owner != kNobody) Take(&Of(cell->owner).unseen, cell->loaded * kPageBytes);
      *cell = Cell{.owner = slot, .flags = static_cast<uint16_t>(cell->flags & kIsKnown)};
    }
    const uint64_t churned = std::min<uint64_t>(pages, cell->dropped);
    ledger.churn += churned * kPageBytes;
    if (WouldStay(ledger, *cell)) ledger.churn_now += churned * kPageBytes;
    cell->dropped = static_cast<uint16_t>(cell->dropped - churned);
    const uint64_t added = std::min(pages, whole - std::min<uint64_t>(whole, cell->loaded));
    cell->loaded = static_cast<uint16_t>(cell->loaded + added);
    cell->at = StampOf(now_ns);
    ledger.unseen += added * kPageBytes;
    Learn(slot, file, cell, whole);
  });
  if (ledger.churn_now > kLeastLimit) Judge(&ledger, now_ns);
}

void Guard::NoteDropped(Slot slot, const Done& done, uint64_t now_ns) {
  Ledger& ledger = Of(slot);
  if (done.unmap) {
    Take(&ledger.pending, done.size);
    ledger.pending_ns = now_ns;
    ledger.unmapped += done.bytes;
  }
  if (done.size == 0 || done.bytes == 0) return;
  File* const file = FileOf(done.file, done.offset + done.size);
  Spread(file, done, [&](Cell* cell, uint64_t pages, uint64_t whole) {
    const uint64_t unread = std::min<uint64_t>(pages, cell->loaded);
    if (unread > 0) {
      Ledger& owner = Of(cell->owner);
      cell->loaded = static_cast<uint16_t>(cell->loaded - unread);
      Take(&owner.unseen, unread * kPageBytes);
      if (are_hits_seen_) {
        owner.waste += unread * kPageBytes;
        owner.load_waste += unread * kPageBytes;
        // Readers are seen now and then: some of it was read.
        if (owner.load_waste > std::max(4 * kLeastLimit, owner.load_bytes / 4))
          Waste(&owner, unread * kPageBytes);
        pages -= unread;
      }
    }
    cell->present = static_cast<uint16_t>(cell->present - std::min<uint64_t>(cell->present, pages));
    // Somebody else's page, or one that was read without an event, was used as late as now.
    if (cell->owner != slot || (!are_hits_seen_ && cell->used == 0)) {
      if (cell->loaded != 0) Take(&Of(cell->owner).unseen, cell->loaded * kPageBytes);
      cell->loaded = cell->dropped = 0;
      Stamp(slot, cell);
    }
    // What no reader has used is missed without us, too.
    if (cell->used == 0) return;
    cell->dropped = static_cast<uint16_t>(std::min<uint64_t>(cell->dropped + pages, whole));
    if (done.unmap) cell->flags |= kIsUnmapped;
  });
}

void Guard::TakeSamples(std::vector<Sample>* out) {
  out->clear();
  const size_t most = has_vanished_ ? kManySamples : kSamples;
  has_vanished_ = false;
  for (size_t step = 0; step < kSampleSteps && out->size() < most && !files_.empty(); ++step) {
    if (sample_file_ >= files_.size()) sample_file_ = 0;
    const File& file = *files_[sample_file_];
    if (sample_cell_ >= file.cells.size()) {
      ++sample_file_;
      sample_cell_ = 0;
      continue;
    }
    const size_t at = sample_cell_++;
    if (file.cells[at].loaded == 0) continue;
    out->push_back({file.number, uint64_t{at} << shift_, CellPages(file, at) * kPageBytes,
                    file.cells[at].loaded});
  }
}

void Guard::NoteSample(const Sample& sample, uint64_t resident, uint64_t now_ns) {
  const auto known = by_number_.find(sample.file);
  const size_t index = sample.offset >> shift_;
  if (known == by_number_.end() || index >= known->second->cells.size()) return;
  Cell& cell = known->second->cells[index];
  const uint64_t there = resident / kPageBytes;
  // Read, dropped or loaded meanwhile.
  if (cell.loaded == 0 || cell.loaded != sample.loaded || there >= cell.loaded) return;
  const uint64_t gone = (cell.loaded - there) * kPageBytes;
  Ledger& owner = Of(cell.owner);
  cell.loaded = static_cast<uint16_t>(there);
  Take(&owner.unseen, gone);
  owner.vanished += gone;
  has_vanished_ = true;
  Waste(&owner, gone);
  Judge(&owner, now_ns);
}

// --------------------------------------------------------------------- service

void Guard::Begin(Slot slot, const std::string& id) {
  End(slot);
  Of(slot).id = id;
}

void Guard::EndLoad(Slot slot) {
  Ledger& ledger = Of(slot);
  ledger.is_over = true;
  if (are_hits_seen_ && ledger.used_ns != 0) {
    uint64_t unread = 0;
    for (const auto& file : files_) {
      for (Cell& cell : file->cells) {
        if (cell.owner == slot) unread += std::exchange(cell.loaded, 0) * kPageBytes;
      }
    }
    ledger.waste += unread;
    ledger.load_waste += unread;
    ledger.unseen = 0;
    if (ledger.load_waste > ledger.load_bytes / 4) Waste(&ledger, unread);
    if (ledger.load_bytes >= kLeastLimit && !ledger.id.empty()) {
      if (ledger.load_waste <= ledger.load_bytes / 4) {
        wasted_starts_.erase(ledger.id);
      } else {
        if (wasted_starts_.size() >= kMaxHistory) wasted_starts_.erase(wasted_starts_.begin());
        ++wasted_starts_[ledger.id];
      }
    }
  }
  ledger.load_bytes = ledger.load_waste = 0;
}

void Guard::End(Slot slot) {
  if (slot >= ledgers_.size() || ledgers_[slot] == nullptr) return;
  if (!ledgers_[slot]->is_over) EndLoad(slot);
  for (const auto& file : files_) {
    if (file->counted_by == slot) file->counted_by = kNobody;
    for (Cell& cell : file->cells) {
      if (cell.owner == slot) cell = Cell{};
    }
  }
  *ledgers_[slot] = Ledger{};
}

void Guard::SetRoom(Slot slot, uint64_t bytes, uint64_t usable) {
  Of(slot).room = bytes;
  Of(slot).usable = std::min(bytes, usable);
}

// ------------------------------------------------------------------- judgement

void Guard::Waste(Ledger* ledger, uint64_t bytes) { ledger->waste_now += bytes; }

// Of what readers read, next to nothing had been loaded.
bool Guard::IsFarOff(const Ledger& ledger) const {
  const uint64_t read = ledger.seen_now + ledger.missed_now;
  return read >= kLeastEvidence && ledger.seen_now < read / 16 && ledger.unseen >= kSmallWindow / 2;
}

void Guard::LimitDrops(Ledger* ledger, Drops to, std::string reason, uint64_t now_ns) {
  ledger->drops = to;
  ledger->drops_off.until_ns = now_ns + (kBackOffNs << ledger->drops_off.level);
  ledger->drops_off.level = std::min(ledger->drops_off.level + 1, kMaxLevel);
  ledger->reason = std::move(reason);
  ledger->regret_now = ledger->churn_now = 0;
}

void Guard::LimitLoads(Ledger* ledger, Loads to, std::string reason, uint64_t now_ns) {
  ledger->loads = to;
  ledger->loads_off.until_ns = now_ns + (kBackOffNs << ledger->loads_off.level);
  ledger->loads_off.level = std::min(ledger->loads_off.level + 1, kMaxLevel);
  ledger->reason = std::move(reason);
  ledger->waste_now = ledger->seen_since = 0;
}

void Guard::Judge(Ledger* ledger, uint64_t now_ns) {
  const uint64_t limit = LimitOf(ledger->model);
  const auto is_fresh = [now_ns](const BackOff& off) {
    const int level = std::max(off.level - 1, 0);
    return now_ns + (kBackOffNs << level) < off.until_ns + kGraceNs;
  };
  if (ledger->drops == Drops::kNoUnmap && is_fresh(ledger->drops_off))
    ledger->regret_now = ledger->churn_now = 0;
  if (ledger->loads == Loads::kSmall && is_fresh(ledger->loads_off)) ledger->waste_now = 0;
  if (ledger->drops != Drops::kNone && ledger->regret_now > limit) {
    LimitDrops(ledger, ledger->drops == Drops::kOpen ? Drops::kNoUnmap : Drops::kNone,
               MiB(ledger->regret_now) + " that were dropped were missed again", now_ns);
  }
  // A reader does not wait for what is loaded again in time, and a page may be put on another node
  // so; but the disk reads it.
  if (ledger->drops != Drops::kNone &&
      ledger->churn_now > std::max(4 * kLeastLimit, ledger->model / 4)) {
    LimitDrops(ledger, ledger->drops == Drops::kOpen ? Drops::kNoUnmap : Drops::kNone,
               MiB(ledger->churn_now) + " that were dropped were loaded again", now_ns);
  }
  if (ledger->loads == Loads::kNone) return;
  if (ledger->waste_now > limit) {
    LimitLoads(ledger, ledger->loads == Loads::kOpen ? Loads::kSmall : Loads::kNone,
               MiB(ledger->waste_now) + " that were loaded were not read, or were gone before",
               now_ns);
  } else if (ledger->loads == Loads::kOpen && IsFarOff(*ledger)) {
    const uint64_t read = ledger->seen_now + ledger->missed_now;
    LimitLoads(ledger, Loads::kSmall,
               "of " + MiB(read) + " that were read, " + MiB(ledger->seen_now) +
                   " had been loaded, and " + MiB(ledger->unseen) + " that were not",
               now_ns);
  }
}

// Little has come back for a while.
void Guard::Renew(Ledger* ledger, uint64_t now_ns) {
  if (ledger->quiet_ns == 0) ledger->quiet_ns = now_ns;
  const bool fits = ledger->total <= ledger->room;
  if (ledger->returned > std::max(kMiB, ledger->unmapped / (fits ? 16 : 2))) {
    if (!std::exchange(ledger->has_returned, true))
      ledger->renewal_ns = std::min(2 * ledger->renewal_ns, kMostRenewalNs);
    ledger->credit = kUnmapCredit;
    ledger->returned = 0;
    ledger->quiet_ns = now_ns;
    return;
  }
  const uint64_t wait = fits ? std::max(ledger->renewal_ns, kFitsRenewalNs) : ledger->renewal_ns;
  if (now_ns < ledger->quiet_ns + wait) return;
  ledger->quiet_ns = now_ns;
  ledger->returned = 0;
  const bool was_used = std::exchange(ledger->unmapped, 0) > 0;
  if (std::exchange(ledger->has_returned, false) || !was_used) return;
  ledger->renewal_ns = std::max(kRenewalNs, ledger->renewal_ns / 2);
  if (!fits) ledger->credit = std::min<uint64_t>(2 * ledger->credit, uint64_t{1} << 40);
}

void Guard::Tick(uint64_t now_ns) {
  for (size_t slot = 0; slot < ledgers_.size(); ++slot) {
    if (ledgers_[slot] == nullptr) continue;
    Ledger& ledger = *ledgers_[slot];
    if (ledger.pending != 0 && now_ns > ledger.pending_ns + kLostDropNs) ledger.pending = 0;
    Renew(&ledger, now_ns);
    if (!ledger.is_over && ledger.used_ns != 0 && now_ns > ledger.used_ns + kOverNs)
      EndLoad(static_cast<Slot>(slot));
    Judge(&ledger, now_ns);
    if (ledger.halved_ns == 0) ledger.halved_ns = now_ns;
    if (now_ns >= ledger.halved_ns + kHalfLifeNs) {
      ledger.halved_ns = now_ns;
      for (uint64_t* const each : {&ledger.regret_now, &ledger.churn_now, &ledger.waste_now})
        *each /= 2;
    }
    while (ledger.seen_now + ledger.missed_now > kMostHits) {
      ledger.seen_now /= 2;
      ledger.missed_now /= 2;
    }
    // One step back at a time.
    const auto ends = [now_ns](BackOff* off) {
      if (now_ns < off->until_ns) return false;
      off->until_ns = now_ns + (kBackOffNs << std::max(off->level - 1, 0));
      return true;
    };
    if (ledger.drops != Drops::kOpen) {
      if (ends(&ledger.drops_off)) {
        ledger.drops = ledger.drops == Drops::kNone ? Drops::kNoUnmap : Drops::kOpen;
        ledger.regret_now = ledger.churn_now = 0;
      }
    } else if (ledger.drops_off.level > 0 && ends(&ledger.drops_off)) {
      --ledger.drops_off.level;
    }
    if (ledger.loads != Loads::kOpen) {
      const bool is_right = ledger.seen_since >= (4 * kSmallWindow << ledger.loads_off.level);
      if (is_right || ends(&ledger.loads_off)) {
        ledger.loads = ledger.loads == Loads::kNone ? Loads::kSmall : Loads::kOpen;
        ledger.waste_now = ledger.seen_since = 0;
        // What lies unread from before says no more.
        ledger.seen_now = ledger.missed_now = 0;
      }
    } else if (ledger.loads_off.level > 0 && ends(&ledger.loads_off)) {
      --ledger.loads_off.level;
    }
    if (ledger.drops == Drops::kOpen && ledger.loads == Loads::kOpen) ledger.reason.clear();
  }
}

// ---------------------------------------------------------------------- limits

// Of files that do not fit, the kernel alone evicts as much in one pass: so much may go at once.
uint64_t Guard::Excess(const Ledger& ledger) const {
  return ledger.total > ledger.room ? ledger.total - ledger.usable : 0;
}

uint64_t Guard::UnmapLeft(const Ledger& ledger) const {
  // Until much of it comes back: a load of more than memory must drop what it has passed.
  if (ledger.total > ledger.room && !ledger.has_returned) return UINT64_MAX / 2;
  const uint64_t all = ledger.credit + Excess(ledger);
  const uint64_t taken = ledger.unmapped + ledger.pending;
  return all > taken ? all - taken : 0;
}

uint64_t Guard::LoadWindow(const Ledger& ledger) const {
  if (ledger.loads == Loads::kNone) return 0;
  if (ledger.loads == Loads::kSmall) return kSmallWindow;
  const uint64_t earned = kSmallWindow + 4 * ledger.seen_since;
  if (ledger.loads_off.level > 0) return earned;
  const auto wasted = wasted_starts_.find(ledger.id);
  if (wasted != wasted_starts_.end()) {
    const uint64_t quarter = ledger.room == UINT64_MAX ? 0 : ledger.room / 4;
    return wasted->second > 1 ? earned : std::max(earned, quarter);
  }
  const bool is_bounded = are_hits_seen_ && ledger.room != UINT64_MAX;
  return is_bounded ? std::max(kSmallWindow, ledger.room) : UINT64_MAX;
}

// How much of a range, from its beginning, is alike: tried too often of late, or not.
uint64_t Guard::AllowedByFailures(uint64_t file, uint64_t offset, uint64_t size, uint64_t now_ns,
                                  bool* ok) {
  *ok = true;
  uint64_t at = offset;
  while (at < offset + size) {
    const auto found = failures_.find(KeyOf(file, at));
    bool may = true;
    if (found != failures_.end()) {
      Failure& failure = found->second;
      if (now_ns >= failure.since_ns + kFailureNs) failure = {now_ns, 0};
      may = failure.tries < kFailuresAMinute;
    }
    if (at == offset) *ok = may;
    if (may != *ok) break;
    if (may && found != failures_.end()) ++found->second.tries;
    at = (at / kStepBytes + 1) * kStepBytes;
  }
  return std::min(at, offset + size) - offset;
}

Guard::Verdict Guard::AllowLoad(Slot slot, uint64_t file, uint64_t offset, uint64_t size,
                                uint64_t queued, uint64_t now_ns) {
  Ledger& ledger = Of(slot);
  Verdict verdict{.bytes = size};
  const uint64_t left = PlanBytes(slot, queued);
  if (left < size) {
    verdict.bytes = left / kStepBytes * kStepBytes;
    verdict.is_allowed = verdict.bytes > 0;
    if (!verdict.is_allowed) verdict.bytes = size;
  }
  if (verdict.is_allowed && !failures_.empty()) {
    bool may = true;
    verdict.bytes = AllowedByFailures(file, offset, verdict.bytes, now_ns, &may);
    verdict.is_allowed = may;
    if (!may) ledger.failing += verdict.bytes;
  }
  if (!verdict.is_allowed) ledger.refused_loads += verdict.bytes;
  return verdict;
}

uint64_t Guard::PlanBytes(Slot slot, uint64_t queued) {
  const Ledger& ledger = Of(slot);
  const uint64_t window = LoadWindow(ledger);
  if (window == UINT64_MAX) return window;
  return window - std::min(window, ledger.unseen + queued);
}

Guard::Verdict Guard::AllowDrop(Slot slot, uint64_t offset, uint64_t size, bool unmap) {
  Ledger& ledger = Of(slot);
  Verdict verdict{.bytes = size, .is_allowed = ledger.drops != Drops::kNone};
  if (!verdict.is_allowed) ledger.refused_drops += size;
  if (!verdict.is_allowed || !unmap) return verdict;
  const uint64_t left = ledger.drops == Drops::kOpen ? UnmapLeft(ledger) : 0;
  // Steps end at multiples of 2 MiB, so that large folios go whole.
  const uint64_t end = left >= size ? offset + size : (offset + left) / kStepBytes * kStepBytes;
  verdict.unmap = end > offset;
  if (!verdict.unmap) {
    ledger.refused_drops += size;
    return verdict;
  }
  verdict.bytes = end - offset;
  ledger.pending += verdict.bytes;
  return verdict;
}

GuardView Guard::View(Slot slot) const {
  GuardView view;
  if (slot >= ledgers_.size() || ledgers_[slot] == nullptr) {
    view.credit = kUnmapCredit;
    return view;
  }
  const Ledger& ledger = *ledgers_[slot];
  const bool is_spent =
      ledger.drops == Drops::kOpen && ledger.has_returned && UnmapLeft(ledger) < kStepBytes;
  view.reason = ledger.reason;
  view.state.clear();
  const auto add = [&view](const char* word) {
    view.state += (view.state.empty() ? "" : "+") + std::string(word);
  };
  if (ledger.drops == Drops::kNone) add("no_drops");
  if (ledger.drops == Drops::kNoUnmap || is_spent) add("no_unmap");
  if (ledger.loads == Loads::kNone) add("no_loads");
  if (ledger.loads == Loads::kSmall) add("small_window");
  if (view.state.empty()) view.state = "open";
  if (view.reason.empty() && is_spent)
    view.reason = "of " + MiB(ledger.unmapped) + " that were dropped while mapped, much came back";
  view.regret = ledger.regret;
  view.churn = ledger.churn;
  view.waste = ledger.waste;
  view.vanished = ledger.vanished;
  view.displaced = ledger.displaced;
  const uint64_t credit = UnmapLeft(ledger);
  view.credit = ledger.drops != Drops::kOpen ? 0 : std::min(credit, ledger.total + kUnmapCredit);
  const uint64_t window = LoadWindow(ledger);
  view.window = window == UINT64_MAX ? 0 : window;
  view.refused_loads = ledger.refused_loads;
  view.refused_drops = ledger.refused_drops;
  view.failing = ledger.failing;
  return view;
}

}  // namespace ppc
