// SPDX-License-Identifier: Apache-2.0
#include "extras/poll/map_scan.h"

#include <algorithm>
#include <array>
#include <bit>

#include "daemon/backend/backend.h"

namespace ppc {
namespace {

constexpr uint64_t kChunkPages = MapScan::kChunkBytes / kPageBytes;
constexpr uint64_t kUnitPages = MapScan::kUnitBytes / kPageBytes;

}  // namespace

MapScan::MapScan(uint64_t start, uint64_t offset, uint64_t length)
    : start_(start),
      offset_(offset),
      length_(length),
      seen_((length + kChunkBytes - 1) / kChunkBytes, 0),
      fronts_{0} {
  // Units beyond the mapping's end count as seen, so that the last chunk can be full.
  const uint64_t rest = length % kChunkBytes;
  if (rest != 0) {
    const uint64_t units = (rest + kUnitBytes - 1) / kUnitBytes;
    if (units < 64) seen_.back() = ~uint64_t{0} << units;
  }
}

// Reports new pages of a chunk; returns their units.
uint64_t MapScan::Look(int pagemap, uint64_t chunk, const Found& found) {
  const uint64_t at = chunk * kChunkBytes;
  const uint64_t pages = std::min(kChunkPages, (length_ - at + kPageBytes - 1) / kPageBytes);
  std::array<uint64_t, kChunkPages> entries;
  const size_t got = ReadPagemap(pagemap, start_ + at, std::span(entries.data(), pages));
  uint64_t units = 0;
  for (size_t page = 0; page < got; ++page) {
    if (IsPagePresent(entries[page])) units |= uint64_t{1} << (page / kUnitPages);
  }
  const uint64_t fresh = units & ~seen_[chunk];
  seen_[chunk] |= units;
  for (uint64_t left = fresh; left != 0;) {
    const auto first = static_cast<uint64_t>(std::countr_zero(left));
    const auto count = static_cast<uint64_t>(std::countr_one(left >> first));
    const uint64_t from = at + first * kUnitBytes;
    found(offset_ + from, std::min(count * kUnitBytes, length_ - from));
    left = first + count >= 64 ? 0 : left >> (first + count) << (first + count);
  }
  return fresh;
}

// Continues from a front while new pages come within kAhead chunks.
bool MapScan::Follow(int pagemap, uint64_t* front, uint64_t* chunks, const Found& found) {
  bool any = false;
  uint64_t empty = 0;
  for (uint64_t chunk = *front; chunk < seen_.size() && empty <= kAhead && *chunks > 0; ++chunk) {
    if (IsFull(chunk)) {
      if (chunk == *front && chunk + 1 < seen_.size()) ++*front;
      continue;
    }
    --*chunks;
    if (Look(pagemap, chunk, found) == 0) {
      ++empty;
      continue;
    }
    any = true;
    empty = 0;
    *front = chunk;
  }
  return any;
}

bool MapScan::Probe(int pagemap, uint64_t* chunks, const Found& found) {
  bool any = false;
  // Probes in strides from a moving start: neighbours mostly look alike.
  const uint64_t stride = seen_.size() / 8 + 1;
  for (uint64_t i = 0, probed = 0; i < seen_.size() && probed<kProbes&& * chunks> 0; ++i) {
    probe_ += stride;
    if (probe_ >= seen_.size()) probe_ = std::min(++phase_ % stride, seen_.size() - 1);
    if (IsFull(probe_)) continue;
    ++probed;
    --*chunks;
    if (Look(pagemap, probe_, found) == 0) continue;
    any = true;
    const bool is_known = std::any_of(fronts_.begin(), fronts_.end(), [this](uint64_t front) {
      return probe_ + kAhead >= front && probe_ <= front + kAhead;
    });
    if (is_known) continue;
    if (fronts_.size() < kMaxFronts) {
      fronts_.push_back(probe_);
    } else {
      fronts_[next_front_++ % kMaxFronts] = probe_;
    }
  }
  return any;
}

bool MapScan::Scan(int pagemap, uint64_t* chunks, const Found& found) {
  bool any = false;
  for (uint64_t& front : fronts_) any |= Follow(pagemap, &front, chunks, found);
  any |= Probe(pagemap, chunks, found);
  return any;
}

void MapScan::AddMapped(int pagemap, uint64_t offset, uint64_t length,
                        std::vector<bool>* bits) const {
  const uint64_t first = std::max(offset, offset_);
  const uint64_t last = std::min(offset + length, offset_ + length_);
  std::array<uint64_t, kChunkPages> entries;
  for (uint64_t at = first; at < last;) {
    const uint64_t pages = std::min((last - at + kPageBytes - 1) / kPageBytes, kChunkPages);
    const size_t got =
        ReadPagemap(pagemap, start_ + (at - offset_), std::span(entries.data(), pages));
    for (size_t page = 0; page < got; ++page) {
      const size_t bit = (at - offset) / kPageBytes + page;
      if (IsFilePage(entries[page]) && bit < bits->size()) (*bits)[bit] = true;
    }
    at += pages * kPageBytes;
  }
}

}  // namespace ppc
