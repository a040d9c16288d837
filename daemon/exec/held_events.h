// SPDX-License-Identifier: Apache-2.0
// Owns the events that wait until their reader or their file has been looked up.  What a process
// did stays in its order: while one of its events waits, all later ones do.
// Threads: the executor's.
#ifndef PPC_DAEMON_EXEC_HELD_EVENTS_H_
#define PPC_DAEMON_EXEC_HELD_EVENTS_H_

#include <algorithm>
#include <cstddef>
#include <unordered_set>
#include <vector>

#include "daemon/backend/backend.h"

namespace ppc {

class HeldEvents {
 public:
  static constexpr size_t kMax = 32768;

  bool empty() const { return events_.empty(); }
  size_t size() const { return events_.size(); }
  bool Holds(int tgid) const { return !events_.empty() && processes_.contains(tgid); }
  // False: there are too many, it is lost.
  bool Add(const Event& event) {
    if (events_.size() >= kMax) return false;
    events_.push_back(event);
    processes_.insert(event.tgid);
    return true;
  }
  // Gives each to take(event), which says whether it took it; of a process whose event it did not
  // take the later ones are not given.  take() must not call Add.
  template <typename Take>
  void Release(Take take) {
    processes_.clear();
    const auto is_over = [&](const Event& event) {
      if (!processes_.contains(event.tgid) && take(event)) return true;
      processes_.insert(event.tgid);
      return false;
    };
    events_.erase(std::remove_if(events_.begin(), events_.end(), is_over), events_.end());
  }

 private:
  std::vector<Event> events_;
  std::unordered_set<int> processes_;
};

}  // namespace ppc

#endif  // PPC_DAEMON_EXEC_HELD_EVENTS_H_
