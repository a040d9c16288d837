// SPDX-License-Identifier: Apache-2.0
// Owns the question whether a template's files are still those that were recorded.
// Threads: a pure function of the template and the files.
#ifndef PPC_EXTRAS_TEMPLATES_STALE_FILES_H_
#define PPC_EXTRAS_TEMPLATES_STALE_FILES_H_

#include <string>

#include "daemon/base/json.h"
#include "policies/maio/template/template.h"

namespace ppc::ctl {

// What of it is not below `root` as it was: {"path": ..., "problem": ...} each.  Reads the parts of
// each file that its fingerprint is made of.
Json StaleFiles(const maio::Template& t, const std::string& root);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_TEMPLATES_STALE_FILES_H_
