// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/piece_table.h"

namespace ppc::maio {
namespace {

bool IsThere(PieceState state) {
  return state == PieceState::kResident || state == PieceState::kTouched;
}

}  // namespace

void PieceTable::SetState(uint32_t index, PieceState state) {
  Piece& piece = At(index);
  const PieceState before = piece.state;
  if (IsThere(before)) resident_ -= piece.bytes();
  if (IsThere(state)) resident_ += piece.bytes();
  piece.state = state;
  if (state == PieceState::kAbsent && before != state && on_absent_) on_absent_(index);
}

void PieceTable::Load(uint32_t piece, bool is_read) {
  At(piece).flags |= static_cast<uint8_t>(kPrefetched | (is_read ? kRead : 0));
  At(piece).flags &= static_cast<uint8_t>(~kReleased);
  SetState(piece, PieceState::kResident);
}

void PieceTable::LoadPart(uint32_t piece, bool is_read) {
  if (is_read) At(piece).flags |= kRead;
  SetState(piece, PieceState::kTouched);
}

void PieceTable::See(uint32_t index, PieceFlag how) {
  Piece& piece = At(index);
  if ((piece.flags & (kConsumed | kMissed)) == 0) seen_ += piece.bytes();
  piece.flags |= how;
}

void PieceTable::Miss(uint32_t piece) {
  See(piece, kMissed);
  Touch(piece);
}

void PieceTable::Touch(uint32_t piece) {
  if (At(piece).state == PieceState::kAbsent) SetState(piece, PieceState::kTouched);
}

void PieceTable::Release(uint32_t index, uint64_t now_ns) {
  SetState(index, PieceState::kAbsent);
  Piece& piece = At(index);
  if (piece.pending == 0) piece.flags |= kReleased;
  piece.release_us = now_ns / 1000;
}

uint64_t PieceTable::Pass(uint32_t group, uint32_t file, uint32_t index) {
  UseList& list = ListOf(group, file);
  if (list.StateOf(index) != UseState::kPending) return 0;
  list.SetState(index, UseState::kPassed);
  const uint32_t piece = list.PieceOf(index);
  See(piece, kConsumed);
  return At(piece).bytes();
}

bool PieceTable::Burn(uint32_t group, uint32_t file, uint32_t index) {
  UseList& list = ListOf(group, file);
  const Use use = list.At(layout_->pieces(), index);
  if (use.state == UseState::kBurnt) return false;
  list.SetState(index, UseState::kBurnt);
  Piece& piece = At(use.piece);
  if (piece.pending != 0) piece.pending--;  // 0: forgone before
  return piece.pending == 0;
}

void PieceTable::Unpass(uint32_t group, uint32_t file, uint32_t index) {
  UseList& list = ListOf(group, file);
  const Use use = list.At(layout_->pieces(), index);
  if (use.state == UseState::kBurnt) At(use.piece).pending++;
  list.SetState(index, UseState::kPending);
  // Releasing it was right when it was done.
  At(use.piece).flags &= static_cast<uint8_t>(~kReleased);
}

void PieceTable::Renew(uint32_t group, uint32_t file, uint32_t index) {
  Unpass(group, file, index);
  Piece& piece = At(ListOf(group, file).PieceOf(index));
  if ((piece.flags & (kConsumed | kMissed)) != 0) seen_ -= piece.bytes();
  piece.flags &= static_cast<uint8_t>(~(kConsumed | kMissed));
}

// What several groups begin with counts once.  The share is found by halves; each step marks anew.
uint64_t PieceTable::KeepHeads(uint64_t bytes) {
  const auto mark = [this](double share) {
    uint64_t sum = 0;
    for (Piece& piece : layout_->pieces_) piece.flags &= static_cast<uint8_t>(~kStandby);
    for (const LayoutGroup& group : layout_->groups_) {
      const auto end = static_cast<uint64_t>(share * static_cast<double>(group.bytes));
      for (const UseList& list : group.lists) {
        for (uint32_t i = 0; i < list.size(); i++) {
          const Use use = list.At(layout_->pieces_, i);
          Piece& piece = layout_->pieces_[use.piece];
          if (use.pos + piece.bytes() > end || (piece.flags & kStandby) != 0) continue;
          piece.flags |= kStandby;
          sum += piece.bytes();
        }
      }
    }
    return sum;
  };
  double most = 1;
  if (mark(most) > bytes) {
    double least = 0;
    for (int step = 0; step < 10; step++) {
      const double middle = (least + most) / 2;
      (mark(middle) > bytes ? most : least) = middle;
    }
    most = least;
  }
  const uint64_t kept = mark(most);
  for (Piece& piece : layout_->pieces_) {
    if ((piece.flags & kStandby) != 0) piece.flags |= kKeep;
  }
  return kept;
}

std::vector<uint32_t> PieceTable::GiveUpHeads() {
  std::vector<uint32_t> free;
  for (uint32_t p = 0; p < layout_->pieces_.size(); p++) {
    Piece& piece = At(p);
    if ((piece.flags & kStandby) == 0) continue;
    piece.flags &= static_cast<uint8_t>(~(kStandby | kKeep));
    if (piece.pending == 0) free.push_back(p);
  }
  return free;
}

void PieceTable::KeepFound() {
  for (Piece& piece : layout_->pieces_) {
    if ((piece.flags & kRead) == 0) piece.flags |= kStandby;
  }
}

void PieceTable::ForgoAll() {
  for (Piece& piece : layout_->pieces_) piece.pending = 0;
}

}  // namespace ppc::maio
