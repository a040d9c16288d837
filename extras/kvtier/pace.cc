// SPDX-License-Identifier: Apache-2.0
#include "extras/kvtier/pace.h"

#include <algorithm>

namespace ppc::kvtier {
namespace {

// Readers take many objects at once, then none for a while: the mean counts.
uint64_t Smooth(uint64_t old, uint64_t sample, uint64_t weight) {
  return old == 0 ? sample : old - old / weight + sample / weight;
}

}  // namespace

void Pace::Arrive(uint64_t now_ns, bool has_waited, bool was_expected) {
  if (arrived_ns_ != 0 && now_ns >= arrived_ns_) {
    const uint64_t step = now_ns - arrived_ns_;
    Count(step, has_waited);
    if (!has_waited_) {
      step_ns_ = is_measured_ ? Smooth(step_ns_, step, 64) : step;
      is_measured_ = true;
    } else if (!is_measured_) {
      // The sample includes the disk's time: the reader itself is faster.
      step_ns_ = step_ns_ == 0 ? step : std::min(step_ns_, step);
    }
  }
  arrived_ns_ = now_ns;
  has_waited_ = has_waited;
  since_boost_++;
  if (!was_expected) return;
  if (has_waited) {
    in_time_ = 0;
    // One delay makes all loads under way late: wait until the new distance has taken effect.
    if (since_boost_ > Needed() / 2 && boost_ < kMostBoost) {
      boost_ *= 2;
      since_boost_ = 0;
    }
  } else if (++in_time_ >= kCalm && boost_ > 1) {
    boost_ /= 2;
    in_time_ = 0;
  }
}

// Objects that follow each other faster than any could be loaded must be cached before the first is
// read: as many as in the last bursts.
void Pace::Count(uint64_t step, bool has_waited) {
  if (load_ns_ == 0) return;  // the speed of loads is unknown
  // A reader that waited did so for its load, and for loads before it in the queue.
  const uint64_t own = has_waited ? step / 4 : step;
  if (own < load_ns_) {
    if (!has_waited) in_burst_ = std::min(in_burst_ + 1, kMostBurst);
    return;
  }
  burst_ = std::max(in_burst_, burst_ - (burst_ + 7) / 8);
  in_burst_ = 0;
}

// The minimum excludes our own queue; it rises again when the device is slow.
void Pace::Loaded(uint64_t took_ns) {
  load_ns_ = load_ns_ == 0 || took_ns < load_ns_ ? took_ns : Smooth(load_ns_, took_ns, 64);
}

Pace Pace::OfNext() const {
  Pace next;
  next.step_ns_ = step_ns_;
  next.load_ns_ = load_ns_;
  next.burst_ = burst_;
  return next;
}

uint64_t Pace::Needed() const {
  if (load_ns_ == 0) return kUnknown;
  const uint64_t step = std::max<uint64_t>(step_ns_, 1000);
  return std::min<uint64_t>((2 + 2 * load_ns_ / step) * boost_ + burst_, 1 << 20);
}

}  // namespace ppc::kvtier
