// SPDX-License-Identifier: Apache-2.0
//
// Whether a model that has been read is being read anew: misses in a row of one
// group, piece after piece.
#ifndef POLICIES_MAIO_FOLLOW_RELOAD_DETECTOR_H_
#define POLICIES_MAIO_FOLLOW_RELOAD_DETECTOR_H_

#include <cstdint>

namespace ppc::maio {

class ReloadDetector {
 public:
  // A miss; index: of its piece in the group's list of that file.
  bool IsReload(uint32_t group, uint32_t file, uint32_t index, uint64_t now_ns);

 private:
  // The last one, and how many in a row.
  uint32_t group_ = 0;
  uint32_t file_ = 0;
  uint32_t index_ = 0;
  uint64_t last_ns_ = 0;
  uint32_t misses_ = 0;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_RELOAD_DETECTOR_H_
