// SPDX-License-Identifier: Apache-2.0
//
// What of the pages that a worker has mapped it has read, by the slices of a model's headers.
#include <algorithm>

#include "policies/maio/follow/layout.h"

namespace ppc::maio {
namespace {

constexpr uint64_t kAroundPages = 16;   // what a fault maps of single pages
constexpr uint64_t kFolioPages = 2048;  // no folio is larger

// The pages that one fault beside a slice's end may have mapped: around it, or the largest folio
// there that lies in `pages`.  Folios are aligned by their size.
Pages Straddling(Pages pages, uint64_t slice_end) {
  Pages most = {slice_end - std::min(slice_end, kAroundPages), slice_end + kAroundPages};
  for (uint64_t size = 2; size <= kFolioPages; size *= 2) {
    const uint64_t first = slice_end / size * size;
    if (first == slice_end || first < pages.first || first + size > pages.end) continue;
    most = {std::min(most.first, first), std::max(most.end, first + size)};
  }
  return most;
}

}  // namespace

std::optional<Pages> Layout::OwnPart(uint32_t group_id, uint64_t number, Pages pages) const {
  const int32_t file = FileOf(number);
  const int32_t slot = SlotOf(group_id);
  if (file < 0 || slot < 0 || joined_) return std::nullopt;
  auto [first, last] = PiecesOf(static_cast<uint32_t>(file), pages.first, pages.end);
  const auto is_own = [&](uint32_t piece) { return (pieces_[piece].groups >> slot & 1) != 0; };
  while (first < last && !is_own(first)) ++first;
  while (first < last && !is_own(last - 1)) --last;
  if (first == last) return std::nullopt;
  Pages own = {std::max<uint64_t>(pages.first, pieces_[first].page),
               std::min(pages.end, pieces_[last - 1].end_page())};
  const bool is_to_end = pages.end * kPage >= files_[static_cast<uint32_t>(file)].bytes;
  const Pages whole = {pages.first, is_to_end ? ~0ull : pages.end};
  const bool read_before = pages.first < Straddling(whole, own.first).first;
  const bool read_behind = pages.end > Straddling(whole, own.end).end;
  if (read_before || IsSliceEnd(static_cast<uint32_t>(file), pages.first)) own.first = pages.first;
  if (read_behind || IsSliceEnd(static_cast<uint32_t>(file), pages.end)) own.end = pages.end;
  return own;
}

bool Layout::IsSliceEnd(uint32_t file, uint64_t page) const {
  if (page == 0) return false;  // every file's first folio begins there
  const auto [first, last] = PiecesOf(file, page - 1, page + 1);
  if (last - first == 2) return pieces_[first].groups != pieces_[first + 1].groups;
  return last - first == 1 && (pieces_[first].page == page || pieces_[first].end_page() == page);
}

}  // namespace ppc::maio
