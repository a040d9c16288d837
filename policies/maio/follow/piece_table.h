// SPDX-License-Identifier: Apache-2.0
//
// The life of pieces, changed here and nowhere else.
//
//             asked for            reported whole, or found there
//   absent ---------------> queued ---------------------------> resident
//    ^ | ^                    | |                                  |
//    | | +---- not loaded ----+ | in part                          |
//    | |                        v                                  |
//    | +-- missed by ------> touched -- asked for --> queued       |
//    |     the front end        |                                  |
//    +--------------------------+------ released, or lost ---------+
//
// A piece may go when nobody needs it any more: `pending` counts the uses of all groups that are
// not burnt.
//
//             read                    the reader has gone on far enough,
//   pending --------------> passed -- or it is gone ------------------> burnt
//      ^                      |                                          |
//      +----------------------+------- read again, reader starts anew ---+
//
// What was released once all its uses were burnt is marked: to miss it is our mistake.
// Readers of the table see pieces through its layout.
#ifndef POLICIES_MAIO_FOLLOW_PIECE_TABLE_H_
#define POLICIES_MAIO_FOLLOW_PIECE_TABLE_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "policies/maio/follow/layout.h"

namespace ppc::maio {

class PieceTable {
 public:
  // layout: as it was made; nobody else changes it from here on.
  explicit PieceTable(Layout* layout) : layout_(layout) {}
  ~PieceTable() = default;
  PieceTable(const PieceTable&) = delete;
  PieceTable& operator=(const PieceTable&) = delete;

  const Layout& layout() const { return *layout_; }
  // Bytes of the pieces that are resident or touched.
  uint64_t resident_bytes() const { return resident_; }
  // Bytes of the pieces that a reader has read or missed.
  uint64_t seen_bytes() const { return seen_; }
  // Called with each piece that has become absent: it may be loaded again.
  void OnAbsent(std::function<void(uint32_t)> see) { on_absent_ = std::move(see); }

  // ------------------------------------------------------------ what is there
  void Queue(uint32_t piece) { SetState(piece, PieceState::kQueued); }
  // What was asked for is there; is_read: it was not before.
  void Load(uint32_t piece, bool is_read = true);
  // Only a part of it is.
  void LoadPart(uint32_t piece, bool is_read = true);
  // It is there, whoever loaded it.
  void Find(uint32_t piece) { SetState(piece, PieceState::kResident); }
  // The front end loads some of an absent one.
  void Touch(uint32_t piece);
  // A reader, or a populate, came for it and it was not there.
  void Miss(uint32_t piece);
  // Somebody came for it: how is kConsumed or kMissed.
  void See(uint32_t piece, PieceFlag how);
  // It is not there, or not any more.
  void Lose(uint32_t piece) { SetState(piece, PieceState::kAbsent); }
  // What we have dropped is dropped again where it is still there.
  void ForgetReleases();
  // We drop it.
  void Release(uint32_t piece, uint64_t now_ns);
  // It came back after we had dropped it: it is dropped again a while after that at the earliest.
  void Return(uint32_t piece, uint64_t now_ns) { At(piece).release_us = now_ns / 1000; }
  // Its readers needed it sooner than we thought: its mappings are left alone.
  void LeaveMapped(uint32_t piece) { At(piece).flags |= kNoUnmap; }

  // -------------------------------------------------------------- who needs it
  // A use of a group's list of a file.  How many bytes it is, 0: it was read already.
  uint64_t Pass(uint32_t group, uint32_t file, uint32_t index);
  // True: nobody needs the piece any more.
  bool Burn(uint32_t group, uint32_t file, uint32_t index);
  // It is going to be read (again).
  void Unpass(uint32_t group, uint32_t file, uint32_t index);
  // As if nobody had read it.
  void Renew(uint32_t group, uint32_t file, uint32_t index);
  // What was cached before is not released at the end.
  void KeepPreexisting();
  // No group needs any piece.
  void ReleaseAllUses();

 private:
  Piece& At(uint32_t piece) { return layout_->pieces_[piece]; }
  UseList& ListOf(uint32_t group, uint32_t file) { return layout_->groups_[group].lists[file]; }
  void SetState(uint32_t piece, PieceState state);

  Layout* const layout_;
  uint64_t resident_ = 0;
  uint64_t seen_ = 0;
  std::function<void(uint32_t)> on_absent_;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_PIECE_TABLE_H_
