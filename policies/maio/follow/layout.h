// SPDX-License-Identifier: Apache-2.0
//
// A template made ready for one run: the files cut into pieces such that a
// piece is listed by the same groups throughout, and for every group the order
// in which it uses the pieces.  Matcher, planner and evictor share it; the state
// of pieces and uses, which lies beside, is changed by the piece table alone.
//
// A piece is the unit of loading (neighbours are joined to chunks) and of
// releasing.  A use is one appearance of a piece in a group's sequence.
//
// The tensors of experts, cut among many workers, would be a million pieces.
// A layout with so many is joined: what lies within one cell of the grid is one
// piece of all who read some of it, and its parts say whose each page is.
#ifndef POLICIES_MAIO_FOLLOW_LAYOUT_H_
#define POLICIES_MAIO_FOLLOW_LAYOUT_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/group_set.h"
#include "policies/maio/template/template.h"

namespace ppc::maio {

enum class PieceState : uint8_t {
  kAbsent,
  kQueued,    // asked for, not reported yet
  kResident,  // loaded, as far as reported
  kTouched,   // the front end loaded at least a part of it
};

enum PieceFlag : uint8_t {
  kReleased = 1,  // dropped by us; a later miss is our mistake
  kConsumed = 2,  // some group passed it
  kPrefetched = 4,
  kKeep = 8,          // not released before ready
  kNoUnmap = 16,      // thrashed once: leave its mappings alone
  kPreexisting = 32,  // nor after: it was cached before
  kRead = 64,         // some of it was not there before we asked for it
  kMissed = 128,      // a reader, or a populate, came for it
};

struct Piece {
  uint32_t page = 0;
  uint16_t pages = 0;
  uint16_t file = 0;             // index in files()
  uint16_t readers = 0;          // which set of groups, see Layout::GroupsOf
  uint32_t first_part = 0;       // of a joined layout
  uint32_t pending = 0;          // uses that are not burnt
  uint64_t release_us : 48 = 0;  // when it was dropped, or came back after that
  PieceState state : 8 = PieceState::kAbsent;
  uint8_t flags : 8 = 0;

  uint64_t bytes() const { return uint64_t{pages} * kPage; }
  uint64_t offset() const { return uint64_t{page} * kPage; }
  uint64_t end_page() const { return uint64_t{page} + pages; }
};
static_assert(sizeof(Piece) == 32 && kMaxFiles <= 1u << 16 && kMaxFileBytes / kPage <= 1ull << 32);

enum class UseState : uint8_t { kPending, kPassed, kBurnt };

struct Use {
  uint64_t pos = 0;  // bytes before it in the group's sequence
  uint32_t piece = 0;
  UseState state = UseState::kPending;
};

// What a group reads of a file, in the order of its sequence; an index counts the uses.  Neighbours
// that are read one after the other are one run.
class UseList {
 public:
  size_t size() const { return size_; }
  Use At(const std::vector<Piece>& pieces, uint32_t index) const {
    const Run& run = RunOf(index);
    const uint32_t piece = run.piece + (index - run.index);
    return {run.pos() + pieces[piece].offset() - pieces[run.piece].offset(), piece, StateOf(index)};
  }
  uint32_t PieceOf(uint32_t index) const {
    const Run& run = RunOf(index);
    return run.piece + (index - run.index);
  }
  UseState StateOf(uint32_t index) const {
    return static_cast<UseState>(states_[index / 4] >> index % 4 * 2 & 3);
  }
  // Whether the use at `index`, or the next one, is of this piece: as a rule it is.
  std::optional<uint32_t> NextUseOf(uint32_t piece, uint32_t index) const {
    if (index >= size_) return std::nullopt;
    const Run& run = RunOf(index);
    const uint32_t at = run.index + (piece - run.piece);
    const bool is_near = piece >= run.piece && at - index <= 1;
    if (!is_near || at - run.index >= Length(static_cast<size_t>(&run - runs_.data())))
      return std::nullopt;
    return at;
  }
  void SetState(uint32_t index, UseState state) {
    uint8_t& four = states_[index / 4];
    const unsigned shift = index % 4 * 2;
    four = static_cast<uint8_t>((four & ~(3u << shift)) | static_cast<unsigned>(state) << shift);
  }

  // Calls see(index) for each use of a piece; false from it ends the search.
  template <typename See>
  void ForEach(uint32_t piece, See see) const {
    for (size_t place = CountUpTo(piece); place-- > 0;) {
      const uint32_t run = RunAt(place);
      const uint32_t skip = piece - runs_[run].piece;
      if (skip >= longest_) return;  // no run before it reaches so far
      if (skip < Length(run) && !see(runs_[run].index + skip)) return;
    }
  }

  void Add(const std::vector<Piece>& pieces, uint32_t piece, uint64_t pos);
  void Close();  // after the last Add
  size_t held_bytes() const;

 private:
  struct Run {
    uint32_t page = 0;   // of the sequence
    uint32_t piece = 0;  // its first
    uint32_t index = 0;

    uint64_t pos() const { return uint64_t{page} * kPage; }
  };
  // In order of their first piece.
  uint32_t RunAt(size_t place) const {
    return by_piece_.empty() ? static_cast<uint32_t>(place) : by_piece_[place];
  }
  size_t CountUpTo(uint32_t piece) const;  // runs whose first piece is no later
  const Run& RunOf(uint32_t index) const {
    return *std::prev(std::upper_bound(runs_.begin(), runs_.end(), index,
                                       [](uint32_t i, const Run& r) { return i < r.index; }));
  }
  uint32_t Length(size_t run) const {
    const size_t end = run + 1 < runs_.size() ? runs_[run + 1].index : size_;
    return static_cast<uint32_t>(end) - runs_[run].index;
  }

