// SPDX-License-Identifier: Apache-2.0
// The record's files and their cells; samples of the page cache, and what follows for loads that
// are gone.
#include <algorithm>
#include <utility>

#include "daemon/backend/backend.h"
#include "daemon/exec/guard.h"

namespace ppc {

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
  bytes = std::min(bytes, kMostFileBytes);
  const auto needed = [&] { return static_cast<size_t>(((bytes - 1) >> shift_) + 1); };
  while (shift_ < kMostShift && cells_ - file->cells.size() + needed() > kMaxCells) DoubleUnit();
  const size_t count = std::min(needed(), kMaxCells - (cells_ - file->cells.size()));
  bytes = std::min(bytes, uint64_t{count} << shift_);
  if (bytes <= file->bytes) return;
  // Loads tell no more of a file than where they end.
  if (file->counted_by != kNobody) Of(file->counted_by).total += bytes - file->bytes;
  file->bytes = bytes;
  cells_ += count - file->cells.size();
  file->cells.resize(count);
}

// Another service's it is no more, and its clock says nothing to the next owner.
void Guard::Disown(Cell* cell) {
  if (cell->owner == kNobody) return;
  Take(&Of(cell->owner).unseen, cell->loaded * kPageBytes);
  *cell = Cell{.present = cell->present,
               .flags = static_cast<uint16_t>(cell->flags & (kIsKnown | kHasCursor))};
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
      Cell from = std::exchange(cells[i], Cell{});
      Cell& to = cells[i / 2];
      if (i % 2 == 0) {
        to = from;
        continue;
      }
      if (from.owner != to.owner) {
        // The one of which more is open keeps it.
        const bool is_less = from.loaded + from.dropped <= to.loaded + to.dropped;
        Disown(to.owner != kNobody && is_less ? &from : &to);
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

template <typename Goes>
void Guard::Forget(Goes goes) {
  recent_ = {};
  std::erase_if(files_, [&](const std::unique_ptr<File>& file) {
    if (!goes(*file)) return false;
    for (Cell& cell : file->cells) Disown(&cell);
    cells_ -= file->cells.size();
    by_number_.erase(file->number);
    return true;
  });
}

// Of what is forgotten nothing comes back, and nothing is judged.
void Guard::ForgetFiles() {
  Forget([](const File& file) {
    return std::ranges::none_of(
        file.cells, [](const Cell& cell) { return cell.loaded != 0 || cell.dropped != 0; });
  });
  if (files_.size() > kMaxFiles / 4 * 3) Forget([](const File&) { return true; });
}

void Guard::ForgetFilesOfNobody() {
  Forget([](const File& file) {
    return file.counted_by == kNobody &&
           std::ranges::all_of(file.cells, [](const Cell& cell) { return cell.owner == kNobody; });
  });
  if (files_.empty()) shift_ = kLeastShift;
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
                    file.cells[at].loaded, file.cells[at].owner != 0});
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
  ServiceState& owner = Of(cell.owner);
  cell.loaded = static_cast<uint16_t>(there);
  Take(&owner.unseen, gone);
  has_vanished_ = true;
  Vanish(&owner, cell, gone);
  Judge(&owner, now_ns);
}

// The last limit was set for all bytes loaded before it: they do not count again.
void Guard::Vanish(ServiceState* state, const Cell& cell, uint64_t bytes) {
  state->vanished += bytes;
  state->seen_since = 0;
  const auto age = static_cast<int16_t>(cell.at - state->limited_stamp);
  if (state->loads != Loads::kOpen && age <= 0) return;
  state->waste_now += bytes;
  state->gone += bytes;
  if (state->vanishes) state->gone = std::min(state->gone, kNearWindow);
}

void Guard::SetExpectation(bool vanishes) {
  if (std::exchange(expects_vanishing_, vanishes) != vanishes && tell_vanishing_)
    tell_vanishing_(vanishes);
}

bool Guard::Survives(ServiceState* state, uint64_t now_ns) {
  if (!state->vanishes || state->vanished >= kMiB || state->loaded == 0) return false;
  if (state->survival_ns == 0) state->survival_ns = now_ns;
  return now_ns >= state->survival_ns + kSurvivalNs;
}

}  // namespace ppc
