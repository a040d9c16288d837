// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/record/slice_ends.h"

#include <algorithm>

namespace ppc::maio {

std::pair<uint64_t, uint64_t> SliceEnds::Cut(const Layout& headers, uint32_t group, uint32_t file,
                                             uint64_t first, uint64_t end) {
  const int32_t slot = headers.SlotOf(group);
  if (slot < 0 || headers.joined()) return {first, end};
  auto [piece, last_piece] = headers.PiecesOf(file, first, end);
  const auto is_own = [&](uint32_t p) { return (headers.pieces()[p].groups >> slot & 1) != 0; };
  while (piece < last_piece && !is_own(piece)) ++piece;
  while (piece < last_piece && !is_own(last_piece - 1)) --last_piece;
  uint64_t from = first;
  uint64_t kept = end;
  if (piece != last_piece) {
    from = std::max<uint64_t>(first, headers.pieces()[piece].page);
    kept = std::min(end, headers.pieces()[last_piece - 1].end_page());
  }
  Last& last = last_[{group, file}];
  if (last.end == first && last.end != 0) from = last.kept;
  last = {kept, end};
  return {from, kept};
}

}  // namespace ppc::maio
