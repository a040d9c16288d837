// SPDX-License-Identifier: Apache-2.0
//
// When what a template lists has been read, and how well it fitted, see following.h.
#include <algorithm>
#include <optional>
#include <vector>

#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/following.h"

namespace ppc::maio {

void Following::Rest() {
  for (uint32_t g = 0; g < layout_->groups().size(); g++) matcher_->Rest(g);
  Trace(run_->Now());
}

void Following::EndWeights() {
  for (uint32_t g = 0; g < layout_->groups().size(); g++) matcher_->Rest(g);
  evictor_->ClearDistance();
}

void Following::GoOn() {
  for (uint32_t g = 0; g < layout_->groups().size(); g++) planner_->Reset(g);
}

void Following::Pause() {
  for (uint32_t g = 0; g < layout_->groups().size(); g++)
    run_->context->interrupt_of(run_->context, run_->spec.number, g);
  if (!small_->finished() || small_->stats().asked != 0)
    run_->context->interrupt_of(run_->context, run_->spec.number, SmallFiles::kGroup);
  for (uint32_t g = 0; g < layout_->groups().size(); g++) planner_->Interrupted(g);
  evictor_->ForgetEnd();
  native_.TakeAll();
}

bool Following::IsAtEnd() const {
  bool any = false;
  for (uint32_t g = 0; g < layout_->groups().size(); g++) {
    if (layout_->groups()[g].id == kCommonGroup || layout_->groups()[g].bytes == 0) continue;
    any = true;
    if (!matcher_->cursors()[g].dropped && !matcher_->IsAtEnd(g)) return false;
  }
  return any && small_->finished();
}

bool Following::IsReload(const miss_io& event, bool may_be_replaced) {
  const int32_t file = layout_->FileOf(event.file);
  const bool is_miss = event.kind == PPC_MISS_READ || event.kind == PPC_MISS_FAULT;
  if (file < 0 || !is_miss || layout_->files()[file].kind == FileKind::kSmall) return false;
  const int32_t slot = layout_->SlotOf(run_->workers.Resolve(event, true));
  const auto [first, last] = layout_->PiecesOf(static_cast<uint32_t>(file), event.offset / kPage,
                                               (event.offset + event.size + kPage - 1) / kPage);
  if (slot < 0 || first == last) return false;
  if (may_be_replaced && run_->workers.has_replacement()) return true;
  const auto group = static_cast<uint32_t>(slot);
  const auto f = static_cast<uint32_t>(file);
  std::optional<uint32_t> index;
  layout_->ListOf(group, f).ForEach(first, [&](uint32_t i) {
    index = index ? std::min(*index, i) : i;
    return true;
  });
  return index && reload_detector_.IsReload(group, f, *index, event.time_ns);
}

// Where hits may not be seen (mapped by huge pages, sampled) a file that nobody opened is unread,
// and of an open one nothing can be said.
std::vector<UnreadRange> Following::Unread() const {
  // Who reads past the page cache maps nothing.
  const bool is_unsure =
      (run_->context->caps & (PPC_MISSES_HUGE | PPC_IS_SAMPLED)) != 0 && !cache_use_.has_passed();
  std::vector<UnreadRange> unread;
  if (has_holes_ || (is_unsure && !has_opens_)) return unread;
  for (uint32_t f = 0; f < layout_->files().size(); f++) {
    const LayoutFile& file = layout_->files()[f];
    if (is_unsure && seen_files_[f]) continue;
    for (uint32_t p = file.first_piece; p < file.last_piece; p++) {
      const Piece& piece = layout_->pieces()[p];
      if ((piece.flags & (kConsumed | kMissed)) != 0) continue;
      const bool goes_on = !unread.empty() && unread.back().path == file.path &&
                           unread.back().end_page == piece.page;
      if (!goes_on) unread.push_back({file.path, piece.page, piece.page});
      unread.back().end_page = piece.end_page();
    }
  }
  return unread;
}

TemplateUse Following::UseOfTemplate(bool is_whole, Repair* found) const {
  TemplateUse use;
  use.matched_events = matcher_->matched();
  use.unknown_events = matcher_->unknown();
  use.foreign_events = foreign_events();
  use.listed_bytes = template_bytes();
  use.gone_bytes = small_->stats().gone;
  use.unlisted_bytes = native_.unlisted_bytes();
  use.model_bytes = layout_->bytes();
  use.dropped_bytes = evictor_->stats().dropped;
  use.refault_bytes = refault_bytes();
  found->unlisted = native_.unlisted();
  if (is_whole) found->unread = Unread();
  for (const UnreadRange& range : found->unread)
    use.unread_bytes += (range.end_page - range.first_page) * kPage;
  return use;
}

StatusSources Following::Parts() const {
  return {*run_,         *layout_,        *small_,     *affinity_,  *matcher_,
          *planner_,     *evictor_,       device_,     node_bytes_, template_bytes(),
          beacon_bytes_, votes_->swaps(), constrained_};
}

}  // namespace ppc::maio
