// SPDX-License-Identifier: Apache-2.0
// Owns the verb `ppcctl report`.
#ifndef PPC_EXTRAS_REPORT_REPORT_VERB_H_
#define PPC_EXTRAS_REPORT_REPORT_VERB_H_

#include "tools/ppcctl/args.h"

namespace ppc::ctl {

int Report(const Args& args);

}  // namespace ppc::ctl

#endif  // PPC_EXTRAS_REPORT_REPORT_VERB_H_
