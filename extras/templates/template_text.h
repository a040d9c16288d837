// SPDX-License-Identifier: Apache-2.0
//
// Templates for people.  Pure functions.
#ifndef EXTRAS_TEMPLATES_TEMPLATE_TEXT_H_
#define EXTRAS_TEMPLATES_TEMPLATE_TEXT_H_

#include <string>

#include "policies/maio/template/template.h"

namespace ppc::maio {

std::string KindName(FileKind kind);

// JSON for `ppcctl template show` (sums) and dump (all).
std::string ToJson(const Template& t, bool extents);

// JSON: files only in one or changed, bytes per group only in one.  *same: nothing differs but
// times and counters.
std::string DiffJson(const Template& a, const Template& b, bool* same);

}  // namespace ppc::maio

#endif  // EXTRAS_TEMPLATES_TEMPLATE_TEXT_H_
