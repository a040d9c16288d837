// SPDX-License-Identifier: Apache-2.0
//
// Cutting files into pieces and listing their uses.
#include "policies/maio/follow/layout.h"

#include <array>
#include <bit>
#include <numeric>

#include "policies/maio/template/edges.h"

namespace ppc::maio {
namespace {

// A part of a joined piece: smaller ones only where their readers are none of the neighbours'.
constexpr uint64_t kTinyPages = (16 << 10) / kPage;
// Neighbours of different readers that are both so large are pieces of their own.
constexpr uint64_t kOwnPages = (2 << 20) / kPage;
// A joined piece that a group comes to again after so much of its sequence is read again.
constexpr uint64_t kAgainBytes = 256ull << 20;

// Pieces small enough for eviction to be fine-grained on small models, large
// enough for the table to stay small on large ones.
uint64_t PiecePages(uint64_t total_bytes) {
  uint64_t bytes = std::bit_ceil(std::max<uint64_t>(total_bytes / 16384, 1));
  return std::clamp<uint64_t>(bytes, 1 << 20, 8 << 20) / kPage;
}

}  // namespace

// ------------------------------------------------------------------------ uses

void UseList::Add(const std::vector<Piece>& pieces, uint32_t piece, uint64_t pos) {
  const uint32_t index = size_++;
  if (index % 4 == 0) states_.push_back(0);  // all of them pending
  if (!runs_.empty()) {
    const Run& run = runs_.back();
    const uint32_t next = run.piece + (index - run.index);
    const Piece& before = pieces[next - 1];
    if (piece == next && pieces[piece].page == before.end_page() &&
        pos == run.pos() + pieces[piece].offset() - pieces[run.piece].offset())
      return;
  }
  runs_.push_back({static_cast<uint32_t>(pos / kPage), piece, index});
}

void UseList::Close() {
  runs_.shrink_to_fit();
  states_.shrink_to_fit();
  for (size_t run = 0; run < runs_.size(); run++) longest_ = std::max(longest_, Length(run));
  // Nearly all are read in order.
  if (std::ranges::is_sorted(runs_, {}, &Run::piece)) return;
  by_piece_.resize(runs_.size());
  std::iota(by_piece_.begin(), by_piece_.end(), 0);
  std::ranges::stable_sort(by_piece_, {}, [this](uint32_t run) { return runs_[run].piece; });
}

size_t UseList::CountUpTo(uint32_t piece) const {
  size_t first = 0, end = runs_.size();
  while (first < end) {
    const size_t middle = first + (end - first) / 2;
    if (runs_[RunAt(middle)].piece <= piece) {
      first = middle + 1;
    } else {
      end = middle;
    }
  }
  return first;
}

size_t UseList::held_bytes() const {
  return sizeof(*this) + runs_.capacity() * sizeof(Run) + states_.capacity() +
         by_piece_.capacity() * sizeof(uint32_t);
}

// ---------------------------------------------------------------------- pieces

Layout::Layout(Template t, std::span<const uint64_t> numbers, size_t max_pieces) {
  uint64_t total = 0;
  // A node follows as many; a whole template of more nodes gives each its own before.
  if (t.groups.size() > kMaxGroups) t.groups.resize(kMaxGroups);
  files_.resize(t.files.size());
  for (size_t i = 0; i < files_.size(); i++) {
    files_[i].path = t.files[i].path;
    files_[i].number = numbers[i];
    files_[i].bytes = t.files[i].size;
    files_[i].kind = t.files[i].kind;
    if (numbers[i] != 0) by_number_[numbers[i]] = static_cast<uint32_t>(i);
    total += t.files[i].size;
  }
  for (const TemplateGroup& group : t.groups) ids_.push_back(group.id);
  sets_.push_back(GroupSet::Below(static_cast<uint32_t>(t.groups.size())));
  piece_pages_ = PiecePages(total);
  CutPieces(t, max_pieces);
  AddUses(&t);
}

// Calls emit(file, first page, end, readers) for each stretch, in order, until it returns false.
template <typename Emit>
void Layout::Cut(const Template& t, Emit emit) const {
  EdgeReader edges(t, [this](uint32_t file) { return files_[file].number != 0; });
  std::array<uint32_t, kMaxGroups> depth = {};
  GroupSet readers;
  Edge edge;
  Edge next;
  for (bool more = edges.Next(&edge); more; edge = next) {
    uint32_t& reading = depth[edge.slot];
    reading += edge.is_end ? -edge.times : edge.times;
    if (reading != 0) {
      readers.Add(edge.slot);
    } else {
      readers.Remove(edge.slot);
    }
    more = edges.Next(&next);
    uint64_t page = edge.page;
    const uint64_t end = more && next.file == edge.file ? next.page : page;
    while (page < end && !readers.empty()) {
      // Cut on the grid too, so that what two groups share is cut alike.
      const uint64_t cut = std::min(end, (page / piece_pages_ + 1) * piece_pages_);
      if (!emit(edge.file, page, cut, readers)) return;
      page = cut;
    }
  }
}

void Layout::CutPieces(const Template& t, size_t max_pieces) {
  size_t count = 0;
  size_t cells = files_.size();
  for (const LayoutFile& file : files_) cells += file.bytes / kPage / piece_pages_ + 1;
  Cut(t, [&](uint32_t, uint64_t, uint64_t, const GroupSet&) { return ++count != 0; });
  joined_ = count > max_pieces;
  // Tables that grew step by step would stand twice, before they are moved; what they do not fill
  // of these stays untouched.
  pieces_.reserve(joined_ ? std::min(count, cells) : count);
  if (joined_) parts_.reserve(count);
  uint32_t file = 0;
  uint64_t from = 0, to = 0;  // what is not yet a piece, or a part of one
  GroupSet whose;
  auto flush = [&] {
    if (from != to && !Join(file, from, to, whose)) AddPiece(file, from, to, whose);
    from = to = 0;
  };
  auto close_before = [&](uint32_t next) {
    for (; file < next; file++) {
      flush();
      files_[file].last_piece = static_cast<uint32_t>(pieces_.size());
      IndexCells(&files_[file]);
      if (file + 1 < files_.size()) files_[file + 1].first_piece = files_[file].last_piece;
    }
  };
  Cut(t, [&](uint32_t f, uint64_t page, uint64_t end, const GroupSet& readers) {
    close_before(f);
    if (!joined_) {
      AddPiece(f, page, end, readers);
      return true;
    }
    // What has the same readers is one stretch, wherever extents end.
    if (page != to || page % piece_pages_ == 0 || readers != whose) {
      flush();
      from = page;
      whose = readers;
    }
    to = end;
    return true;
  });
  close_before(static_cast<uint32_t>(files_.size()));
  CloseJoined();
  cells_.shrink_to_fit();
  set_of_ = {};
}

void Layout::AddPiece(uint32_t file, uint64_t page, uint64_t end, const GroupSet& readers) {
  CloseJoined();
  Piece piece;
  piece.page = static_cast<uint32_t>(page);
  piece.pages = static_cast<uint16_t>(end - page);
  piece.file = static_cast<uint16_t>(file);
  piece.readers = SetOf(readers);
  if (files_[file].kind == FileKind::kSmall) piece.flags |= kKeep;
  if (joined_) {
    piece.first_part = static_cast<uint32_t>(parts_.size());
    parts_.push_back({0, piece.readers});
    joined_readers_ = readers;
  }
  bytes_ += piece.bytes();
  pieces_.push_back(piece);
}

// Adds a stretch to the last piece; false when it must be a piece of its own.
bool Layout::Join(uint32_t file, uint64_t page, uint64_t end, const GroupSet& readers) {
  if (pieces_.size() == files_[file].first_piece) return false;
  Piece& piece = pieces_.back();
  if (piece.end_page() != page || page % piece_pages_ == 0) return false;
  const uint64_t part_pages = page - piece.page - parts_.back().page;
  if (part_pages >= kOwnPages && end - page >= kOwnPages) return false;
  // The page in which one reader's slice ends and the next one's begins belongs to the first.
  if (part_pages <= kTinyPages && parts_.size() > piece.first_part + 1) {
    const GroupSet beside = sets_[parts_[parts_.size() - 2].readers] | readers;
    if (sets_[parts_.back().readers].IsWithin(beside)) parts_.pop_back();
  }
  const uint16_t set = SetOf(readers);
  if (set != parts_.back().readers)
    parts_.push_back({static_cast<uint16_t>(page - piece.page), set});
  piece.pages = static_cast<uint16_t>(piece.pages + (end - page));
  joined_readers_ |= readers;
  bytes_ += (end - page) * kPage;
  return true;
}

// Who reads the last piece is known when nothing is joined to it any more.
void Layout::CloseJoined() {
  if (joined_ && !pieces_.empty()) pieces_.back().readers = SetOf(joined_readers_);
}

// There are few different sets: each worker, neighbours, all.  Of too many the others are all.
uint16_t Layout::SetOf(const GroupSet& readers) {
  constexpr size_t kMaxSets = 1u << 16;
  if (sets_.back() == readers) return static_cast<uint16_t>(sets_.size() - 1);
  const auto known = set_of_.find(readers);
  if (known != set_of_.end()) return known->second;
  if (sets_.size() == kMaxSets) return 0;
  const auto set = static_cast<uint16_t>(sets_.size());
  sets_.push_back(readers);
  set_of_.emplace(readers, set);
  return set;
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

void Layout::AddUses(Template* t) {
  groups_.resize(t->groups.size());
  constexpr uint32_t kUnused = ~0u;
  std::vector<uint32_t> used_at;  // in pages
  for (uint32_t g = 0; g < groups_.size(); g++) {
    LayoutGroup& group = groups_[g];
    group.id = t->groups[g].id;
    group.lists.resize(files_.size());
    used_at.assign(pieces_.size(), kUnused);
    for (const Extent& e : t->groups[g].extents) {
      if (files_[e.file].number == 0) continue;
      auto [first, last] = PiecesOf(e.file, e.page, e.page + e.pages);
      for (uint32_t p = first; p < last; p++) {
        // No start-up reads so much that a position would not fit; it would be read natively.
        if (group.bytes + pieces_[p].bytes() >= kMaxFileBytes) continue;
        const bool again = used_at[p] != kUnused;
        // Of a joined piece the group has listed another part just before.
        if (joined_ && again && group.bytes / kPage - used_at[p] < kAgainBytes / kPage) continue;
        used_at[p] = static_cast<uint32_t>(group.bytes / kPage);
        group.lists[e.file].Add(pieces_, p, group.bytes);
        group.bytes += pieces_[p].bytes();
        pieces_[p].pending++;
      }
    }
    for (UseList& list : group.lists) list.Close();
    t->groups[g].extents = {};
  }
}

size_t Layout::held_bytes() const {
  size_t bytes = pieces_.size() * sizeof(Piece) + parts_.size() * sizeof(Part) +
                 cells_.capacity() * sizeof(uint32_t) + sets_.capacity() * sizeof(GroupSet);
  for (const LayoutGroup& group : groups_) {
    for (const UseList& list : group.lists) bytes += list.held_bytes();
  }
  return bytes;
}

GroupSet Layout::ReadersOf(uint32_t first_piece, uint32_t last_piece, uint64_t first,
                           uint64_t end) const {
  if (!joined_) return GroupsOf(pieces_[first_piece]);
  GroupSet readers;
  for (uint32_t p = first_piece; p < last_piece; p++) {
    ForEachPart(p, [&](uint64_t from, uint64_t to, const GroupSet& groups) {
      if (from < end + kTinyPages && first < to + kTinyPages) readers |= groups;
    });
  }
  return readers;
}

int32_t Layout::FindSlot(uint32_t id) const {
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
  auto from = std::partition_point(pieces_.begin() + piece, pieces_.begin() + cells[cell + 1],
                                   [&](const Piece& p) { return p.end_page() <= first; });
  const uint64_t end_cell = std::min<uint64_t>((end - 1) / piece_pages_, f.cells - 1);
  auto to = std::partition_point(std::max(from, pieces_.begin() + cells[end_cell]),
                                 pieces_.begin() + cells[end_cell + 1],
                                 [&](const Piece& p) { return p.page < end; });
  return {static_cast<uint32_t>(from - pieces_.begin()),
          static_cast<uint32_t>(to - pieces_.begin())};
}

}  // namespace ppc::maio
