// SPDX-License-Identifier: Apache-2.0
//
// A template for another number of workers than it was recorded with.  Slices of tensors follow
// each other in the order of the ranks, so with half as many workers each reads what two neighbours
// read, and with twice as many a half of what one read.  The ranks are told by the slices where
// these are clear, else they are the numbers of the workers.
#ifndef POLICIES_MAIO_RECORD_REGROUP_H_
#define POLICIES_MAIO_RECORD_REGROUP_H_

#include <cstdint>

#include "policies/maio/template/template.h"

namespace ppc::maio {

// How many workers share each worker's list now, 1 where none is shared; t is for so many workers.
// 0, and t is as it was: it is already, nobody knows how many it was recorded with or there are,
// one is no multiple of the other, a worker reads something twice, it is put together of several
// nodes' parts, it was cut for another tp than copies of it need, or it would be too large.
// tp, if not 0: that many workers hold the model together, and those after them hold it again.
uint32_t Regroup(Template* t, uint32_t workers, uint32_t tp);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_RECORD_REGROUP_H_
