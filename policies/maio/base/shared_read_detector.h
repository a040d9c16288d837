// SPDX-License-Identifier: Apache-2.0
//
// Whether what was read of late is one process's.  A few reads of another are a look: at a header,
// by a tool.
#ifndef POLICIES_MAIO_BASE_SHARED_READ_DETECTOR_H_
#define POLICIES_MAIO_BASE_SHARED_READ_DETECTOR_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "policies/maio/base/tuning.h"

namespace ppc::maio {

class SharedReadDetector {
 public:
  // Pids are reused, and there are several process 1.
  using Process = std::pair<int32_t, uint64_t>;  // pid, start time

  void Note(const Process& process) {
    ++all_;
    for (auto& [known, reads] : known_) {
      if (reads != 0 && known != process) continue;
      known = process;
      ++reads;
      return;
    }
  }
  bool IsShared() const {
    return all_ - std::max(known_[0].second, known_[1].second) > all_ / kSharedShare;
  }
  void Forget() { *this = {}; }

 private:
  std::array<std::pair<Process, uint64_t>, 2> known_ = {};  // reads of the first two
  uint64_t all_ = 0;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_BASE_SHARED_READ_DETECTOR_H_
