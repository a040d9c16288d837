// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/progress_notes.h"

#include <vector>

#include "policies/maio/follow/progress.h"

namespace ppc::maio {

void ProgressNotes::Open() {
  if (run_->context->checkpoint == nullptr) return;
  constexpr size_t kBytes = PPC_MAX_CHECKPOINT;  // some thousand stretches
  checkpoint_ =
      Checkpoint(run_->context->checkpoint(run_->context, run_->spec.number, kBytes), kBytes);
}

std::optional<bool> ProgressNotes::TakeOver(std::string* reason) {
  const std::vector<uint8_t> note = checkpoint_.Read();
  if (note.empty()) return std::nullopt;
  const std::optional<Progress> progress = DecodeProgress(*layout_, note);
  if (!progress) {
    *reason = "the load starts over, its checkpoint is of another template";
    return std::nullopt;
  }
  for (uint32_t g = 0; g < layout_->groups().size(); g++)
    matcher_->Resume(g, progress->groups[g], run_->Now());
  evictor_->Resume(*progress);
  *reason = "goes on where the load was";
  return progress->is_constrained;
}

void ProgressNotes::Save(bool is_constrained) {
  if (!checkpoint_.is_kept()) return;
  const uint64_t released = evictor_->stats().released;
  if (run_->last_event_ns == saved_ns_ && released == saved_released_) return;
  saved_ns_ = run_->last_event_ns;
  saved_released_ = released;
  Progress progress;
  progress.distance = evictor_->distance();
  progress.is_constrained = is_constrained;
  for (uint32_t g = 0; g < layout_->groups().size(); g++) {
    progress.groups.push_back(matcher_->Save(g));
    progress.groups.back().released = evictor_->position(g);
  }
  if (checkpoint_.Write(EncodeProgress(*layout_, progress))) return;
  run_->Log(PPC_LOG_WARNING,
            "maio: service " + run_->spec.service_id +
                ": too much to note for a checkpoint; after a crash it goes on from an "
                "earlier one");
  checkpoint_ = Checkpoint();
}

void ProgressNotes::OpenAnew() {
  checkpoint_ = Checkpoint();
  Open();
}

void ProgressNotes::End() {
  checkpoint_.Clear();
  checkpoint_ = Checkpoint();
}

}  // namespace ppc::maio
