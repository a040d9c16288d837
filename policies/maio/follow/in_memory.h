// SPDX-License-Identifier: Apache-2.0
//
// What of a model is in the page cache.  Asks of each file, so it is run in the background.
#ifndef POLICIES_MAIO_FOLLOW_IN_MEMORY_H_
#define POLICIES_MAIO_FOLLOW_IN_MEMORY_H_

#include <cstdint>
#include <vector>

#include "policies/maio/follow/layout.h"
#include "policies/maio/template/template.h"
#include "ppc.h"

namespace ppc::maio {

// Pieces that are there as a whole, as far as was found in kFindBudgetNs.
std::vector<uint32_t> FindCached(const ppc_context* context, const Layout& layout);

// More than 1/kUnseenShare of the model files (numbers: of each in this run), in bytes.
bool IsPartlyThere(const ppc_context* context, const std::vector<TemplateFile>& files,
                   const std::vector<uint64_t>& numbers);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_IN_MEMORY_H_
