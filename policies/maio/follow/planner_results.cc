// SPDX-License-Identifier: Apache-2.0
//
// What became of what was asked for, see planner.h.
#include <algorithm>
#include <cerrno>

#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/planner.h"

namespace ppc::maio {
namespace {

// Of a part that was interrupted, its beginning.
uint64_t GoodBytes(const ppc_result& result) {
  if (result.error != 0 || result.failed != 0) return 0;
  return result.interrupted ? std::min(result.size, result.ok + result.resident) : result.size;
}

}  // namespace

void Planner::Reset(uint32_t group) {
  exhausted_ = false;
  std::fill(next_[group].begin(), next_[group].end(), 0);
}

void Planner::Reopen(uint32_t piece) {
  exhausted_ = false;
  const uint32_t file = layout_->pieces()[piece].file;
  layout_->ForEachUse(piece, [&](uint32_t group, uint32_t index) {
    next_[group][file] = std::min(next_[group][file], index);
  });
}

void Planner::Found(uint32_t piece) {
  table_->Find(piece);
  const uint32_t file = layout_->pieces()[piece].file;
  layout_->ForEachUse(piece, [&](uint32_t group, uint32_t index) {
    const uint64_t end = layout_->UseAt(group, file, index).pos + layout_->pieces()[piece].bytes();
    horizon_[group] = std::max(horizon_[group], end);
  });
}

// A chunk may be reported in parts, in any order.
void Planner::Done(const ppc_result& result, uint64_t now_ns) {
  // The runtime grants no loads at present, which says nothing of the disk.
  const bool is_refused = result.error == -EDQUOT;
  if (is_refused) refused_until_ns_ = now_ns + kRefusedNs;
  stats_.loaded += result.ok;
  stats_.redundant += result.resident;
  stats_.failed += result.failed;
  auto it = chunks_.find(result.cookie);
  if (it == chunks_.end()) return Late(result);
  Chunk& chunk = it->second;
  chunk.reported += result.size;
  chunk.is_read |= result.ok != 0;
  uint64_t good = GoodBytes(result);
  if (good != 0) chunk.good.emplace_back(result.offset, result.offset + good);
  if (result.interrupted) stats_.interrupted += result.size - std::min(result.size, good);
  const bool is_error = result.error != 0 && result.error != -EINTR && !is_refused;
  if (is_error || result.failed != 0)
    chunk.bad.emplace_back(result.offset, result.offset + result.size);
  if (is_error) CountError(layout_->pieces()[chunk.first].file);
  // The last page of a file may be reported whole or cut.
  if (chunk.reported + kPage > chunk.bytes) Close(it);
}

void Planner::CountError(uint32_t file) {
  if (++errors_[file] == kMaxFileErrors && on_file_failed_) on_file_failed_(file);
}

// A bad sector, or pages that are reclaimed at once: loaded again and again it would keep the disk
// from all others.
void Planner::CountFailure(uint32_t piece) {
  uint8_t& tries = tries_[piece];
  if (tries < kMaxTries && ++tries == kMaxTries)
    stats_.given_up += layout_->pieces()[piece].bytes();
}

bool Planner::IsGivenUp(uint32_t piece) const {
  if (tries_.empty()) return false;
  const auto tries = tries_.find(piece);
  return tries != tries_.end() && tries->second >= kMaxTries;
}

// Of a chunk that was given up when its group was interrupted.
void Planner::Late(const ppc_result& result) {
  int32_t file = layout_->FileOf(result.file);
  uint64_t end = result.offset + GoodBytes(result);
  if (file < 0 || end == result.offset) return;
  auto [first, last] = layout_->PiecesOf(static_cast<uint32_t>(file), result.offset / kPage,
                                         (end + kPage - 1) / kPage);
  for (uint32_t p = first; p < last; p++) {
    const Piece& piece = layout_->pieces()[p];
    uint64_t piece_end = std::min(piece.end_page() * kPage, layout_->files()[piece.file].bytes);
    if (!Plannable(piece) || piece.offset() < result.offset || piece_end > end) continue;
    table_->Load(p, result.ok != 0);
  }
}

void Planner::Close(std::map<uint64_t, Chunk>::iterator it) {
  Chunk chunk = std::move(it->second);
  chunks_.erase(it);
  queued_ -= chunk.bytes;
  group_queued_[chunk.group] -= chunk.bytes;
  std::sort(chunk.good.begin(), chunk.good.end());
  uint64_t file_bytes = layout_->files()[layout_->pieces()[chunk.first].file].bytes;
  for (uint32_t p = chunk.first; p < chunk.first + chunk.count; p++) {
    const Piece& piece = layout_->pieces()[p];
    uint64_t start = std::max(piece.offset(), chunk.offset);
    uint64_t end = std::min(piece.end_page() * kPage, file_bytes);
    uint64_t reach = start;
    for (auto [from, to] : chunk.good) {
      if (from <= reach) reach = std::max(reach, to);
    }
    const bool has_failed = std::ranges::any_of(
        chunk.bad, [&](const auto& bad) { return bad.first < end && bad.second > start; });
    if (has_failed && reach < end) CountFailure(p);
    if (reach >= end) {
      table_->Load(p, chunk.is_read);
    } else if (reach > start) {
      table_->LoadPart(p, chunk.is_read);
      Reopen(p);
    } else {
      table_->Lose(p);
    }
  }
}

void Planner::Interrupted(uint32_t group) {
  for (auto it = chunks_.begin(); it != chunks_.end();) {
    auto next = std::next(it);
    if (it->second.group == group) Close(it);
    it = next;
  }
}

void Planner::Expire(uint64_t now_ns) {
  for (auto it = chunks_.begin(); it != chunks_.end();) {
    auto next = std::next(it);
    if (now_ns > it->second.ns + kExpiryNs) Close(it);
    it = next;
  }
}

}  // namespace ppc::maio
