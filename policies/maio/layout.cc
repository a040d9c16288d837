// SPDX-License-Identifier: Apache-2.0
//
// Cutting files into pieces and listing their uses.
#include "policies/maio/layout.h"

#include <algorithm>
#include <bit>

namespace ppc::maio {
namespace {

// Pieces small enough for eviction to be fine-grained on small models, large
// enough for the table to stay small on large ones.
uint64_t PiecePages(uint64_t total_bytes) {
  uint64_t bytes = std::bit_ceil(std::max<uint64_t>(total_bytes / 16384, 1));
  return std::clamp<uint64_t>(bytes, 1 << 20, 8 << 20) / kPage;
}

constexpr uint32_t kMaxIndex = (1u << 30) - 1;  // of Use::index; lists are never so long

}  // namespace

Layout::Layout(const Template& t, std::span<const uint64_t> numbers) {
  uint64_t total = 0;
  files_.resize(t.files.size());
  for (size_t i = 0; i < files_.size(); i++) {
    files_[i].path = t.files[i].path;
    files_[i].number = numbers[i];
    files_[i].bytes = t.files[i].size;
    files_[i].kind = t.files[i].kind;
    if (numbers[i] != 0) by_number_[numbers[i]] = static_cast<uint32_t>(i);
    total += t.files[i].size;
  }
  piece_pages_ = PiecePages(total);
  CutPieces(t);
  AddUses(t);
}

// Calls emit(first page, end) for each piece of a file with these edges.
template <typename Emit>
void Layout::Cut(const std::vector<uint64_t>& edges, Emit emit) const {
  int32_t depth = 0;
  for (size_t i = 0; i < edges.size(); i++) {
    depth += (edges[i] & 1) != 0 ? -1 : 1;
    uint64_t page = edges[i] >> 1;
    uint64_t end = i + 1 < edges.size() ? edges[i + 1] >> 1 : page;
    while (depth > 0 && page < end) {
      // Cut on the grid too, so that what two groups share is cut alike.
      uint64_t cut = std::min(end, (page / piece_pages_ + 1) * piece_pages_);
      emit(page, cut);
      page = cut;
    }
  }
}

void Layout::CutPieces(const Template& t) {
  // Per file: pages where an extent begins, or, with the lowest bit set, ends.
  std::vector<std::vector<uint64_t>> edges(files_.size());
  std::vector<size_t> extents(files_.size(), 0);
  for (const TemplateGroup& group : t.groups) {
    ids_.push_back(group.id);
    for (const Extent& e : group.extents) extents[e.file]++;
  }
  for (size_t f = 0; f < files_.size(); f++) {
    if (files_[f].number != 0) edges[f].reserve(2 * extents[f]);
  }
  for (const TemplateGroup& group : t.groups) {
    for (const Extent& e : group.extents) {
      if (files_[e.file].number == 0) continue;
      edges[e.file].push_back(e.page << 1);
      edges[e.file].push_back((e.page + e.pages) << 1 | 1);
    }
  }
  size_t count = 0;
  for (auto& list : edges) {
    std::sort(list.begin(), list.end());
    Cut(list, [&](uint64_t, uint64_t) { count++; });
  }
  pieces_.reserve(count);
  for (uint32_t f = 0; f < files_.size(); f++) {
    files_[f].first_piece = static_cast<uint32_t>(pieces_.size());
    Cut(edges[f], [&](uint64_t page, uint64_t end) {
      Piece piece;
      piece.page = page;
      piece.pages = static_cast<uint32_t>(end - page);
      piece.file = static_cast<uint16_t>(f);
      if (files_[f].kind == FileKind::kSmall) piece.flags |= kKeep;
      bytes_ += piece.bytes();
      pieces_.push_back(piece);
    });
    files_[f].last_piece = static_cast<uint32_t>(pieces_.size());
    IndexCells(&files_[f]);
  }
}

// No piece is in two cells, so that looking one up is a look at its cell.
void Layout::IndexCells(LayoutFile* file) {
  file->first_cell = static_cast<uint32_t>(cells_.size());
  uint32_t piece = file->first_piece;
  for (uint64_t cell = 0; piece < file->last_piece; cell++) {
    cells_.push_back(piece);
    while (piece < file->last_piece && pieces_[piece].page / piece_pages_ == cell) piece++;
  }
  file->cells = static_cast<uint32_t>(cells_.size()) - file->first_cell;
  cells_.push_back(file->last_piece);
}

// Room for exactly the uses there will be: growing tables would be up to twice as large.
void Layout::CountUses(const Template& t) {
  for (uint32_t g = 0; g < groups_.size(); g++) {
    std::vector<size_t> counts(files_.size(), 0);
    size_t total = 0;
    for (const Extent& e : t.groups[g].extents) {
      if (files_[e.file].number == 0) continue;
      auto [first, last] = PiecesOf(e.file, e.page, e.page + e.pages);
      counts[e.file] += last - first;
      total += last - first;
    }
    groups_[g].uses.reserve(total);
    groups_[g].lists.resize(files_.size());
    for (size_t f = 0; f < files_.size(); f++) groups_[g].lists[f].reserve(counts[f]);
  }
}

void Layout::AddUses(const Template& t) {
  groups_.resize(t.groups.size());
  CountUses(t);
  std::vector<uint32_t> counts(pieces_.size() + 1, 0);
  for (uint32_t g = 0; g < groups_.size(); g++) {
    LayoutGroup& group = groups_[g];
    group.id = t.groups[g].id;
    for (const Extent& e : t.groups[g].extents) {
      if (files_[e.file].number == 0) continue;
      auto [first, last] = PiecesOf(e.file, e.page, e.page + e.pages);
      for (uint32_t p = first; p < last; p++) {
        Use use;
        use.pos = group.bytes;
        use.piece = p;
        use.index = static_cast<uint32_t>(group.lists[e.file].size()) & kMaxIndex;
        group.lists[e.file].push_back(static_cast<uint32_t>(group.uses.size()));
        group.uses.push_back(use);
        group.bytes += pieces_[p].bytes();
        pieces_[p].groups |= 1ull << g;
        pieces_[p].pending++;
        counts[p]++;
      }
    }
  }
  uint32_t total = 0;
  for (uint32_t p = 0; p < pieces_.size(); p++) {
    pieces_[p].first_ref = total;
    total += counts[p];
  }
  refs_.resize(total);
  std::vector<uint32_t> fill(pieces_.size(), 0);
  for (uint32_t g = 0; g < groups_.size(); g++) {
    for (uint32_t u = 0; u < groups_[g].uses.size(); u++) {
      uint32_t p = groups_[g].uses[u].piece;
      refs_[pieces_[p].first_ref + fill[p]++] = {g, u};
    }
  }
}

size_t Layout::held_bytes() const {
  size_t bytes = pieces_.capacity() * sizeof(Piece) + refs_.capacity() * sizeof(Ref) +
                 cells_.capacity() * sizeof(uint32_t);
  for (const LayoutGroup& group : groups_) {
    bytes += group.uses.capacity() * sizeof(Use);
    for (const auto& list : group.lists) bytes += sizeof(list) + list.capacity() * sizeof(uint32_t);
  }
  return bytes;
}

int32_t Layout::SlotOf(uint32_t id) const {
  auto it = std::find(ids_.begin(), ids_.end(), id);
  return it == ids_.end() ? -1 : static_cast<int32_t>(it - ids_.begin());
}

int32_t Layout::FileOf(uint64_t number) const {
  auto it = by_number_.find(number);
  return it == by_number_.end() ? -1 : static_cast<int32_t>(it->second);
}

std::pair<uint32_t, uint32_t> Layout::PiecesOf(uint32_t file, uint64_t first, uint64_t end) const {
  const LayoutFile& f = files_[file];
  const uint64_t cell = first / piece_pages_;
  if (cell >= f.cells || first >= end) return {f.last_piece, f.last_piece};
  const uint32_t* cells = &cells_[f.first_cell];
  const uint32_t piece = cells[cell];
  if (piece + 1 == cells[cell + 1] && end <= (cell + 1) * piece_pages_) {
    // One event, one piece: nearly always.
    const bool before = pieces_[piece].end_page() <= first;
    const bool meets = !before && pieces_[piece].page < end;
    return {piece + (before ? 1 : 0), piece + (before || meets ? 1 : 0)};
  }
  auto from = std::partition_point(pieces_.begin() + cells[cell], pieces_.begin() + cells[cell + 1],
                                   [&](const Piece& p) { return p.end_page() <= first; });
  const uint64_t end_cell = std::min<uint64_t>((end - 1) / piece_pages_, f.cells - 1);
  auto to = std::partition_point(std::max(from, pieces_.begin() + cells[end_cell]),
                                 pieces_.begin() + cells[end_cell + 1],
                                 [&](const Piece& p) { return p.page < end; });
  return {static_cast<uint32_t>(from - pieces_.begin()),
          static_cast<uint32_t>(to - pieces_.begin())};
}

std::span<const Ref> Layout::RefsOf(uint32_t piece) const {
  uint32_t first = pieces_[piece].first_ref;
  uint32_t last = piece + 1 < pieces_.size() ? pieces_[piece + 1].first_ref
                                             : static_cast<uint32_t>(refs_.size());
  return {refs_.data() + first, last - first};
}

}  // namespace ppc::maio
