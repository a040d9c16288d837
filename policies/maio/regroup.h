// SPDX-License-Identifier: Apache-2.0
//
// A template for another number of workers than it was recorded with.  Slices of tensors follow
// each other in the order of the workers, so with half as many each reads what two neighbours
// read, and with twice as many a half of what one read.
#ifndef POLICIES_MAIO_REGROUP_H_
#define POLICIES_MAIO_REGROUP_H_

#include <cstdint>

#include "policies/maio/template.h"

namespace ppc::maio {

// True: t is for so many workers now.  False, and t is as it was: it is already, nobody knows how
// many it was recorded with or there are, one is no multiple of the other, a worker reads
// something twice, or it is put together of several nodes' parts.
bool Regroup(Template* t, uint32_t workers);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_REGROUP_H_
