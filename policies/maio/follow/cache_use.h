// SPDX-License-Identifier: Apache-2.0
//
// Which workers read the model through the page cache.  What one reads with O_DIRECT, past the page
// cache, is not loaded ahead for it: it would be read twice.  Where nothing is known of a service's
// loader, no worker is served before one has read more than headers through the page cache.
#ifndef POLICIES_MAIO_FOLLOW_CACHE_USE_H_
#define POLICIES_MAIO_FOLLOW_CACHE_USE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "policies/maio/base/tuning.h"

namespace ppc::maio {

class CacheUse {
 public:
  // model_bytes: of all that may be loaded; waits: nothing is known of the loader.
  CacheUse(size_t groups, uint64_t model_bytes, bool waits)
      : need_(std::min(kSeenBytes, model_bytes / kSeenShare)),
        groups_(groups, Group{waits ? need_ : 0, false}),
        waiting_(waits && need_ != 0 ? groups : 0) {}

  // Nothing is loaded for the group.
  bool Waits(uint32_t group) const { return groups_[group].missing != 0; }
  size_t waiting() const { return waiting_; }
  // Some worker has read past the page cache.
  bool has_passed() const { return has_passed_; }

  // A worker (`group`; of no group: any) reads so much through the page cache, as do those of which
  // nothing else was seen.  Calls start(group) for each that is served from now on.
  template <typename Start>
  void Read(int32_t group, uint64_t bytes, Start start) {
    if (waiting_ == 0) return;
    for (uint32_t g = 0; g < groups_.size(); g++) {
      Group& each = groups_[g];
      if (each.missing == 0 || (each.is_direct && static_cast<int32_t>(g) != group)) continue;
      each.missing -= std::min(each.missing, bytes);
      if (each.missing != 0) continue;
      each.is_direct = false;
      waiting_--;
      start(g);
    }
  }

  // A worker (of no group: all) reads past it.  Calls stop(group) for each that was served.
  template <typename Stop>
  void Pass(int32_t group, Stop stop) {
    has_passed_ = true;
    for (uint32_t g = 0; need_ != 0 && g < groups_.size(); g++) {
      if (group >= 0 && static_cast<int32_t>(g) != group) continue;
      Group& each = groups_[g];
      const bool was_served = each.missing == 0;
      each = {need_, true};
      if (!was_served) continue;
      waiting_++;
      stop(g);
    }
  }

 private:
  struct Group {
    uint64_t missing = 0;    // bytes to be read through the page cache before it is served
    bool is_direct = false;  // it was seen to read past it
  };

  const uint64_t need_;
  std::vector<Group> groups_;
  size_t waiting_;
  bool has_passed_ = false;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_CACHE_USE_H_
