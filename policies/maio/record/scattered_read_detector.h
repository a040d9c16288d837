// SPDX-License-Identifier: Apache-2.0
//
// Whether what is read for the first time lies here and there, in little steps: a memory image, an
// index, a table that is gathered from.  New pages come of such readers for hours.
#ifndef POLICIES_MAIO_RECORD_SCATTERED_READ_DETECTOR_H_
#define POLICIES_MAIO_RECORD_SCATTERED_READ_DETECTOR_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "policies/maio/base/tuning.h"

namespace ppc::maio {

class ScatteredReadDetector {
 public:
  void Note(uint32_t file, uint64_t first_page, uint64_t end_page) {
    const bool is_small =
        !GoesOn(file, first_page, end_page) && end_page - first_page < kSmallReadPages;
    small_reads_ += (is_small ? kWindow : 0) - small_reads_ / kWindow;
  }
  // One of eight of the last 64, more or less.
  bool IsScattered() const { return small_reads_ >= kWindow * kWindow / 8; }

 private:
  static constexpr size_t kWindow = 64;
  static constexpr size_t kReaders = 256;  // of all ranks, threads of their own

  // Of one of several threads, over gaps of a tensor that is split by columns.
  bool GoesOn(uint32_t file, uint64_t first, uint64_t end) {
    Place* oldest = &places_[0];
    ++now_;
    for (Place& place : places_) {
      if (place.used < oldest->used) oldest = &place;
      if (place.file != file || first < place.end || first > place.end + kStepGapPages) continue;
      place = {file, end, now_};
      return true;
    }
    *oldest = {file, end, now_};
    return false;
  }

  struct Place {
    uint32_t file = ~0u;
    uint64_t end = 0;  // page
    uint64_t used = 0;
  };
  std::array<Place, kReaders> places_;
  uint64_t now_ = 0;
  uint64_t small_reads_ = 0;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_RECORD_SCATTERED_READ_DETECTOR_H_
