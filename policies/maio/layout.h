// SPDX-License-Identifier: Apache-2.0
//
// A template made ready for one run: the files cut into pieces such that a
// piece is listed by the same groups throughout, and for every group the order
// in which it uses the pieces.  Matcher, planner and evictor share it; it owns
// the state of pieces and uses.
//
// A piece is the unit of loading (neighbours are joined to chunks) and of
// releasing.  A use is one appearance of a piece in a group's sequence.
#ifndef POLICIES_MAIO_LAYOUT_H_
#define POLICIES_MAIO_LAYOUT_H_

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "policies/maio/template.h"

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
  kKeep = 8,      // not released before ready
  kNoUnmap = 16,  // thrashed once: leave its mappings alone
};

// Large models have a million of them.
struct Piece {
  uint64_t page = 0;
  uint64_t groups = 0;  // bit per group slot
  uint64_t release_ns = 0;
  uint32_t pages = 0;
  uint32_t first_ref = 0;  // into the reference table
  uint32_t pending = 0;    // uses that are not burnt
  uint16_t file = 0;       // index in files()
  PieceState state = PieceState::kAbsent;
  uint8_t flags = 0;

  uint64_t bytes() const { return uint64_t{pages} * kPage; }
  uint64_t offset() const { return page * kPage; }
  uint64_t end_page() const { return page + pages; }
};
static_assert(sizeof(Piece) == 40 && kMaxFiles <= 1u << 16);

enum class UseState : uint8_t { kPending, kPassed, kBurnt };

struct Use {
  uint64_t pos = 0;    // bytes before it in the group's sequence
  uint64_t stamp = 0;  // see Passed::stamp
  uint32_t piece = 0;
  uint32_t index : 30 = 0;  // in the group's list of this file
  UseState state : 2 = UseState::kPending;
};
static_assert(sizeof(Use) == 24);

struct Ref {
  uint32_t group = 0;  // slot
  uint32_t use = 0;
};

struct LayoutGroup {
  uint32_t id = 0;  // worker or kCommonGroup
  uint64_t bytes = 0;
  std::vector<Use> uses;                     // in order of pos
  std::vector<std::vector<uint32_t>> lists;  // per file: uses in order of pos
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
  uint32_t errors = 0;
};

class Layout {
 public:
  // numbers[i]: this run's number of file i, 0 leaves the file out.
  Layout(const Template& t, std::span<const uint64_t> numbers);

  std::vector<LayoutFile>& files() { return files_; }
  std::vector<LayoutGroup>& groups() { return groups_; }
  const std::vector<LayoutGroup>& groups() const { return groups_; }
  std::vector<Piece>& pieces() { return pieces_; }

  // Slot of a group, -1: none of the template.
  int32_t SlotOf(uint32_t id) const;
  // -1: not a file of the template.
  int32_t FileOf(uint64_t number) const;
  // Indexes of the pieces that overlap pages [first, end) of a file.
  std::pair<uint32_t, uint32_t> PiecesOf(uint32_t file, uint64_t first, uint64_t end) const;
  std::span<const Ref> RefsOf(uint32_t piece) const;
  Use& UseOf(const Ref& ref) { return groups_[ref.group].uses[ref.use]; }
  const Use& UseOf(const Ref& ref) const { return groups_[ref.group].uses[ref.use]; }
  const Use& ListedUse(uint32_t group, uint32_t file, uint32_t index) const {
    const LayoutGroup& g = groups_[group];
    return g.uses[g.lists[file][index]];
  }

  uint64_t piece_pages() const { return piece_pages_; }
  uint64_t bytes() const { return bytes_; }  // of all pieces
  size_t held_bytes() const;                 // what the tables take of our own memory

 private:
  template <typename Emit>
  void Cut(const std::vector<uint64_t>& edges, Emit emit) const;
  void CutPieces(const Template& t);
  void IndexCells(LayoutFile* file);
  void CountUses(const Template& t);
  void AddUses(const Template& t);

  std::vector<LayoutFile> files_;
  std::vector<LayoutGroup> groups_;
  std::vector<uint32_t> ids_;  // of the groups
  std::vector<Piece> pieces_;
  std::vector<uint32_t> cells_;  // per cell of each file's grid, and one more: its first piece
  std::vector<Ref> refs_;        // grouped by piece
  std::unordered_map<uint64_t, uint32_t> by_number_;
  uint64_t piece_pages_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_LAYOUT_H_
