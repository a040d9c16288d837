// SPDX-License-Identifier: Apache-2.0
//
// How far a service is, noted for whoever takes over after a crash, and taken
// over from whoever was before.
#ifndef POLICIES_MAIO_FOLLOW_PROGRESS_NOTES_H_
#define POLICIES_MAIO_FOLLOW_PROGRESS_NOTES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "policies/maio/base/run.h"
#include "policies/maio/base/tuning.h"
#include "policies/maio/follow/checkpoint.h"
#include "policies/maio/follow/evictor.h"
#include "policies/maio/follow/layout.h"
#include "policies/maio/follow/matcher.h"

namespace ppc::maio {

class ProgressNotes {
 public:
  // All outlive it.
  ProgressNotes(Run* run, const Layout* layout, Matcher* matcher, Evictor* evictor)
      : run_(run), layout_(layout), matcher_(matcher), evictor_(evictor) {
    Open();
  }

  // Whether the load was constrained, of one that goes on here; nothing: it begins.  *reason is
  // left where there is nothing to tell.
  std::optional<bool> TakeOver(std::string* reason);
  // Not what is on its way: who comes after finds it in the page cache.
  void Save(bool is_constrained);
  // Enough was released since for another note.
  bool IsDue() const { return evictor_->stats().released >= saved_released_ + kReleasedPerNote; }
  // Somebody else's from now on.
  void OpenAnew();
  // Nothing is to be taken over any more.
  void End();

 private:
  void Open();

  Run* const run_;
  const Layout* const layout_;
  Matcher* const matcher_;
  Evictor* const evictor_;
  Checkpoint checkpoint_;
  uint64_t saved_ns_ = ~0ull;    // last event when progress was saved; nothing was yet
  uint64_t saved_released_ = 0;  // what had been released then
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_PROGRESS_NOTES_H_
