// SPDX-License-Identifier: Apache-2.0
//
// Whether what is read for the first time lies here and there, in little steps: a memory image, an
// index, a table that is gathered from.  New pages come of such readers for hours.
#ifndef POLICIES_MAIO_RECORD_STEPS_H_
#define POLICIES_MAIO_RECORD_STEPS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "policies/maio/base/tuning.h"

namespace ppc::maio {

class Steps {
 public:
  void Note(uint32_t file, uint64_t first_page, uint64_t end_page) {
    const bool is_crumb =
        !GoesOn(file, first_page, end_page) && end_page - first_page < kCrumbPages;
    crumbs_ += (is_crumb ? kWindow : 0) - crumbs_ / kWindow;
  }
  // One of eight of the last 64, more or less.
  bool AreScattered() const { return crumbs_ >= kWindow * kWindow / 8; }

 private:
  static constexpr size_t kWindow = 64;

  // Of one of several threads, over gaps of a tensor that is split by columns.
  bool GoesOn(uint32_t file, uint64_t first, uint64_t end) {
    for (Place& place : places_) {
      if (place.file != file || first < place.end || first > place.end + kStepGapPages) continue;
      place.end = end;
      return true;
    }
    places_[next_++ % kWindow] = {file, end};
    return false;
  }

  struct Place {
    uint32_t file = ~0u;
    uint64_t end = 0;  // page
  };
  std::array<Place, kWindow> places_;
  size_t next_ = 0;
  uint64_t crumbs_ = 0;
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_RECORD_STEPS_H_
