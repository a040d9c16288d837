// SPDX-License-Identifier: Apache-2.0
//
// The part of a model that is in the page cache.  FindCached and IsPartlyCached ask of each file
// and run in the background; FindVanished runs on the events' thread, for kLookBudgetNs at most.
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

// Pieces that were resident and are not any more: from `first` on in the order of the files, up to
// those that are still there, as far as is found in kLookBudgetNs.
std::vector<uint32_t> FindVanished(const ppc_context* context, const Layout& layout,
                                   uint32_t first);

// More than 1/kUnseenShare of the model files (numbers: of each in this run), in bytes.
bool IsPartlyCached(const ppc_context* context, const std::vector<TemplateFile>& files,
                    const std::vector<uint64_t>& numbers);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_FOLLOW_IN_MEMORY_H_
