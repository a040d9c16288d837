// SPDX-License-Identifier: Apache-2.0
//
// A service that a new runner takes over in the middle of its load goes on where it was; one whose
// process failed is joined by the next one.
#include <string>
#include <vector>

#include "policies/maio/base/tuning.h"
#include "policies/maio/following.h"

namespace ppc::maio {

void Following::OpenCheckpoint() {
  if (run_->context->checkpoint == nullptr) return;
  constexpr size_t kBytes = PPC_MAX_CHECKPOINT;  // some thousand stretches
  checkpoint_ =
      Checkpoint(run_->context->checkpoint(run_->context, run_->spec.number, kBytes), kBytes);
}

bool Following::TakeOver() {
  const std::vector<uint8_t> note = checkpoint_.Read();
  if (note.empty()) return false;
  const std::optional<Progress> progress = DecodeProgress(*layout_, note);
  if (!progress) {
    reason_ = "the load starts over, its checkpoint is of another template";
    return false;
  }
  for (uint32_t g = 0; g < layout_->groups().size(); g++) matcher_->Resume(g, progress->groups[g]);
  evictor_->Resume(*progress);
  run_->workers.Resume(progress->workers);
  constrained_ = progress->is_constrained;
  reason_ = "goes on where the load was";
  return true;
}

// There is not room for all, and an earlier run of the service may have left pages of what is
// needed late.  A reader that was killed gives back memory of its own: there may be some room.
bool Following::MayBeLeftOver(const ppc_memory& memory) const {
  return memory.room < kChunkBytes ||
         (memory.room < template_bytes() && memory.cache >= kChunkBytes);
}

void Following::MakeRoom(const ppc_memory& memory) {
  if (memory.room < kChunkBytes || has_found_) evictor_->AllowRoom(memory.threshold / 2);
}

// Only what we know to be there can make room.
void Following::FindCached() {
  if (run_->context->resident == nullptr) return;
  const uint64_t deadline = run_->Now() + kFindBudgetNs;
  std::vector<uint8_t> bitmap;
  for (const LayoutFile& file : layout_->files()) {
    if (file.number == 0 || run_->Now() > deadline) continue;
    bitmap.assign((file.bytes / kPage + 8) / 8, 0);
    ppc_residency state = {};
    if (run_->context->resident(run_->context, file.number, 0, file.bytes, &state, bitmap.data(),
                                bitmap.size()) != 0 ||
        state.resident == 0) {
      continue;
    }
    for (uint32_t p = file.first_piece; p < file.last_piece; p++) {
      const Piece& piece = layout_->pieces()[p];
      bool is_there = true;
      for (uint64_t i = piece.page; is_there && i < piece.end_page() && i * kPage < file.bytes; i++)
        is_there = bitmap[i / 8] >> (i % 8) & 1;
      if (!is_there) continue;
      planner_->Found(p);
      has_found_ = true;
    }
  }
}

void Following::Join() {
  checkpoint_ = Checkpoint();
  OpenCheckpoint();
  MakeRoom(run_->Memory());
}

void Following::KeepFound() {
  table_->KeepFound();
  small_->KeepFound();
}

// Not what is on its way: who comes after finds it in the page cache.
void Following::SaveProgress() {
  if (!checkpoint_.is_kept()) return;
  const uint64_t released = evictor_->stats().released;
  if (run_->last_event_ns == saved_ns_ && released == saved_released_) return;
  saved_ns_ = run_->last_event_ns;
  saved_released_ = released;
  Progress progress;
  progress.distance = evictor_->distance();
  progress.is_constrained = constrained_;
  for (uint32_t g = 0; g < layout_->groups().size(); g++) {
    progress.groups.push_back(matcher_->Save(g));
    progress.groups.back().released = evictor_->position(g);
  }
  progress.workers = run_->workers.Save();
  if (checkpoint_.Write(EncodeProgress(*layout_, progress))) return;
  run_->Log(PPC_LOG_WARNING,
            "maio: service " + run_->spec.service_id +
                ": too much to note for a checkpoint; after a crash it goes on from an "
                "earlier one");
  checkpoint_ = Checkpoint();
}

}  // namespace ppc::maio
