// SPDX-License-Identifier: Apache-2.0
//
// What a service reads before it is known what to do with it.
#ifndef POLICIES_MAIO_BASE_EARLY_EVENTS_H_
#define POLICIES_MAIO_BASE_EARLY_EVENTS_H_

#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "policies/maio/base/tuning.h"
#include "ppc.h"

namespace ppc::maio {

class EarlyEvents {
 public:
  void Put(const miss_io& event) {
    if (events_.size() < kMaxEarly) {
      events_.push_back({event, event.path != nullptr ? event.path : ""});
    } else {
      has_lost_ = true;
    }
  }
  // There were too many, once.
  bool has_lost() const { return has_lost_; }
  // All of them, and none is kept.
  void Replay(const std::function<void(const miss_io&)>& take) {
    for (Early& early : std::exchange(events_, {})) {
      early.event.path = early.path.empty() ? nullptr : early.path.c_str();
      take(early.event);
    }
  }

 private:
  struct Early {
    miss_io event;
    std::string path;
  };
  std::deque<Early> events_;
  bool has_lost_ = false;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_BASE_EARLY_EVENTS_H_
