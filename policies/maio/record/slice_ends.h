// SPDX-License-Identifier: Apache-2.0
//
// Where a worker's part of a tensor ends.  A large folio is mapped whole, so that what is seen to
// be mapped reaches into the neighbour's part; the model's headers tell how far the worker's own
// goes.
#ifndef POLICIES_MAIO_RECORD_SLICE_ENDS_H_
#define POLICIES_MAIO_RECORD_SLICE_ENDS_H_

#include <cstdint>
#include <map>
#include <utility>

#include "policies/maio/follow/layout.h"

namespace ppc::maio {

class SliceEnds {
 public:
  // Of mapped pages [first, end) of a file those that the group is taken to have read: not what is
  // none of its parts before the first and behind the last of them, unless it goes on there.  Where
  // it has no part it reads otherwise than the headers say.  file: of the layout.
  std::pair<uint64_t, uint64_t> Cut(const Layout& headers, uint32_t group, uint32_t file,
                                    uint64_t first, uint64_t end);

 private:
  struct Last {
    uint64_t kept = 0;  // up to here it was taken to be read
    uint64_t end = 0;   // up to here it was mapped
  };
  std::map<std::pair<uint32_t, uint32_t>, Last> last_;  // by group and file
};

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_RECORD_SLICE_ENDS_H_
