// SPDX-License-Identifier: Apache-2.0
#include "extras/discovery/discovered_files.h"

#include <algorithm>
#include <bit>

#include "daemon/base/clock.h"

namespace ppc {
namespace {

uint64_t MixIno(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint16_t Seconds(uint64_t now_ns) { return static_cast<uint16_t>(now_ns / kNsPerSec); }

}  // namespace

DiscoveredFiles::DiscoveredFiles(size_t places)
    : sets_(std::bit_floor(std::clamp<size_t>(places, 2 * kWays, kMostPlaces)) / kWays) {}

size_t DiscoveredFiles::SetOf(uint64_t ino, int which) const {
  const uint64_t hash = MixIno(ino);
  return static_cast<size_t>(which == 0 ? hash : hash >> 32) & (sets_ - 1);
}

// The number holds part of a hash: another file in the same place gets the same number once in half
// a million times.
uint64_t DiscoveredFiles::NumberAt(size_t place, const Row& row) {
  const uint64_t tag = MixIno(InoOf(row) << 24 ^ row.generation) >> (64 - 39 + kPlaceBits);
  return FileDiscovery::kMark | tag << kPlaceBits | place;
}

const DiscoveredFiles::Row* DiscoveredFiles::RowOf(uint64_t number) const {
  const size_t place = number & ((uint64_t{1} << kPlaceBits) - 1);
  if (!FileDiscovery::IsDiscovered(number) || place >= rows_.size() || rows_[place].state == kFree)
    return nullptr;
  return NumberAt(place, rows_[place]) == number ? &rows_[place] : nullptr;
}

DiscoveredFiles::Row* DiscoveredFiles::Find(uint64_t ino) {
  if (rows_.empty()) return nullptr;
  for (const int which : {0, 1}) {
    Row* const begin = &rows_[SetOf(ino, which) * kWays];
    Row* const found = std::find_if(begin, begin + kWays, [ino](const Row& row) {
      return row.state != kFree && InoOf(row) == ino;
    });
    if (found != begin + kWays) return found;
  }
  return nullptr;
}

// Uses the emptier of two sets, so that the table fills up before an entry is replaced.
DiscoveredFiles::Row* DiscoveredFiles::RoomFor(uint64_t ino) {
  Row* best = nullptr;
  long least = 0;
  for (const int which : {0, 1}) {
    Row* const begin = &rows_[SetOf(ino, which) * kWays];
    Row* const end = begin + kWays;
    const long taken = std::count_if(begin, end, [](const Row& row) { return row.state != kFree; });
    Row* const room = std::find_if(begin, end, [](const Row& row) { return row.state == kFree; });
    if (room == end || (best != nullptr && taken >= least)) continue;
    best = room;
    least = taken;
  }
  if (best != nullptr) return best;
  for (const State state : {kRefused, kNew}) {
    for (const int which : {0, 1}) {
      Row* const begin = &rows_[SetOf(ino, which) * kWays];
      Row* const found = std::find_if(begin, begin + kWays,
                                      [state](const Row& row) { return row.state == state; });
      if (found != begin + kWays) return found;
    }
  }
  ++turn_;
  return &rows_[SetOf(ino, static_cast<int>(turn_ & 1)) * kWays + turn_ / 2 % kWays];
}

uint64_t DiscoveredFiles::Discover(const File& file, uint64_t now_ns, File* gone) {
  *gone = File{};
  if (file.ino == 0 || file.ino >> 40 != 0) return 0;
  const std::lock_guard lock(mutex_);
  if (rows_.empty()) rows_.resize(sets_ * kWays);
  Row* row = Find(file.ino);
  const bool is_known = row != nullptr && row->generation == file.generation;
  if (is_known && row->state == kRefused) {
    const auto age = static_cast<uint16_t>(Seconds(now_ns) - row->units);
    if (age < kRefusedS) return 0;
  }
  if (row == nullptr) row = RoomFor(file.ino);
  if (!is_known && row->state >= kConfirmed) {
    *gone = File{InoOf(*row), row->generation};
    --files_;
  }
  if (!is_known || row->state == kRefused) {
    *row = Row{.ino_low = static_cast<uint32_t>(file.ino),
               .generation = file.generation,
               .units = 0,
               .ino_high = static_cast<uint8_t>(file.ino >> 32),
               .state = kNew};
  }
  return NumberAt(static_cast<size_t>(row - rows_.data()), *row);
}

std::optional<DiscoveredFiles::File> DiscoveredFiles::Get(uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const Row* const row = RowOf(number);
  if (row == nullptr || row->state == kRefused) return std::nullopt;
  return File{InoOf(*row), row->generation};
}

uint64_t DiscoveredFiles::NumberOf(uint64_t ino) const {
  const std::lock_guard lock(mutex_);
  const Row* const row = const_cast<DiscoveredFiles*>(this)->Find(ino);
  if (row == nullptr || row->state == kRefused) return 0;
  return NumberAt(static_cast<size_t>(row - rows_.data()), *row);
}

bool DiscoveredFiles::Confirm(uint64_t number, bool is_listed) {
  const std::lock_guard lock(mutex_);
  Row* const row = RowOf(number);
  const State state = is_listed ? kListed : kConfirmed;
  if (row == nullptr || row->state == kRefused || row->state == state) return false;
  if (row->state == kNew) ++files_;
  row->state = state;
  return true;
}

bool DiscoveredFiles::IsConfirmed(uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const Row* const row = RowOf(number);
  return row != nullptr && row->state >= kConfirmed;
}

void DiscoveredFiles::Refuse(uint64_t number, uint64_t now_ns) {
  const std::lock_guard lock(mutex_);
  Row* const row = RowOf(number);
  if (row == nullptr) return;
  if (row->state >= kConfirmed) --files_;
  row->state = kRefused;
  row->units = Seconds(now_ns);
}

void DiscoveredFiles::Forget(uint64_t number) {
  const std::lock_guard lock(mutex_);
  Row* const row = RowOf(number);
  if (row == nullptr) return;
  if (row->state >= kConfirmed) --files_;
  *row = Row{};
}

size_t DiscoveredFiles::Files() const {
  const std::lock_guard lock(mutex_);
  return files_;
}

uint16_t DiscoveredFiles::Units(uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const Row* const row = RowOf(number);
  return row == nullptr || row->state == kRefused ? uint16_t{0} : row->units;
}

void DiscoveredFiles::SetUnits(uint64_t number, uint16_t units) {
  const std::lock_guard lock(mutex_);
  Row* const row = RowOf(number);
  if (row != nullptr && row->state != kRefused) row->units = units;
}

}  // namespace ppc
