// SPDX-License-Identifier: Apache-2.0
//
// A service that a new runner takes over in the middle of its load goes on where it was.
#include <string>

#include "policies/maio/service.h"

namespace ppc::maio {

void Service::OpenCheckpoint() {
  if (context_->checkpoint == nullptr) return;
  constexpr size_t kBytes = PPC_MAX_CHECKPOINT;  // some thousand stretches
  checkpoint_ = Checkpoint(context_->checkpoint(context_, spec_.number, kBytes), kBytes);
}

bool Service::TakeOver() {
  const std::vector<uint8_t> note = checkpoint_.Read();
  if (note.empty()) return false;
  const std::optional<Progress> progress = DecodeProgress(*layout_, note);
  if (!progress) {
    reason_ += "; the load starts over, its checkpoint is of another template";
    return false;
  }
  for (uint32_t g = 0; g < layout_->groups().size(); g++) matcher_->Resume(g, progress->groups[g]);
  evictor_->Resume(*progress);
  workers_.Resume(progress->workers);
  constrained_ = progress->is_constrained;
  reason_ += "; goes on where the load was";
  return true;
}

// Not what is on its way: who comes after finds it in the page cache.
void Service::SaveProgress() {
  if (!checkpoint_.is_kept()) return;
  const uint64_t released = evictor_->stats().released;
  if (last_event_ns_ == saved_ns_ && released == saved_released_) return;
  saved_ns_ = last_event_ns_;
  saved_released_ = released;
  Progress progress;
  progress.distance = evictor_->distance();
  progress.is_constrained = constrained_;
  for (uint32_t g = 0; g < layout_->groups().size(); g++) {
    progress.groups.push_back(matcher_->Save(g));
    progress.groups.back().released = evictor_->position(g);
  }
  progress.workers = workers_.Save();
  if (checkpoint_.Write(EncodeProgress(*layout_, progress))) return;
  Log(PPC_LOG_WARNING, "maio: service " + spec_.service_id +
                           ": too much to note for a checkpoint; after a crash it goes on from an "
                           "earlier one");
  checkpoint_ = Checkpoint();
}

}  // namespace ppc::maio
