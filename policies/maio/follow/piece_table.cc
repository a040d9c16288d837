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

void PieceTable::KeepPreexisting() {
  for (Piece& piece : layout_->pieces_) {
    if ((piece.flags & kRead) == 0) piece.flags |= kPreexisting;
  }
}

void PieceTable::ForgetReleases() {
  for (Piece& piece : layout_->pieces_) piece.flags &= static_cast<uint8_t>(~kReleased);
}

void PieceTable::ReleaseAllUses() {
  for (Piece& piece : layout_->pieces_) piece.pending = 0;
}

}  // namespace ppc::maio
