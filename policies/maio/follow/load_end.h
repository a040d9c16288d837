// SPDX-License-Identifier: Apache-2.0
//
// Whether a load has ended though nobody said so: every reader is at the end of what it reads, or
// nothing has come of the load for a while after a good part of the model was read.  Asked at every
// tick, by the policy's one thread; has no clock of its own.
#ifndef POLICIES_MAIO_FOLLOW_LOAD_END_H_
#define POLICIES_MAIO_FOLLOW_LOAD_END_H_

#include <algorithm>
#include <cstdint>

#include "policies/maio/base/tuning.h"

namespace ppc::maio {

class LoadEnd {
 public:
  // activity: any number that changes whenever something of the load is read for the first time or
  // loaded.  read_bytes: of the model, by its readers.  news_ns: when something was read for the
  // first time, where that is known later than it happens.
  bool HasEnded(uint64_t activity, uint64_t read_bytes, bool is_at_end, uint64_t now_ns,
                uint64_t news_ns = 0) {
    if (activity != activity_ || active_ns_ == 0) {
      activity_ = activity;
      active_ns_ = now_ns;
    }
    active_ns_ = std::max(active_ns_, std::min(news_ns, now_ns));
    // The kernel's read-ahead comes to the end before its reader, and a second model may follow.
    // A reader that goes back and reads next to nothing new computes from what it has loaded.
    const bool has_news = read_bytes > end_bytes_ + kSubstantialBytes;
    if (!is_at_end && has_news) at_end_ns_ = 0;
    if (is_at_end && at_end_ns_ == 0) at_end_ns_ = now_ns;
    if (is_at_end) end_bytes_ = read_bytes;
    if (at_end_ns_ != 0 && now_ns >= at_end_ns_ + kAtEndNs) return true;
    return read_bytes >= kSubstantialBytes && now_ns >= active_ns_ + kQuietNs;
  }

  // All readers are, or were, at the end, and have read nothing new since.
  bool is_at_end() const { return at_end_ns_ != 0; }

 private:
  uint64_t activity_ = 0;
  uint64_t active_ns_ = 0;  // when it changed last; 0: not asked yet
  uint64_t at_end_ns_ = 0;  // all readers are, or were, at the end since then; 0: they were not
  uint64_t end_bytes_ = 0;  // read_bytes then
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_LOAD_END_H_
