// SPDX-License-Identifier: Apache-2.0
//
// A service that a new runner takes over in the middle of its load goes on where it was; one whose
// process failed is joined by the next one.
#include <string>
#include <vector>

#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/following.h"

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
  for (uint32_t g = 0; g < layout_->groups().size(); g++)
    matcher_->Resume(g, progress->groups[g], run_->Now());
  evictor_->Resume(*progress);
  run_->workers.Resume(progress->workers);
  constrained_ = progress->is_constrained;
  reason_ = "goes on where the load was";
  return true;
}

// Only what we know to be there can make room.
void Following::MakeRoom(const ppc_memory& memory) {
  if (memory.room < kChunkBytes || has_found_) evictor_->AllowRoom(memory.threshold / 2);
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
