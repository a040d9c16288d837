// SPDX-License-Identifier: Apache-2.0
#include "policies/maio/follow/reload_detector.h"

#include "policies/maio/base/tuning.h"

namespace ppc::maio {

bool ReloadDetector::IsReload(uint32_t group, uint32_t file, uint32_t index, uint64_t now_ns) {
  const bool follows = misses_ != 0 && group == group_ && now_ns < last_ns_ + kReloadNs &&
                       ((file == file_ && index == index_ + 1) || (file != file_ && index == 0));
  // Several windows of one piece are one.
  if (misses_ != 0 && group == group_ && file == file_ && index == index_) return false;
  misses_ = follows ? misses_ + 1 : 1;
  group_ = group;
  file_ = file;
  index_ = index;
  last_ns_ = now_ns;
  return misses_ >= kReloadMisses;
}

}  // namespace ppc::maio
