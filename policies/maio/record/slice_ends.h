// SPDX-License-Identifier: Apache-2.0
//
// Where a worker's part of a tensor ends.  A large folio is mapped whole, so that what is seen to
// be mapped reaches into the neighbour's part; the model's headers tell how far the worker's own
// goes.
#ifndef POLICIES_MAIO_RECORD_SLICE_ENDS_H_
#define POLICIES_MAIO_RECORD_SLICE_ENDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "policies/maio/template/template.h"

namespace ppc::maio {

class SliceEnds {
 public:
  // Of what a thread has mapped of a file that which it is taken to have read.  own: from the first
  // to the last page of it that the headers give its group; nothing: it reads otherwise than they
  // say.  What is mapped before and behind that is not read, unless it is more than a folio holds,
  // or the thread goes on there.
  Pages Cut(int32_t thread, uint32_t file, Pages mapped, const std::optional<Pages>& own);

 private:
  struct Last {
    uint64_t kept = 0;  // up to here it was taken to be read
    uint64_t end = 0;   // up to here it was mapped
  };
  std::map<std::pair<int32_t, uint32_t>, Last> last_;  // by thread and file
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_RECORD_SLICE_ENDS_H_
