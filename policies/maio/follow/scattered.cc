// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/scattered.h"

#include <bit>

#include "policies/maio/base/tuning.h"

namespace ppc::maio {
namespace {

// Of fewer places nothing is to be said.
constexpr uint64_t kLeastExtents = 64;
// One of so many goes back in the file: who reads it from the start to the end does not.
constexpr uint64_t kBackShare = 8;

struct Reading {
  uint64_t extents = 0;
  uint64_t pages = 0;
  uint64_t back = 0;

  // Small reads on average: more is worth a request of its own.
  bool IsScattered() const {
    return extents >= kLeastExtents && pages <= extents * kSmallReadPages &&
           back * kBackShare >= extents;
  }
};

}  // namespace

std::vector<bool> ScatteredFiles(const Template& t) {
  std::vector<Reading> readings(t.files.size());
  for (const TemplateGroup& group : t.groups) {
    std::unordered_map<uint32_t, uint64_t> reached;
    for (const Extent& e : group.extents) {
      if (t.files[e.file].kind != FileKind::kOther) continue;
      Reading& reading = readings[e.file];
      uint64_t& at = reached[e.file];
      reading.extents++;
      reading.pages += e.pages;
      reading.back += e.page < at ? 1 : 0;
      at = e.page + e.pages;
    }
  }
  std::vector<bool> is_scattered;
  is_scattered.reserve(readings.size());
  for (const Reading& reading : readings) is_scattered.push_back(reading.IsScattered());
  return is_scattered;
}

Cells::Cells(const Template& t, const std::vector<bool>& is_scattered) {
  for (const TemplateGroup& group : t.groups) {
    for (const Extent& e : group.extents) {
      if (!is_scattered[e.file]) continue;
      for (uint64_t page = e.page; page < e.page + e.pages; page++)
        pages_[KeyOf(e.file, page / kPages)] |= 1ull << page % kPages;
    }
  }
}

// The first pages of a cell and what lies close behind them: from, to.
std::pair<uint64_t, uint64_t> Cells::TakeRun(uint64_t* pages) {
  const auto first = static_cast<uint64_t>(std::countr_zero(*pages));
  uint64_t end = first;
  while (*pages != 0) {
    const auto next = static_cast<uint64_t>(std::countr_zero(*pages));
    if (next > end + kGapPages) break;
    end = next + 1;
    *pages &= *pages - 1;
  }
  return {first, end};
}

}  // namespace ppc::maio
