// SPDX-License-Identifier: Apache-2.0
//
// Templates next to each other: merging the parts of several nodes, and taking
// changed files from another template.
// Pure functions.
#ifndef POLICIES_MAIO_TEMPLATE_TEMPLATE_COMPARE_H_
#define POLICIES_MAIO_TEMPLATE_TEMPLATE_COMPARE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "policies/maio/template/template.h"

namespace ppc::maio {

// Copies differ in times only; an unknown fingerprint says nothing.
bool SameFile(const TemplateFile& a, const TemplateFile& b);

// Parts of one service, of several nodes or attempts.  A worker listed by several parts is taken
// from the newest; what belongs to no worker is put together.  An error names two parts' file that
// is not the same file.
std::optional<Template> Merge(std::span<const Template> parts, std::string* error);

// Appends to each group what only fresh lists for it, in the order of fresh; files that are not the
// same in both are left as they are.
void CompleteWith(Template* t, const Template& fresh);

// Takes file (an index) and its extents from fresh, which lists it alone: in each group at the
// place where the first extent of the old one was.  Workers that never read it do not from now on,
// either.  False when a worker that did is missing in fresh.
bool ReplaceFile(Template* t, uint32_t file, const Template& fresh);

}  // namespace ppc::maio

#endif  // POLICIES_MAIO_TEMPLATE_TEMPLATE_COMPARE_H_
