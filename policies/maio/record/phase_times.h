// SPDX-License-Identifier: Apache-2.0
//
// When a service told of each part of its start-up; of each the first time counts.
#ifndef POLICIES_MAIO_RECORD_PHASE_TIMES_H_
#define POLICIES_MAIO_RECORD_PHASE_TIMES_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "policies/maio/template/template.h"

namespace ppc::maio {

class PhaseTimes {
 public:
  // False: it was told of before.
  bool Note(Phase phase, uint64_t start_ns, uint64_t now_ns) {
    if (std::ranges::find(all_, phase, &std::pair<Phase, uint64_t>::first) != all_.end())
      return false;
    all_.emplace_back(phase, (now_ns - std::min(start_ns, now_ns)) / 1'000'000);
    return true;
  }
  // And after how many ms.
  const std::vector<std::pair<Phase, uint64_t>>& all() const { return all_; }

 private:
  std::vector<std::pair<Phase, uint64_t>> all_;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_RECORD_PHASE_TIMES_H_