  std::vector<Run> runs_;
  std::vector<uint8_t> states_;     // four in a byte
  std::vector<uint32_t> by_piece_;  // runs in order of their first piece; empty: they are
  uint32_t longest_ = 0;
  uint32_t size_ = 0;
};

struct LayoutGroup {
  uint32_t id = 0;  // worker or kCommonGroup
  uint64_t bytes = 0;
  std::vector<UseList> lists;  // per file
};

struct LayoutFile {
  std::string path;
  uint64_t number = 0;  // of the policy ABI; 0 = not usable in this run
  uint64_t bytes = 0;
  FileKind kind = FileKind::kOther;
  uint32_t first_piece = 0;
  uint32_t last_piece = 0;  // one past
  uint32_t first_cell = 0;  // of the grid
  uint32_t cells = 0;
};

class Layout {
 public:
  // Readers of the pages from `page` of a piece on.
  struct Part {
    uint16_t page = 0;
    uint16_t readers = 0;  // which set of groups
  };

  // numbers[i]: this run's number of file i, 0 leaves the file out.
  // Of the template nothing is left: both at once would be much of what a runner may take.
  Layout(Template t, std::span<const uint64_t> numbers, size_t max_pieces = kMaxPieces);

  const std::vector<LayoutFile>& files() const { return files_; }
  const std::vector<LayoutGroup>& groups() const { return groups_; }
  const std::vector<Piece>& pieces() const { return pieces_; }

  // Slot of a group, -1: none of the template.
  int32_t SlotOf(uint32_t id) const {
    // Workers are numbered from 0, and none is left out as a rule.
    return id < ids_.size() && ids_[id] == id ? static_cast<int32_t>(id) : FindSlot(id);
  }
  // -1: not a file of the template.
  int32_t FileOf(uint64_t number) const;
  // Indexes of the pieces that overlap pages [first, end) of a file.
  std::pair<uint32_t, uint32_t> PiecesOf(uint32_t file, uint64_t first, uint64_t end) const;
  const UseList& ListOf(uint32_t group, uint32_t file) const { return groups_[group].lists[file]; }
  Use UseAt(uint32_t group, uint32_t file, uint32_t index) const {
    return groups_[group].lists[file].At(pieces_, index);
  }
  // Calls see(group slot, index) for each use of a piece by any group.
  template <typename See>
  void ForEachUse(uint32_t piece, See see) const {
    const Piece& p = pieces_[piece];
    GroupsOf(p).ForEach([&](uint32_t group) {
      ListOf(group, p.file).ForEach(piece, [&](uint32_t index) {
        see(group, index);
        return true;
      });
    });
  }
  // Calls see(first page, end, groups) for each part of a piece, in order.
  template <typename See>
  void ForEachPart(uint32_t piece, See see) const {
    const Piece& p = pieces_[piece];
    if (!joined_) return see(p.page, p.end_page(), GroupsOf(p));
    const uint32_t end = EndOfParts(piece);
    for (uint32_t i = p.first_part; i < end; i++) {
      see(p.page + parts_[i].page, i + 1 < end ? p.page + parts_[i + 1].page : p.end_page(),
          sets_[parts_[i].readers]);
    }
  }
  // Groups that read some of the piece.
  const GroupSet& GroupsOf(const Piece& piece) const { return sets_[piece.readers]; }
  // Groups that read the first of these pieces; of joined ones, those that read some of pages
  // [first, end) or of the pages right beside.
  GroupSet ReadersOf(uint32_t first_piece, uint32_t last_piece, uint64_t first, uint64_t end) const;

  bool joined() const { return joined_; }
  uint64_t piece_pages() const { return piece_pages_; }
  uint64_t bytes() const { return bytes_; }  // of all pieces
  size_t held_bytes() const;                 // what the tables take of our own memory

 private:
  friend class PieceTable;
  // Whether other groups read what is before a page than what begins there.  The file's end is one,
  // though folios end there too: what else is lost of a worker's last slice nobody would load.
  int32_t FindSlot(uint32_t id) const;
  uint32_t EndOfParts(uint32_t piece) const {
    return piece + 1 < pieces_.size() ? pieces_[piece + 1].first_part
                                      : static_cast<uint32_t>(parts_.size());
  }
  template <typename Emit>
  void Cut(const Template& t, Emit emit) const;
  void CutPieces(const Template& t, size_t max_pieces);
  void AddPiece(uint32_t file, uint64_t page, uint64_t end, const GroupSet& readers);
  bool Join(uint32_t file, uint64_t page, uint64_t end, const GroupSet& readers);
  void CloseJoined();
  uint16_t SetOf(const GroupSet& readers);
  void IndexCells(LayoutFile* file);
  void AddUses(Template* t);

  std::vector<LayoutFile> files_;
  std::vector<LayoutGroup> groups_;
  std::vector<uint32_t> ids_;  // of the groups
  std::vector<Piece> pieces_;
  std::vector<uint32_t> cells_;  // per cell of each file's grid, and one more: its first piece
  std::vector<Part> parts_;      // of a joined layout, grouped by piece
  GroupSet joined_readers_;      // of the last piece, so far
  std::unordered_map<GroupSet, uint16_t, GroupSet::Hash> set_of_;  // while it is made
  std::vector<GroupSet> sets_;  // of groups, as pieces and parts name them; the first is of all
  bool joined_ = false;
  std::unordered_map<uint64_t, uint32_t> by_number_;
  uint64_t piece_pages_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_LAYOUT_H_
