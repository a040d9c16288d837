// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/in_memory.h"

#include <algorithm>

#include "policies/maio/base/tuning.h"

namespace ppc::maio {

std::vector<uint32_t> FindCached(const ppc_context* context, const Layout& layout) {
  std::vector<uint32_t> cached;
  if (context->resident == nullptr) return cached;
  const uint64_t deadline = context->now_ns(context) + kFindBudgetNs;
  std::vector<uint8_t> bitmap;
  for (const LayoutFile& file : layout.files()) {
    if (file.number == 0 || context->now_ns(context) > deadline) continue;
    bitmap.assign((file.bytes / kPage + 8) / 8, 0);
    ppc_residency state = {};
    if (context->resident(context, file.number, 0, file.bytes, &state, bitmap.data(),
                          bitmap.size()) != 0 ||
        state.resident == 0) {
      continue;
    }
    for (uint32_t p = file.first_piece; p < file.last_piece; p++) {
      const Piece& piece = layout.pieces()[p];
      bool is_there = true;
      for (uint64_t i = piece.page; is_there && i < piece.end_page() && i * kPage < file.bytes; i++)
        is_there = bitmap[i / 8] >> (i % 8) & 1;
      if (is_there) cached.push_back(p);
    }
  }
  return cached;
}

std::vector<uint32_t> FindVanished(const ppc_context* context, const Layout& layout,
                                   uint32_t first) {
  std::vector<uint32_t> vanished;
  if (context->resident == nullptr) return vanished;
  const uint64_t deadline = context->now_ns(context) + kLookBudgetNs;
  for (uint32_t p = first; p < layout.pieces().size(); p++) {
    const Piece& piece = layout.pieces()[p];
    const LayoutFile& file = layout.files()[piece.file];
    if (piece.state != PieceState::kResident || piece.pending == 0 || file.number == 0) continue;
    const uint64_t bytes = std::min(piece.end_page() * kPage, file.bytes) - piece.offset();
    ppc_residency state = {};
    if (context->resident(context, file.number, piece.offset(), bytes, &state, nullptr, 0) != 0 ||
        context->now_ns(context) > deadline) {
      break;
    }
    // The miss has brought back what it read, all of a small piece.
    if (state.resident >= bytes && p != first) break;
    if (state.resident < bytes) vanished.push_back(p);
  }
  return vanished;
}

bool IsPartlyCached(const ppc_context* context, const std::vector<TemplateFile>& files,
                    const std::vector<uint64_t>& numbers) {
  if (context->resident == nullptr) return false;
  const uint64_t deadline = context->now_ns(context) + kFindBudgetNs;
  uint64_t bytes = 0;
  uint64_t there = 0;
  for (size_t i = 0; i < files.size() && context->now_ns(context) < deadline; i++) {
    ppc_residency state = {};
    if (files[i].kind == FileKind::kSmall || numbers[i] == 0) continue;
    if (context->resident(context, numbers[i], 0, files[i].size, &state, nullptr, 0) != 0) continue;
    bytes += files[i].size;
    there += state.resident;
  }
  return there * kUnseenShare > bytes;
}

}  // namespace ppc::maio
